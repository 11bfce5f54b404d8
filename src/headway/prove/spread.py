"""How far a displayed estimate may be off, from the known probabilities of a log.

Rows with a heavy weight are rare: among 200 decisions that try each of four other actions with probability .02, some
four carry all that the log says about one of them. The spread of the scores so far, and any bootstrap of them, is too
small until such rows have occurred. The probabilities are known, though, and with a reward model's noise they give the
variance of a score whether or not its heavy rows are among the rows (`ScoreTally.model_variance`). The interval is
value ± t·√(v/n), and errs on the wide side in three ways:

- v is the larger of the empirical and the model's variance, and an action's noise is at least that of its own rows;
- every action counts as if `SURPRISES` more of its decisions had been off by the whole range, among `AMONG` more: a
  disaster that happens once in a hundred decisions has often not happened yet;
- t is Student's quantile for the effective number of heavy rows, and `MORE`.

Rows that count at their worst value widen it on both sides. Checked in worlds of known value by benchmarks/proof.py,
on other worlds and seeds than those on which the constants were chosen.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from headway.prove.log import Floats, Integers, Log
from headway.prove.sequential import quantile
from headway.prove.tally import NOISE_FLOOR, noise_ratio

SURPRISES = 4.0
AMONG = 100.0
MORE = 1.0
LEAST = 10  # rows; with fewer, the interval is all that is possible


def possible(reward: Floats, declared: tuple[float, float] | None) -> tuple[float, float]:
    """The range of the rewards: the declared one, or that of the rows and of 0 to 1."""
    if declared is not None:
        return declared
    known = reward[~np.isnan(reward)]
    return min(0.0, float(known.min(initial=0.0))), max(1.0, float(known.max(initial=1.0)))


def student(level: float, rows: float) -> float:
    """The two-sided quantile of Student's t, by its expansion around the normal one; within 4% from 2 rows on."""
    z = quantile(0.5 + level / 2.0)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / rows + second / rows**2 + third / rows**3


class ScoreSpread:
    """Intervals of doubly robust estimates on one log; `q` [n, arm] is the reward model of the scores.

    spread = ScoreSpread(log, q, reward_range=(0.0, 1.0))
    spread.interval(scores, log.target)                                   # of a value
    spread.interval(scores, log.target - log.baseline, paired=True)       # of a difference
    """

    def __init__(self, log_: Log, q: Floats, reward_range: tuple[float, float] | None = None) -> None:
        seen = ~np.isnan(log_.reward)
        pick = slice(None) if seen.all() else seen
        self.low, self.high = possible(log_.reward, reward_range)
        self.declared = reward_range is not None
        self.n = int(seen.sum())
        self._log, self._model, self._pick = log_, q, pick
        self._worst = np.flatnonzero(log_.worst & ~seen)
        logged, self._q = log_.logged[pick], q[pick]
        self._inverse = np.divide(1.0, logged, out=np.zeros_like(logged), where=logged > 0.0)
        self._noise = self._noise_of(log_.action[pick], log_.reward[pick])

    def _noise_of(self, action: Integers, reward: Floats) -> Floats:
        """[n, arm]; the variance of a reward that the model expects, with the surprises that have not happened yet."""
        span, arms = self.high - self.low, self._q.shape[1]
        rows = np.arange(self.n)
        noise = np.maximum((self._q - self.low) * (self.high - self._q), 0.0) + NOISE_FLOOR * span**2
        residual = reward - self._q[rows, action]
        squares = np.bincount(action, weights=residual * residual, minlength=arms).astype(np.float64)
        shapes = np.bincount(action, weights=noise[rows, action], minlength=arms).astype(np.float64)
        chosen = np.bincount(action, minlength=arms).astype(np.float64)
        own = np.divide(squares, shapes, out=np.zeros(arms), where=shapes > 0.0)
        noise *= np.maximum(own, noise_ratio(noise=squares, shape=shapes, chosen=chosen))
        noise += SURPRISES * span**2 / (chosen + AMONG)
        return noise

    def interval(
        self, scores: Floats, policy: Floats, *, paired: bool = False, level: float = 0.95
    ) -> tuple[float, float]:
        """Around the mean of the scores [rows with a reward] of a policy, or of a difference of two, [n, arm]."""
        span = self.high - self.low
        limits = (-span, span) if paired else (self.low, self.high)
        if self.n < LEAST:
            return limits
        columns = np.flatnonzero(policy.any(axis=0))
        if columns.size == 0:  # two policies that do the same
            return 0.0, 0.0
        part = policy[self._pick][:, columns]
        inverse = self._inverse[:, columns]
        moved = part * part * inverse
        second = float(moved.sum()) / self.n
        fourth = float(np.einsum("ij,ij,ij->", moved, moved, inverse)) / self.n
        if fourth <= 0.0:  # actions that were never logged
            return limits
        direct = np.einsum("ij,ij->i", part, self._q[:, columns])
        model = float(direct.var(ddof=1)) + float(np.einsum("ij,ij->", moved, self._noise[:, columns])) / self.n
        variance = max(float(scores.var(ddof=1)), model)
        wide = student(level, self.n * second**2 / fourth + MORE) * sqrt(variance / self.n)
        mean = float(scores.mean())
        least, most = self._means(scores, policy) if self._worst.size else (mean, mean)
        return self._within(mean, least - wide, most + wide, limits)

    def _means(self, scores: Floats, policy: Floats) -> tuple[float, float]:
        """The lowest and the highest mean score that the rows at their worst value allow."""
        rows = self._worst
        action = self._log.action[rows]
        model = self._model[rows]
        weight = policy[rows, action] / self._log.logged[rows, action]
        direct = np.einsum("ij,ij->i", policy[rows], model)
        fitted = model[np.arange(rows.size), action]
        ends = weight * (self.low - fitted), weight * (self.high - fitted)
        count, total, mean = self.n + rows.size, float(scores.sum()), float(scores.mean())
        least = (total + float((direct + np.minimum(*ends)).sum())) / count
        most = (total + float((direct + np.maximum(*ends)).sum())) / count
        return min(least, mean), max(most, mean)

    def _within(self, mean: float, low: float, high: float, limits: tuple[float, float]) -> tuple[float, float]:
        """Cut off what a declared range excludes; the interval always holds its estimate."""
        if self.declared:
            low, high = min(max(low, limits[0]), limits[1]), max(min(high, limits[1]), limits[0])
        return min(low, mean), max(high, mean)
