"""The posterior of a bandit from its sufficient statistics, in closed form. Pure functions of arrays.

Linear, per arm a with A = Σxxᵀ, b = Σxr over its rows, prior weights θ₀ and precision Λ:

    P = (Λ + A)⁻¹        θ = θ₀ + P·(b − A·θ₀)        weights ~ N(θ, σ²P)

prior     θ₀                                              Λ
mean      the pooled mean reward, on the bias alone       diag(min(λ, 1), λ, …, λ)
pooled    the ridge solution over all arms together       the same
shared    the same, held by one row's worth (Λ/λ)         diag(min(λ, 5), λ·s·C⁻¹ for the text, λ·width, λ, …)

An arm without rows starts at θ₀. The bias is regularised by a few rows at most: an arm's mean shows after a few rows,
however strongly the dependence on the situation must be regularised.

`shared` is for text. The part that arms have in common (this prompt is hard for all of them) is learned from all rows
with little regularisation; only how arms *differ* is regularised, and they are expected to differ where texts differ: C
is the covariance of the text's vectors over all rows (shrunk towards a multiple of I if rows are few: Chen et al.,
2010), and s = tr C²/tr C keeps the prior variance of a reward as under a plain ridge. Under a plain ridge,
hundreds of narrow directions that a few thousand rows cannot resolve hold most of the uncertainty and are explored
without end. The text's length counts as one more entry.

σ² is the pooled residual variance with a prior of two rows at the variance of the rewards themselves (plug-in;
Bishop 2006, 3.3, with one precision for all arms).

Clusters, for cluster c and arm a with n rows of mean r̄: the posterior mean is (n·r̄ + κ·m)/(n + κ), its variance
σ²/(n + κ), where m is the arm's own mean shrunk the same way towards the pooled mean.
"""

from __future__ import annotations

import numpy as np

from headway.decide import rounded
from headway.nouns import Floats

_PRIOR_ROWS = 2.0
_LEAST_NOISE = 1e-9
_LEVEL_ROWS = 5.0  # `shared`: regularisation of the bias


def pooled_mean(totals: Floats) -> float:
    """Mean of all rewards; `totals` is [..., (rows, Σr, Σr²)]."""
    rows = float(totals[..., 0].sum())
    return float(totals[..., 1].sum()) / rows if rows > 0 else 0.0


def pooled_variance(totals: Floats) -> float:
    """Variance of all rewards; 1 if there are fewer than two."""
    rows = float(totals[..., 0].sum())
    if rows < 2.0:
        return 1.0
    mean = pooled_mean(totals)
    return max(float(totals[..., 2].sum()) / rows - mean * mean, _LEAST_NOISE)


def penalties(width: int, ridge: float) -> Floats:
    """The diagonal of a plain Λ [width]: the bias comes first."""
    diagonal = np.full(width, ridge)
    diagonal[0] = min(ridge, 1.0)
    return diagonal


def held_back(moments: Floats, ridge: float, prior: str, text: int) -> tuple[Floats, Floats]:
    """Λ and its inverse [width, width], of Σxxᵀ per arm; `text`: the number of text entries after the bias."""
    diagonal = penalties(moments.shape[-1], ridge)
    if prior != "shared":
        return np.diag(diagonal), np.diag(1.0 / diagonal)
    diagonal[0] = min(ridge, _LEVEL_ROWS)
    if text:
        diagonal[1 + text] *= text
    precision, covariance = np.diag(diagonal), np.diag(1.0 / diagonal)
    spread = _spread(moments.sum(axis=0), text) if text else np.zeros((0, 0))
    if (total := float(np.trace(spread))) > 1e-12:
        scale, block = ridge * float((spread * spread).sum()) / total, slice(1, 1 + text)
        inverse = np.linalg.inv(spread)
        precision[block, block], covariance[block, block] = scale * 0.5 * (inverse + inverse.T), spread / scale
    return precision, covariance


def _spread(moments: Floats, text: int) -> Floats:
    """The covariance of the text's entries by oracle approximating shrinkage (Chen et al., 2010), from Σxxᵀ."""
    rows = float(moments[0, 0])
    if rows < 2.0:
        return np.zeros((text, text))
    mean = moments[0, 1 : 1 + text] / rows
    covariance: Floats = moments[1 : 1 + text, 1 : 1 + text] / rows - np.outer(mean, mean)
    total, square = float(np.trace(covariance)), float((covariance * covariance).sum())
    uneven = (rows + 1.0 - 2.0 / text) * (square - total * total / text)
    share = min(1.0, ((1.0 - 2.0 / text) * square + total * total) / uneven) if uneven > 0.0 else 1.0
    covariance *= 1.0 - share
    covariance[np.diag_indices(text)] += share * total / text
    return covariance


def prior_weights(moments: Floats, targets: Floats, totals: Floats, ridge: float, prior: str, held: Floats) -> Floats:
    """θ₀ [width]: the prior weights of every arm. `held` is Λ."""
    start = np.zeros(targets.shape[-1])
    start[0] = pooled_mean(totals)
    if prior != "mean" and len(moments):
        together, aim = moments.sum(axis=0), targets.sum(axis=0)
        if prior == "shared":
            held = held / max(ridge, 1.0)
        start += np.linalg.solve(together + held, aim - together @ start)
    return start


def common_penalty(moments: Floats, targets: Floats, totals: Floats, prior: str, start: Floats) -> float:
    """(θ₀ − mean)ᵀΛ₀(θ₀ − mean): the penalty of learning θ₀ from the rows themselves, for `shared`."""
    if prior != "shared":
        return 0.0
    shift = start.copy()
    shift[0] -= pooled_mean(totals)
    return max(float(shift @ (targets.sum(axis=0) - moments.sum(axis=0) @ start)), 0.0)


def linear_posterior(
    moments: Floats, targets: Floats, totals: Floats, ridge: float, prior: str = "mean", text: int = 0
) -> dict[str, Floats]:
    """weights [arm + 1, width], covariance [arm + 1, width, width] and noise [1]; the last arm is the unknown one."""
    count, width = targets.shape
    held, unknown = held_back(moments, ridge, prior, text)
    start = prior_weights(moments, targets, totals, ridge, prior, held)
    weights = np.empty((count + 1, width))
    covariance = np.empty((count + 1, width, width))
    weights[count], covariance[count] = start, unknown
    rows = float(totals[:, 0].sum())
    error = common_penalty(moments, targets, totals, prior, start)
    for arm in range(count):
        if totals[arm, 0] <= 0.0:
            weights[arm], covariance[arm] = start, unknown
            continue
        inverse = np.linalg.inv(moments[arm] + held)
        covariance[arm] = 0.5 * (inverse + inverse.T)
        shift = covariance[arm] @ (targets[arm] - moments[arm] @ start)
        means = weights[arm] = start + shift
        error += float(totals[arm, 2] - 2.0 * (means @ targets[arm]) + means @ moments[arm] @ means)
        error += float(shift @ held @ shift)
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
    known = means[:, :count]
    error = float((totals[..., 2] - 2.0 * known * totals[..., 1] + known * known * totals[..., 0]).sum())
    noise = (max(error, 0.0) + _PRIOR_ROWS * pooled_variance(totals)) / (float(rows.sum()) + _PRIOR_ROWS)
    return {"means": means, "stds": np.sqrt(max(noise, _LEAST_NOISE) / (rows + shrink))}
