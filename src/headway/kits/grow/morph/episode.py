"""One episode of one host, step by step: what `headway grow evaluate` draws as lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.morph.baselines import Chooser
from headway.kits.grow.morph.world import MorphWorld

__all__ = ["EpisodeLanes", "lanes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLanes:
    """[epoch, slot] each but `accuracy` [epoch]."""

    stages: NDArray[np.int64]
    alphas: NDArray[np.float64]
    contributions: NDArray[np.float64]
    blueprints: NDArray[np.int64]
    accuracy: NDArray[np.float64]


def lanes(chooser: Chooser, *, seed: int, device: str = "cpu", **settings: Any) -> EpisodeLanes:
    """The first host of a world from its start to its end."""
    world = MorphWorld(1, device=device, **settings)
    world.reset(seed)
    stages, alphas, contributions, blueprints, accuracy = [], [], [], [], []
    ended = False
    while not ended:
        slots = world.slots
        stages.append(slots.stage[0].tolist())
        alphas.append(slots.alpha[0].tolist())
        contributions.append(slots.contribution[0].tolist())
        blueprints.append(slots.blueprint[0].tolist())
        accuracy.append(float(world.history.accuracies[0, -1]))
        ended = bool(world.step(chooser(world)).terminated[0])
    return EpisodeLanes(
        stages=np.array(stages),
        alphas=np.array(alphas),
        contributions=np.array(contributions),
        blueprints=np.array(blueprints),
        accuracy=np.array(accuracy),
    )
