"""Plays policies in fresh episodes and reads what they reached on test images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.kits.grow.factored.draw import best
from headway.kits.grow.factored.space import FactoredPolicy, Observations
from headway.kits.grow.morph.baselines import Chooser
from headway.kits.grow.morph.space import OPS, SPACE
from headway.kits.grow.morph.world import MorphWorld


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
