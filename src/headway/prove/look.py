"""How a candidate looks on rows that it was trained on. They flatter it: a look is never evidence."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from headway.prove.log import Log

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


def look_at(log: Log) -> Look:
    """Candidate minus current: doubly robust, with the mean reward of each action as the reward model."""
    shift, action, rows = log.target - log.baseline, log.action, np.arange(len(log))
    counts = np.bincount(action, minlength=len(log.arms))
    totals = np.bincount(action, weights=log.reward, minlength=len(log.arms))
    means = np.where(counts > 0, totals / np.maximum(counts, 1), log.reward.mean())
    scores = shift @ means + shift[rows, action] / log.propensity * (log.reward - means[action])
    spread = float(scores.std(ddof=1)) if rows.size > 1 else inf
    return Look(
        rows=rows.size,
        moved=float(np.abs(shift).max(initial=0.0)),
        difference=float(scores.mean()),
        error=spread / float(np.sqrt(rows.size)),
    )
