"""Sufficient statistics of a bandit into its posterior, in closed form. Pure functions of arrays.

Linear, per arm a with A = Σxxᵀ, b = Σxr over its rows, prior weights θ₀ and Λ = diag(min(λ, 1), λ, …, λ):

    P = (Λ + A)⁻¹        θ = θ₀ + P·(b − A·θ₀)        weights ~ N(θ, σ²P)

The bias is held by one row's worth at most: how good an arm is on the whole shows after a few rows, however strongly
the dependence on the situation has to be held back.

θ₀ is the pooled mean reward on the bias alone (`prior = "mean"`), or the ridge solution over all arms together
(`prior = "pooled"`): an arm that nobody has tried starts there. σ² is the pooled residual variance with two rows' worth
of prior at the variance of the rewards themselves (plug-in; Bishop 2006, 3.3, with one precision for all arms).

Clusters, for cluster c and arm a with n rows of mean r̄: the posterior mean is (n·r̄ + κ·m)/(n + κ), its variance
σ²/(n + κ), where m is the arm's own mean shrunk the same way towards the pooled mean.
"""

from __future__ import annotations

import numpy as np

from headway.decide.bandit import rounded
from headway.nouns.protocols import Floats

__all__ = ["clusters_posterior", "linear_posterior", "penalties", "pooled_mean", "pooled_variance", "prior_weights"]

_PRIOR_ROWS = 2.0
_LEAST_NOISE = 1e-9


def pooled_mean(totals: Floats) -> float:
    """Of all rewards; `totals` is [..., (rows, Σr, Σr²)]."""
    rows = float(totals[..., 0].sum())
    return float(totals[..., 1].sum()) / rows if rows > 0 else 0.0


def pooled_variance(totals: Floats) -> float:
    """Of all rewards; 1 where there are fewer than two."""
    rows = float(totals[..., 0].sum())
    if rows < 2.0:
        return 1.0
    mean = pooled_mean(totals)
    return max(float(totals[..., 2].sum()) / rows - mean * mean, _LEAST_NOISE)


def penalties(width: int, ridge: float) -> Floats:
    """The diagonal of Λ [width]: the bias comes first."""
    found = np.full(width, ridge)
    found[0] = min(ridge, 1.0)
    return found


def prior_weights(moments: Floats, targets: Floats, totals: Floats, ridge: float, prior: str) -> Floats:
    """θ₀ [width]: where every arm starts."""
    width = targets.shape[-1]
    start = np.zeros(width)
    start[0] = pooled_mean(totals)
    if prior == "pooled" and len(moments):
        together, aim = moments.sum(axis=0), targets.sum(axis=0)
        start += np.linalg.solve(together + np.diag(penalties(width, ridge)), aim - together @ start)
    return start


def linear_posterior(
    moments: Floats, targets: Floats, totals: Floats, ridge: float, prior: str = "mean"
) -> dict[str, Floats]:
    """weights [arm + 1, width], covariance [arm + 1, width, width] and noise [1]; the last arm is the unknown one."""
    count, width = targets.shape
    start = prior_weights(moments, targets, totals, ridge, prior)
    held = penalties(width, ridge)
    weights = np.empty((count + 1, width))
    covariance = np.empty((count + 1, width, width))
    weights[count], covariance[count] = start, np.diag(1.0 / held)
    rows = float(totals[:, 0].sum())
    error = 0.0
    for arm in range(count):
        if totals[arm, 0] <= 0.0:
            weights[arm], covariance[arm] = start, covariance[count]
            continue
        inverse = np.linalg.inv(moments[arm] + np.diag(held))
        covariance[arm] = 0.5 * (inverse + inverse.T)
        shift = covariance[arm] @ (targets[arm] - moments[arm] @ start)
        found = weights[arm] = start + shift
        error += float(totals[arm, 2] - 2.0 * (found @ targets[arm]) + found @ moments[arm] @ found)
        error += float((held * shift) @ shift)
    noise = (max(error, 0.0) + _PRIOR_ROWS * pooled_variance(totals)) / (rows + _PRIOR_ROWS)
    return {
        "weights": rounded(weights),
        "covariance": rounded(covariance),
        "noise": np.array([max(noise, _LEAST_NOISE)]),
    }


def clusters_posterior(totals: Floats, shrink: float) -> dict[str, Floats]:
    """means and stds [cluster, arm + 1] from totals [cluster, arm, (rows, Σr, Σr²)]."""
    clusters, count, _ = totals.shape
    pooled = pooled_mean(totals)
    per_arm = totals.sum(axis=0)  # [arm, 3]
    arm_mean = (per_arm[:, 1] + shrink * pooled) / (per_arm[:, 0] + shrink)
    means = np.full((clusters, count + 1), pooled)
    rows = np.zeros((clusters, count + 1))
    rows[:, :count] = totals[..., 0]
    means[:, :count] = (totals[..., 1] + shrink * arm_mean) / (totals[..., 0] + shrink)
    found = means[:, :count]
    error = float((totals[..., 2] - 2.0 * found * totals[..., 1] + found * found * totals[..., 0]).sum())
    noise = (max(error, 0.0) + _PRIOR_ROWS * pooled_variance(totals)) / (float(rows.sum()) + _PRIOR_ROWS)
    return {"means": means, "stds": np.sqrt(max(noise, _LEAST_NOISE) / (rows + shrink))}
