"""The values that an audit shows: estimators that need the probability of the logged action only.

With w = π(A|x)/μ(A|x), m = Σ_a π(a|x) q(x, a) and e = r − q(x, A):

    IPS    mean(w r)              Horvitz and Thompson (1952)
    SNIPS  Σ w r / Σ w            Swaminathan and Joachims (2015)
    DR     mean(m + w e)          Dudík, Langford and Li (2011)

`rows` gives per-decision numbers whose mean is the estimate and whose variance is the estimate's (the self-normalised
one is linearised). So one interval method serves all, and a paired difference is the difference of rows.
`RunningEstimates` computes the same for logs that do not fit in memory.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

import numpy as np

from headway.nouns import Estimate, Floats
from headway.prove import bootstrap, quantile

Method = Literal["ips", "snips", "dr"]
LEVEL = 0.95


def rows(method: Method, *, reward: Floats, weight: Floats, direct: Floats, fitted: Floats) -> Floats:
    """[n]; numbers whose mean is the estimate. `weight` is π(A)/μ(A), `direct` Σ_a π(a) q(a), `fitted` q(A)."""
    if method == "ips":
        return weight * reward
    if method == "snips":
        mean = float(weight @ reward) / float(weight.sum())
        return mean + weight * (reward - mean) / float(weight.mean())
    return direct + weight * (reward - fitted)


def estimate_rows(values: Floats, *, method: str, ess: float, seed: int = 0) -> Estimate:
    """The mean of per-decision numbers with its bootstrap interval."""
    low, high = bootstrap(values, level=LEVEL, seed=seed)
    mean = float(values.mean()) if values.size else 0.0
    return Estimate(value=mean, low=low, high=high, n=values.size, ess=ess, method=method, level=LEVEL)


class RunningEstimates:
    """All estimators of one policy, or of a paired difference, over chunks: sums of products, no rows kept.

    Every estimator is a smooth function of the means of z = (w, w r, m, w e), for both policies where there are two,
    so that Σz and Σzzᵀ give all of them with delta-method intervals.
    """

    def __init__(self, *, compared: bool = False) -> None:
        width = 8 if compared else 4
        self.n = 0
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
            columns += [w, w * reward, m, w * (reward - fitted)]
            self.square[position] += float(w @ w)
        z = np.stack(columns, axis=1)
        self.n += reward.size
        self.total += z.sum(axis=0)
        self.product += z.T @ z

    def candidate(self) -> RunningEstimates:
        """The sums of the candidate alone."""
        alone = RunningEstimates()
        alone.n, alone.total, alone.product, alone.square = self.n, self.total[:4], self.product[:4, :4], self.square
        return alone

    def estimate(self, method: Method) -> Estimate:
        """The estimate so far, with a normal interval."""
        mean = self.total / self.n
        cov = (self.product / self.n - np.outer(mean, mean)) * (self.n / max(self.n - 1, 1))
        value, slope = 0.0, np.zeros_like(mean)
        for start, sign in zip(range(0, mean.size, 4), (1.0, -1.0), strict=False):
            part, gradient = _delta(method, mean[start : start + 4])
            value += sign * part
            slope[start : start + 4] = sign * gradient
        wide = quantile(0.5 + LEVEL / 2.0) * sqrt(max(0.0, float(slope @ cov @ slope)) / self.n)
        ess = float(self.total[0] ** 2 / self.square[0]) if self.square[0] > 0.0 else 0.0
        return Estimate(value=value, low=value - wide, high=value + wide, n=self.n, ess=ess, method=method, level=LEVEL)


def _delta(method: Method, z: Floats) -> tuple[float, Floats]:
    """An estimator and its gradient at the means (w, w r, m, w e)."""
    w, wr, m, we = (float(part) for part in z)
    if method == "ips":
        return wr, np.array([0.0, 1.0, 0.0, 0.0])
    if method == "snips":
        return wr / w, np.array([-wr / w**2, 1.0 / w, 0.0, 0.0])
    return m + we, np.array([0.0, 0.0, 1.0, 1.0])
