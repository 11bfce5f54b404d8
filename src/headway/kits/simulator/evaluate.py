"""Plays ways of choosing on the same problems with the same attempts, and compares what they are worth.

played = played_by(part, chooser, attempts=4)      # [problem × attempt]: value net of cost, and whether it was solved
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.kits.simulator.split import ENCODER, ProblemPart
from headway.kits.simulator.world import MOST_STEPS, SimWorld

Floats = NDArray[np.float64]
Chooser = Callable[[SimWorld, NDArray[np.float32]], NDArray[np.int64]]  # world, observations → actions [copy]


@dataclass(frozen=True, slots=True)
class PlayedProblems:
    """[problem, attempt] each."""

    values: Floats
    solved: Floats
    costs: Floats
    actions: NDArray[np.int64]  # [problem, attempt, step]; -1 after the end


def played_by(
    part: ProblemPart, choose: Chooser, *, attempts: int, seed: int, encoder: str = ENCODER
) -> PlayedProblems:
    """Every problem `attempts` times; the same seed gives every chooser the same drafts."""
    problems = len(part.problems)
    count = problems * attempts
    world = part.world(count, encoder)
    draws = np.random.default_rng([seed, 0xE7A1]).integers(1 << 62, size=count).astype(np.uint64)
    at = np.repeat(np.arange(problems), attempts)
    observations = world.start(at, draws)
    values, costs, solved, over = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count, dtype=np.bool_)
    actions = np.full((count, MOST_STEPS), -1)
    for step in range(MOST_STEPS):
        chosen = choose(world, observations)
        actions[~over, step] = chosen[~over]
        observations, rewards, ended, _, info = world.step(chosen)
        metrics = info["metrics"]
        values += np.where(over, 0.0, rewards)
        costs += np.where(over, 0.0, metrics["cost"])
        solved += np.where(over, 0.0, metrics["solved"])
        over |= ended
        if over.all():
            break
    shape = (problems, attempts)
    return PlayedProblems(
        values.reshape(shape), solved.reshape(shape), costs.reshape(shape), actions.reshape(*shape, MOST_STEPS)
    )
