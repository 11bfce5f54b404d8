"""Posteriors over each arm's reward, the predictions of a bandit.

Linear    per arm Bayesian ridge: weights ~ N(θ, σ²·P) with P = (λI + Σxxᵀ)⁻¹; the mean is x·θ, the variance σ²·xᵀPx.
Clusters  the nearest of C centroids; per cluster and arm a normal posterior, shrunk towards the arm's own mean.

The last arm of each is the unknown arm: it has the pooled mean and the prior's variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.nouns import Floats


class Posterior(Protocol):
    """Predicts rewards of rows [row, width]; arms are numbers, and the number after the last is an unknown arm."""

    @property
    def arms(self) -> int: ...

    def mean(self, x: Floats, columns: NDArray[np.int64] | None) -> Floats:
        """[row, column], which the caller may change; `columns=None` is every known arm in order."""
        ...

    def std(self, x: Floats, arms: Sequence[int]) -> Floats:
        """[row, arm]: standard deviations."""
        ...

    def std_pair(self, x: Floats, arms: tuple[int, int]) -> tuple[float, float]:
        """The standard deviations of two arms for a single row: the same bits as `std`."""
        ...


class Linear:
    """Weights [arm + 1, width] and covariances [arm + 1, width, width]; the last one is the unknown arm.

    `noise` is a one-element array: a live learner may share all three and change them in place between calls.
    """

    __slots__ = ("_known", "covariance", "noise", "weights")

    def __init__(self, weights: Floats, covariance: Floats, noise: Floats) -> None:
        self.weights, self.covariance, self.noise = weights, covariance, noise
        self._known = weights[:-1]

    @property
    def arms(self) -> int:
        return len(self.weights) - 1

    def mean(self, x: Floats, columns: NDArray[np.int64] | None) -> Floats:
        weights = self._known if columns is None else self.weights[columns]
        if len(x) == 1:
            row: Floats = weights.dot(x[0])
            return row[None, :]
        mean: Floats = x @ weights.T
        return mean

    def std(self, x: Floats, arms: Sequence[int]) -> Floats:
        if len(x) == 1 and arms == range(self.arms):  # one product for all arms
            width = x.shape[1]
            side = (self.covariance[:-1].reshape(-1, width) @ x[0]).reshape(-1, width)
            side *= x[0]
            variance: Floats = side.sum(axis=1)[None, :]
        else:
            variance = np.empty((len(x), len(arms)))
            for place, arm in enumerate(arms):
                side = x @ self.covariance[arm]
                side *= x
                variance[:, place] = side.sum(axis=1)
        np.maximum(variance, 1e-18, out=variance)
        variance *= self.noise
        return np.sqrt(variance, out=variance)

    def std_pair(self, x: Floats, arms: tuple[int, int]) -> tuple[float, float]:
        row, noise = x[0], self.noise.item()
        return self._std_one(row, arms[0], noise), self._std_one(row, arms[1], noise)

    def _std_one(self, row: Floats, arm: int, noise: float) -> float:
        side = self.covariance[arm].dot(row)
        side *= row
        return math.sqrt(max(float(np.add.reduce(side)), 1e-18) * noise)


class Clusters:
    """Centroids [cluster, width] and posterior means and deviations [cluster, arm + 1]; the last is the unknown arm."""

    __slots__ = ("_half", "centroids", "means", "stds")

    def __init__(self, centroids: Floats, means: Floats, stds: Floats) -> None:
        self.centroids, self.means, self.stds = centroids, means, stds
        self._half = 0.5 * (centroids * centroids).sum(axis=1)

    @property
    def arms(self) -> int:
        return int(self.stds.shape[1]) - 1

    def nearest(self, x: Floats) -> NDArray[np.int64]:
        """[row]: argmin |x − c|², which is argmax x·c − |c|²/2."""
        cluster: NDArray[np.int64] = (x @ self.centroids.T - self._half).argmax(axis=1)
        return cluster

    def mean(self, x: Floats, columns: NDArray[np.int64] | None) -> Floats:
        arms = np.arange(self.arms) if columns is None else columns
        chosen: Floats = self.means[self.nearest(x)[:, None], arms[None, :]]
        return chosen

    def std(self, x: Floats, arms: Sequence[int]) -> Floats:
        chosen: Floats = self.stds[self.nearest(x)[:, None], np.array(arms, dtype=np.int64)[None, :]]
        return chosen

    def std_pair(self, x: Floats, arms: tuple[int, int]) -> tuple[float, float]:
        deviations = self.stds[int(self.nearest(x)[0])]
        return float(deviations[arms[0]]), float(deviations[arms[1]])


FEATURE_BITS = round(math.log2(Features.LIMIT / Features.GRID))  # 17


def rounded(values: Floats, bits: int = FEATURE_BITS) -> Floats:
    """Values [..., width] rounded for sums over the last axis; off by at most 2**-26 of the largest for features.

    Every product and partial sum with inputs of `bits` bits then fits into a float64: a row alone, the same row in a
    batch and on another machine get equal bits.
    """
    left = 53 - bits - math.ceil(math.log2(max(values.shape[-1], 2)))
    _, exponent = math.frexp(max(float(np.abs(values).max(initial=0.0)), 1e-300))
    # (v + c) − c rounds v to a multiple of the last bit of c.
    constant = 1.5 * math.ldexp(1.0, 52 + exponent - left)
    near: Floats = (values + constant) - constant
    return near
