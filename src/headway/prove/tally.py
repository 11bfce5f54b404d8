"""Running sums of a log for a verdict, in constant memory."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Estimate
from headway.prove.log import Floats, Integers
from headway.prove.sequential import quantile

MIN_GAIN = 0.05  # least gain in the action's probability for a row to count as informative
NOISE_PRIOR = 30.0  # rows of shrinkage of an arm's noise to that of all arms
NOISE_FLOOR = 0.01  # of the squared reward range: the least noise of a reward


class ColumnMean:
    """Σ and Σ² of a column: its mean, variance and normal interval."""

    __slots__ = ("n", "square", "total")

    def __init__(self) -> None:
        self.n, self.total, self.square = 0, 0.0, 0.0

    def add(self, values: Floats) -> None:
        self.n += values.size
        self.total += float(values.sum())
        self.square += float(values @ values)

    def add_sums(self, n: int, total: float, square: float) -> None:
        self.n += n
        self.total += total
        self.square += square

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0

    @property
    def variance(self) -> float:
        """Of one row, around the mean."""
        if self.n < 2:
            return 0.0
        return max(0.0, (self.square - self.total**2 / self.n) / (self.n - 1))

    def estimate(self, method: str, level: float = 0.95, ess: float | None = None) -> Estimate:
        wide = quantile(0.5 + level / 2.0) * sqrt(self.variance / self.n) if self.n else 0.0
        return Estimate(
            value=self.mean,
            low=self.mean - wide,
            high=self.mean + wide,
            n=self.n,
            ess=float(self.n) if ess is None else ess,
            method=method,
            level=level,
        )


class Groups:
    """A `ColumnMean` per label: segments of the traffic, API keys."""

    def __init__(self) -> None:
        self.means: dict[str, ColumnMean] = {}

    def add(self, labels: NDArray[np.str_], values: Floats) -> None:
        names, where = np.unique(labels, return_inverse=True)
        counts = np.bincount(where, minlength=names.size)
        totals = np.bincount(where, weights=values, minlength=names.size)
        squares = np.bincount(where, weights=values**2, minlength=names.size)
        for name, n, total, square in zip(
            names.tolist(), counts.tolist(), totals.tolist(), squares.tolist(), strict=True
        ):
            self.means.setdefault(name, ColumnMean()).add_sums(n, total, square)


def noise_ratio(*, noise: Floats, shape: Floats, chosen: Floats) -> Floats:
    """[arm]; squared residuals per unit of `shape`, each arm's shrunk to that of all arms."""
    total = float(shape.sum())
    if total <= 0.0:
        return np.zeros_like(shape)
    pooled = float(noise.sum()) / total
    prior = NOISE_PRIOR * total / float(chosen.sum())
    ratio: Floats = (noise + pooled * prior) / (shape + prior)
    return ratio


def _divided(squared: Floats, probabilities: Floats) -> Floats:
    """[arm]; Σ of squared / probability, where it is above 0."""
    possible = probabilities > 0.0
    total: Floats = np.where(possible, squared / np.where(possible, probabilities, 1.0), 0.0).sum(axis=0)
    return total


