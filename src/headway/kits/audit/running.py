"""The estimators of `headway.prove.estimators` for logs that do not fit in memory."""

from __future__ import annotations

from math import sqrt

import numpy as np

from headway.nouns.evidence import Estimate
from headway.prove.estimators import Method, shrunk
from headway.prove.log import Floats
from headway.prove.sequential import quantile

__all__ = ["RunningEstimates"]


class RunningEstimates:
    """All six estimators of one policy, or of a paired difference, over chunks: sums of products, no rows kept.

    Every estimator is a smooth function of the means of z = (w, w r, m, w e, ŵ e), for both policies where there are
    two, so that Σz and Σzzᵀ give all of them with delta-method intervals.
    """

    def __init__(self, *, shrinkage: float = np.inf, compared: bool = False) -> None:
        width = 10 if compared else 5
        self.n = 0
        self.shrinkage = shrinkage
        self.total = np.zeros(width)
        self.product = np.zeros((width, width))
        self.square = np.zeros(2)  # Σw² of each policy

    def add(
        self,
        *,
        reward: Floats,
        weight: Floats,
        direct: Floats,
        fitted: Floats,
        baseline: tuple[Floats, Floats] | None = None,  # w and m of the current policy
    ) -> None:
        columns = []
        for position, (w, m) in enumerate([(weight, direct)] + ([baseline] if baseline is not None else [])):
            residual = reward - fitted
            columns += [w, w * reward, m, w * residual, shrunk(w, self.shrinkage) * residual]
            self.square[position] += float(w @ w)
        z = np.stack(columns, axis=1)
        self.n += reward.size
        self.total += z.sum(axis=0)
        self.product += z.T @ z

    def estimate(self, method: Method, level: float = 0.95) -> Estimate:
        """The estimate so far, with a normal interval."""
        mean = self.total / self.n
        cov = (self.product / self.n - np.outer(mean, mean)) * (self.n / max(self.n - 1, 1))
        value, slope = 0.0, np.zeros_like(mean)
        for start, sign in zip(range(0, mean.size, 5), (1.0, -1.0), strict=False):
            part, gradient = _delta(method, mean[start : start + 5])
            value += sign * part
            slope[start : start + 5] = sign * gradient
        wide = quantile(0.5 + level / 2.0) * sqrt(max(0.0, float(slope @ cov @ slope)) / self.n)
        ess = float(self.total[0] ** 2 / self.square[0]) if self.square[0] > 0.0 else 0.0
        return Estimate(value=value, low=value - wide, high=value + wide, n=self.n, ess=ess, method=method, level=level)


def _delta(method: Method, z: Floats) -> tuple[float, Floats]:
    """An estimator and its gradient at the means (w, w r, m, w e, ŵ e)."""
    w, wr, m, we, se = (float(part) for part in z)
    if method == "ips":
        return wr, np.array([0.0, 1.0, 0.0, 0.0, 0.0])
    if method == "snips":
        return wr / w, np.array([-wr / w**2, 1.0 / w, 0.0, 0.0, 0.0])
    if method == "dm":
        return m, np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    if method == "dr":
        return m + we, np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    if method == "sndr":
        return m + we / w, np.array([-we / w**2, 0.0, 1.0, 1.0 / w, 0.0])
    return m + se, np.array([0.0, 0.0, 1.0, 0.0, 1.0])
