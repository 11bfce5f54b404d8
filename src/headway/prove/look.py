"""How a candidate looks on rows that it was trained on. They flatter it: a look is never evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

import numpy as np

from headway.nouns import Candidate, Decision, Floats, Settled, Situation

Distributions = Callable[[Sequence[Situation], Sequence[Sequence[Candidate]], Sequence[int]], Floats]

_BATCH = 1000
_SAME = 1e-9
_CLEAR = 1.0  # standard errors; a later start costs more decisions than a poor first candidate does


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a candidate compares with the current policy on the rows that it was trained on."""

    rows: int
    moved: float  # the largest difference of two probabilities
    difference: float  # candidate minus current
    error: float  # the standard error of the difference

    @property
    def same(self) -> bool:
        """Whether both make the same choices: there is nothing to prove."""
        return self.moved <= _SAME

    @property
    def clear(self) -> bool:
        """Whether the candidate looks better by more than a standard error. It has read these rows: no evidence."""
        return self.difference > _CLEAR * self.error


def look_at(
    rows: Sequence[Settled],
    offered: Callable[[Decision], Sequence[Candidate]],
    target: Distributions,
    current: Distributions,
) -> Look:
    """Candidate minus current: doubly robust, with the mean reward of each action as the reward model."""
    given: dict[str, list[float]] = {}
    for row in rows:
        given.setdefault(row.decision.action, []).append(row.reward or 0.0)
    means = {action: sum(rewards) / len(rewards) for action, rewards in given.items()}
    overall = sum(row.reward or 0.0 for row in rows) / len(rows)
    scores: list[float] = []
    moved = 0.0
    stream = iter(rows)
    while batch := list(islice(stream, _BATCH)):
        sets = [offered(row.decision) for row in batch]
        asked = [row.decision.situation for row in batch], sets, [row.decision.seed for row in batch]
        shifts = target(*asked) - current(*asked)
        moved = max(moved, float(np.abs(shifts).max(initial=0.0)))
        for row, candidates, shift in zip(batch, sets, shifts, strict=True):
            decision, names = row.decision, [candidate.name for candidate in candidates]
            model = np.array([means.get(name, overall) for name in names])
            score = float(shift[: len(names)] @ model)
            if decision.action in names:
                place = names.index(decision.action)
                score += float(shift[place] / decision.propensity * ((row.reward or 0.0) - model[place]))
            scores.append(score)
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else inf
    return Look(
        rows=len(rows), moved=moved, difference=float(np.mean(scores)), error=spread / float(np.sqrt(len(scores)))
    )
