"""Plays policies in fresh episodes and reads what they reached on test images.

What a policy's parts are worth: the same policy without one of them, on the same hosts.

- no memory          the memory is 0 at every step
- no feedback        the seven inputs about the last action are 0
- no contributions   what the ablations measured is 0: contribution, its velocity, interaction and boost
- no blueprints      every slot looks empty
- random HEAD        the choice of one head is drawn from what its mask allows

Episodes of hosts, step by step: what `headway grow evaluate` draws as lanes, and keeps for the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.kits.grow.factored.draw import best
from headway.kits.grow.factored.space import FactoredPolicy, Observations
from headway.kits.grow.kept_evaluations import GrowEpisode, SlotLane
from headway.kits.grow.morph.baselines import Chooser, random_valid
from headway.kits.grow.morph.blueprints import EMPTY, NAMES, OPS, SPACE
from headway.kits.grow.morph.lifecycle import SeedStage
from headway.kits.grow.morph.observation import FEEDBACK, NAMES_OF_FEATURES
from headway.kits.grow.morph.world import MorphWorld

_MEASURED = ("contribution", "contribution velocity", "interaction", "boost")
_CONTRIBUTIONS = tuple(
    column for column, name in enumerate(NAMES_OF_FEATURES) if any(name.endswith(f" {word}") for word in _MEASURED)
)


def policy_chooser(policy: FactoredPolicy) -> Chooser:
    """The likeliest action of a policy at every step, with a memory that starts at 0."""
    memory: dict[int, Any] = {}

    def choose(world: MorphWorld) -> Tensor:
        observations, masks = as_arrays(*world.present())
        before = memory.get(0, np.zeros((world.count, policy.memory_width)))
        opinions = policy.scores(observations, before)
        memory[0] = opinions.memory
        return torch.as_tensor(best(policy.space, opinions.scores, masks), device=world.device)

    return choose


@dataclass(frozen=True, slots=True)
class EpisodeTable:
    """One number per host and measure: accuracy, rent, … (`MorphWorld` info "episode"), and `net` = accuracy − rent."""

    columns: Mapping[str, NDArray[Any]]
    ops: NDArray[np.int64]  # [operation]: how often each was taken
    blueprints: NDArray[np.int64]  # [blueprint]: how often each was germinated

    @property
    def net(self) -> NDArray[np.float64]:
        """Test accuracy less rent and the cost of actions; the penalty of the governor is a cost."""
        return self.columns["net"]


def played(chooser: Chooser, *, seed: int, count: int, device: str = "cpu", **settings: Any) -> EpisodeTable:
    """One episode of each of `count` hosts, on test images. The same seed gives the same hosts to every chooser."""
    world = MorphWorld(count, device=device, held_out=True, **settings)
    world.reset(seed)
    columns: dict[str, NDArray[Any]] = {}
    waiting = np.ones(count, dtype=bool)
    ops, blueprints = np.zeros(len(OPS), dtype=np.int64), np.zeros(SPACE.sizes[2], dtype=np.int64)
    while waiting.any():
        actions = chooser(world)
        taken = actions.cpu().numpy()[waiting]
        ops += np.bincount(taken[:, 0], minlength=len(OPS))
        sown = taken[taken[:, 0] == OPS.index("GERMINATE"), 2]
        blueprints += np.bincount(sown, minlength=len(blueprints))
        result = world.step(actions)
        ended = _array(result.terminated)
        if ended.any():
            place = np.flatnonzero(ended)
            first = waiting[place]  # a host that was stopped early has begun another episode, which does not count
            for name, value in result.info["episode"].items():
                columns.setdefault(name, np.zeros(count))[place[first]] = _array(value)[first]
            waiting[place] = False
    columns["net"] = columns["test_accuracy"] - columns["rent"] - columns["costs"] - columns["penalty"]
    return EpisodeTable(columns, ops, blueprints)


def as_arrays(
    observations: Observations, masks: Mapping[str, Any]
) -> tuple[Observations, dict[str, NDArray[np.bool_]]]:
    """What a policy in numpy takes, from a world on any device."""
    seen = Observations(_array(observations.features), _array(observations.indices))
    return seen, {name: _array(mask) for name, mask in masks.items()}


def _array(value: Any) -> NDArray[Any]:
    return np.asarray(value.cpu() if isinstance(value, torch.Tensor) else value)


def without(policy: FactoredPolicy) -> Mapping[str, Callable[[], Chooser]]:
    """The policy whole, and without each of its parts, by name."""
    ways: dict[str, Callable[[], Chooser]] = {
        "whole": partial(_chooser, policy),
        "no memory": partial(_chooser, policy, forgets=True),
        "no feedback": partial(_chooser, policy, hidden=FEEDBACK),
        "no contributions": partial(_chooser, policy, hidden=_CONTRIBUTIONS),
        "no blueprints": partial(_chooser, policy, blind=True),
    }
    for head in SPACE.names[1:]:
        ways[f"random {head}"] = partial(_chooser, policy, drawn=head)
    return ways


def _chooser(
    policy: FactoredPolicy,
    *,
    forgets: bool = False,
    hidden: tuple[int, ...] = (),
    blind: bool = False,
    drawn: str = "",
) -> Chooser:
    memory: dict[int, Any] = {}
    anything, rng = random_valid(0), torch.Generator().manual_seed(0)

    def choose(world: MorphWorld) -> Tensor:
        observations, masks = as_arrays(*world.present())
        features = observations.features.copy()
        features[:, list(hidden)] = 0.0
        indices = np.full_like(observations.indices, EMPTY) if blind else observations.indices
        before = np.zeros((world.count, policy.memory_width))
        opinions = policy.scores(Observations(features, indices), before if forgets else memory.get(0, before))
        memory[0] = opinions.memory
        actions = torch.as_tensor(best(policy.space, opinions.scores, masks), device=world.device)
        if drawn:
            _draw_head(world, actions, drawn, anything, rng)
        return actions

    return choose


def _draw_head(world: MorphWorld, actions: Tensor, head: str, anything: Chooser, rng: torch.Generator) -> None:
    """Replace one head's choice by a random one that its mask allows under the operation taken."""
    place = SPACE.index(head)
    if head == "slot":
        mask = world.masks["slot"][torch.arange(world.count, device=world.device), actions[:, 0]]
        drawn = torch.where(mask, torch.rand(mask.shape, generator=rng).to(mask.device), -1.0)
        actions[:, place] = drawn.argmax(dim=1)
    else:
        actions[:, place] = anything(world)[:, place]


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
        steps.append(tuple(_copied(each) for each in kept))
        ended = _copied(world.step(actions).terminated).astype(bool)
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


def _copied(value: Any) -> NDArray[Any]:
    made: NDArray[Any] = value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else np.array(value)
    return made
