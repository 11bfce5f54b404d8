"""Logistic models of several arms with a shared part, and a small L-BFGS to fit them.

For arm a with rows x, outcomes y in 0 … 1 and weights m, the arm's weights are w_a = w₀ + d_a, and

    loss = Σ_a Σ_rows m·[log(1 + exp(x·w_a)) − y·x·w_a] + ½·λ·|w₀|² + ½·λ·s·Σ_a |d_a|²

(biases are regularised by at most one row). `s` above 1 means that arms are alike: the difficulty of a situation shows
in all of them, and an arm with few rows, or none, starts from w₀. y between 0 and 1 is a share, not a label: the
estimate is then a quasi-likelihood (Papke and Wooldridge, 1996).

The minimum is found by L-BFGS (Liu and Nocedal, 1989) with backtracking; the loss is strictly convex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats

Singles = NDArray[np.float32]
_MEMORY = 8


@dataclass(frozen=True, slots=True)
class ArmRows:
    """The rows of one arm."""

    x: Singles  # [row, width]; the first column is the bias
    y: Singles
    weight: Singles


def fit(arms: Sequence[ArmRows], width: int, *, ridge: float, share: float, start: Floats | None = None) -> Floats:
    """[arm + 1, width]: the arms' weights, and last w₀, for an unknown arm."""
    count = len(arms)
    held = np.full(width, ridge)
    held[0] = min(ridge, 0.1)
    apart = np.full(width, ridge * share)
    apart[0] = min(ridge * share, 1.0)

    def value(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(count + 1, width)  # rows: d_a, then w₀
        slope = np.zeros_like(theta)
        total = 0.5 * float((held * theta[-1] ** 2).sum()) + 0.5 * float((apart * theta[:-1] ** 2).sum())
        for place, arm in enumerate(arms):
            if len(arm.x):
                z = (arm.x @ (theta[place] + theta[-1]).astype(np.float32)).astype(np.float64)
                total += float((arm.weight * (np.logaddexp(0.0, z) - arm.y * z)).sum())
                gap = (arm.weight * (_sigmoid(z) - arm.y)).astype(np.float32)
                slope[place] = gap @ arm.x
        slope[-1] = slope[:-1].sum(axis=0) + held * theta[-1]
        slope[:-1] += apart * theta[:-1]
        return total, slope.ravel()

    if start is None:
        begin = np.zeros((count + 1, width))
        rows = sum(float(arm.weight.sum()) for arm in arms)
        mean = sum(float((arm.weight * arm.y).sum()) for arm in arms) / max(rows, 1e-12)
        begin[-1, 0] = np.log(max(mean, 1e-3) / max(1.0 - mean, 1e-3))
    else:
        begin = np.concatenate([start[:-1] - start[-1], start[-1:]])
    solution = minimise(value, begin.ravel()).reshape(count + 1, width)
    return np.concatenate([solution[:-1] + solution[-1], solution[-1:]])


def minimise(
    value: Callable[[Floats], tuple[float, Floats]], begin: Floats, *, most: int = 200, close: float = 1e-6
) -> Floats:
    """The minimum of `value` (a convex function and its gradient), starting at `begin`."""
    x = begin.astype(np.float64)
    total, slope = value(x)
    steps: list[tuple[Floats, Floats, float]] = []
    for _ in range(most):
        way = _direction(slope, steps)
        falls = float(way @ slope)
        if falls >= 0.0:
            way, steps = -slope, []
            falls = float(way @ slope)
        size = 1.0 if steps else min(1.0, 1.0 / max(float(np.abs(slope).max()), 1e-12))
        for _ in range(30):
            trial, new_slope = value(x + size * way)
            if trial <= total + 1e-4 * size * falls:
                break
            size *= 0.5
        else:
            return x
        moved, turned = size * way, new_slope - slope
        curve = float(moved @ turned)
        if curve > 1e-12 * float(turned @ turned):
            steps = [*steps[-_MEMORY + 1 :], (moved, turned, 1.0 / curve)]
        done = total - trial <= close * max(abs(total), 1.0) * 1e-1
        x, total, slope = x + moved, trial, new_slope
        if done:
            return x
    return x


def _direction(slope: Floats, steps: Sequence[tuple[Floats, Floats, float]]) -> Floats:
    """Minus the inverse curvature times the slope, from the last few steps (two loops)."""
    way = -slope
    shares = []
    for moved, turned, inverse in reversed(steps):
        share = inverse * float(moved @ way)
        shares.append(share)
        way = way - share * turned
    if steps:
        moved, turned, inverse = steps[-1]
        way = way / (inverse * float(turned @ turned))
    for (moved, turned, inverse), share in zip(steps, reversed(shares), strict=True):
        way = way + (share - inverse * float(turned @ way)) * moved
    return way


def covariances(arms: Sequence[ArmRows], weights: Floats, *, ridge: float, share: float) -> Floats:
    """[arm + 1, width, width]: Laplace's approximation per arm, w₀ taken as known; the last is the prior's."""
    width = weights.shape[1]
    apart = np.full(width, ridge * share)
    apart[0] = min(ridge * share, 1.0)
    matrices = np.empty((len(arms) + 1, width, width))
    matrices[-1] = np.diag(1.0 / apart)
    for place, arm in enumerate(arms):
        p = _sigmoid((arm.x @ weights[place].astype(np.float32)).astype(np.float64))
        curve = (arm.weight * p * (1.0 - p)).astype(np.float32)
        inverse = np.linalg.inv(((arm.x * curve[:, None]).T @ arm.x).astype(np.float64) + np.diag(apart))
        matrices[place] = 0.5 * (inverse + inverse.T)
    return matrices


def loss_of(arms: Sequence[ArmRows], weights: Floats) -> float:
    """The mean log loss of these rows."""
    total = rows = 0.0
    for place, arm in enumerate(arms):
        if len(arm.x):
            z = (arm.x @ weights[place].astype(np.float32)).astype(np.float64)
            total += float((arm.weight * (np.logaddexp(0.0, z) - arm.y * z)).sum())
            rows += float(arm.weight.sum())
    return total / max(rows, 1e-12)


def _sigmoid(z: Floats) -> Floats:
    probability: Floats = 0.5 + 0.5 * np.tanh(0.5 * z)
    return probability
