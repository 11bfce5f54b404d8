"""Episodes of hosts, step by step: what `headway grow evaluate` draws as lanes, and keeps for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headway.kits.grow.morph.baselines import Chooser
from headway.kits.grow.morph.blueprints import NAMES
from headway.kits.grow.morph.lifecycle import SeedStage
from headway.kits.grow.morph.space import SPACE
from headway.kits.grow.morph.world import MorphWorld
from headway.kits.grow.shown import GrowEpisode, SlotLane


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLanes:
    """[epoch, slot] each but `accuracy` [epoch] and `actions` [epoch, head]; before the action of the epoch."""

    stages: NDArray[np.int64]
    alphas: NDArray[np.float64]
    contributions: NDArray[np.float64]
    blueprints: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    actions: NDArray[np.int64]


def lanes(
    chooser: Chooser, *, seed: int, hosts: int = 1, device: str = "cpu", **settings: Any
) -> tuple[EpisodeLanes, ...]:
    """The first episode of every host, from its start to its end."""
    world = MorphWorld(hosts, device=device, **settings)
    world.reset(seed)
    steps: list[tuple[NDArray[Any], ...]] = []
    ends = np.zeros(hosts, dtype=np.int64)
    while not ends.all():
        slots, actions = world.slots, chooser(world)
        kept = (slots.stage, slots.alpha, slots.contribution, slots.blueprint, world.history.accuracies[:, -1], actions)
        steps.append(tuple(_array(each) for each in kept))
        ended = _array(world.step(actions).terminated).astype(bool)
        ends[ended & (ends == 0)] = len(steps)
    whole = [np.stack(part) for part in zip(*steps, strict=True)]  # [epoch, host, …]
    names = ("stages", "alphas", "contributions", "blueprints", "accuracy", "actions")
    return tuple(
        EpisodeLanes(**{name: part[:end, host] for name, part in zip(names, whole, strict=True)})
        for host, end in enumerate(ends.tolist())
    )


def shown_episode(episode: EpisodeLanes) -> GrowEpisode:
    """The same with names instead of numbers."""
    return GrowEpisode(
        slots=[
            SlotLane(
                slot=name,
                stages=[SeedStage(stage).name for stage in episode.stages[:, slot].tolist()],
                blueprints=[(*NAMES, "")[place] for place in episode.blueprints[:, slot].tolist()],
                alphas=np.round(episode.alphas[:, slot].astype(float), 4).tolist(),
                contributions=np.round(episode.contributions[:, slot].astype(float), 4).tolist(),
            )
            for slot, name in enumerate(SPACE.heads[1].choices)
        ],
        accuracy=np.round(episode.accuracy.astype(float), 4).tolist(),
        operations=[_said(action) for action in episode.actions.tolist()],
    )


def _said(action: list[int]) -> str:
    """GERMINATE r0c2 LORA …: the choices of the heads that the operation uses."""
    used = SPACE.relevant[action[0]]
    return " ".join(
        head.choices[choice] for head, choice, counts in zip(SPACE.heads, action, used, strict=True) if counts
    )


def _array(value: Any) -> NDArray[Any]:
    made: NDArray[Any] = value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else np.array(value)
    return made