class ScoreTally:
    """The paired scores inside the test: their sum, two estimates of their variance, and the largest contribution."""

    def __init__(self, arms: int) -> None:
        self.scores = ColumnMean()
        self.direct = ColumnMean()  # Σ_a (π−b) q: the part of a score that the reward model explains
        self.absolute = 0.0
        self.largest = 0.0
        self.differing = 0  # rows on which the policies differ by at least MIN_GAIN
        self.speaking = 0  # rows whose action the candidate prefers and the current policy does not
        self.moved = np.zeros(arms)  # Σ (π−b)²/μ · shape(q), per arm
        self.shared = np.zeros(arms)  # the same if the candidate had the largest share of the traffic
        self.noise = np.zeros(arms)  # Σ (r − q)² of the rows that chose the arm
        self.shape = np.zeros(arms)  # Σ shape(q) of the same rows
        self.chosen = np.zeros(arms)

    def add(
        self,
        *,
        score: Floats,  # [n]
        direct: Floats,  # [n]
        difference: Floats,  # [n, arm]; π − b
        logged: Floats,  # [n, arm]
        action: Integers,  # [n]
        residual: Floats,  # [n]; r − q at the logged action
        shape: Floats,  # [n, arm]; proportional to a reward's variance
        shared: Floats | None = None,  # [n, arm]; `logged` if the candidate had the largest share of the traffic
    ) -> None:
        arms = self.moved.size
        self.scores.add(score)
        self.direct.add(direct)
        size = np.abs(score)
        self.absolute += float(size.sum())
        self.largest = max(self.largest, float(size.max(initial=0.0)))
        rows = np.arange(action.size)
        gain = difference[rows, action]
        self.differing += int((np.abs(difference).max(axis=1) >= MIN_GAIN).sum())
        self.speaking += int((gain >= np.maximum(MIN_GAIN, 0.5 * difference.max(axis=1))).sum())
        squared = difference * difference * shape
        moved = _divided(squared, logged)
        self.moved += moved
        self.shared += moved if shared is None else _divided(squared, shared)
        self.noise += np.bincount(action, weights=residual * residual, minlength=arms)
        self.shape += np.bincount(action, weights=shape[rows, action], minlength=arms)
        self.chosen += np.bincount(action, minlength=arms)

    @property
    def n(self) -> int:
        return self.scores.n

    @property
    def model_variance(self) -> float:
        """Var(Σ_a (π−b) q) + mean Σ_a (π−b)²/μ · σ²(x, a), with σ² = k_a · shape(q).

        For 0/1 rewards shape = q(1−q) and k ≈ 1; k_a, the ratio of squared residuals to shape on the rows that chose
        arm a (shrunk to all rows'), makes it fit rewards of any range and noise. Every row counts here with its known
        probabilities, so a rare heavy weight that has not occurred yet is included.
        """
        n = self.scores.n
        if n == 0:
            return 0.0
        return self.direct.variance + float(self.noise_ratio @ self.moved) / n

    @property
    def shared_variance(self) -> float:
        """The variance if the candidate had the largest share of the traffic."""
        if self.scores.n == 0:
            return 0.0
        return self.direct.variance + float(self.noise_ratio @ self.shared) / self.scores.n

    @property
    def noise_ratio(self) -> Floats:
        """[arm]; k_a."""
        return noise_ratio(noise=self.noise, shape=self.shape, chosen=self.chosen)

    @property
    def variance(self) -> float:
        """max(empirical, model-based): the gate's v."""
        return max(self.scores.variance, self.model_variance)

    @property
    def largest_share(self) -> float:
        return self.largest / self.absolute if self.absolute > 0.0 else 0.0


class MetricTally:
    """The paired doubly robust difference of another metric (cost, latency, being missing), past-only like the score.

    Its reward model is each arm's mean at the last `refit`: cheap, and any past-only model is valid.
    """

    def __init__(self, arms: int) -> None:
        self.scores = ColumnMean()
        self.mean = np.zeros(arms)
        self.low, self.high = inf, -inf  # of the metric's own values
        self._total = np.zeros(arms)
        self._count = np.zeros(arms)

    def add(
        self, value: Floats, action: Integers, difference: Floats, weight: Floats, counts: NDArray[np.bool_]
    ) -> None:
        """`counts`: rows inside the test; every row with a value updates the means."""
        known = ~np.isnan(value)
        if not known.all():
            value, action, difference, weight = value[known], action[known], difference[known], weight[known]
            counts = counts[known]
        score = difference @ self.mean + weight * (value - self.mean[action])
        self.scores.add(score if counts.all() else score[counts])
        self.low, self.high = float(value.min(initial=self.low)), float(value.max(initial=self.high))
        self._total += np.bincount(action, weights=value, minlength=self.mean.size)
        self._count += np.bincount(action, minlength=self.mean.size)

    @property
    def level(self) -> float:
        """The mean of the metric over all rows."""
        return float(self._total.sum()) / max(1.0, float(self._count.sum()))

    def refit(self) -> None:
        """The means of all rows so far, shrunk a little to the mean of all arms."""
        seen = float(self._count.sum())
        if seen:
            self.mean = (self._total + float(self._total.sum()) / seen) / (self._count + 1.0)
