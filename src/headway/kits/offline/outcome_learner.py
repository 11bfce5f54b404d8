"""Learns the probability of success of each arm: logistic models with a shared part.

    OutcomeLearner(encoder).learn(experience, {}, seed=7)
    OutcomeLearner(encoder).learn(experience, {"ridge": 3.0, "share": 4.0}, seed=7)

For rewards between two bounds (solved or not, a score). Use it if outcomes of *every* arm are known, as in an
evaluation set: record one decision per arm and prompt. `ridge` and `share` are those with the least log loss on the
tune part, rows weighted as if all candidates had been tried equally often; the policy is then fitted on train and tune.
Arms are alike where `share` is above 1: the difficulty of a situation shows in all of them.

Not covered: learning row by row; more than 1,024 features; rewards without bounds (use the bandit).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import Chooser
from headway.encode import Features
from headway.kits.offline.knobs import OutcomeKnobs
from headway.kits.offline.transitions import Transitions, as_logged, read_log
from headway.kits.practice import logged
from headway.nouns import Encoder, Experience, Floats, Learned, Progress, changed, errors

_RIDGES = (30.0, 10.0, 3.0, 1.0)  # descending: each fit starts from the last one
_SHARES = (1.0, 4.0)
_DEFAULT = (3.0, 4.0)
_LEAST_TUNE = 20
_WIDEST = 1024


class OutcomeLearner:
    """The learner of the family `outcome`; `encoder` turns text into vectors (None: text is not used)."""

    family = "outcome"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self, experience: Experience, knobs: Mapping[str, Any], seed: int, progress: Progress | None = None
    ) -> Learned:
        del seed  # nothing here is random
        wanted = _wanted(knobs)
        log = read_log(experience, self.encoder, most=int(wanted["fit_rows"]), check=_check_width)
        train, tune = log.train, log.tune
        rewards = np.concatenate([part.reward[part.usable] for part in (train, tune)])
        low, high = float(rewards.min()), float(rewards.max())
        ridge, share, loss = _chosen(train, tune, wanted, low, high, progress)
        both = [
            ArmRows(*(np.concatenate(parts) for parts in zip(_fields(one), _fields(other), strict=True)))
            for one, other in zip(_arms(train, low, high), _arms(tune, low, high), strict=True)
        ]
        weights = fit(both, log.features.width, ridge=ridge, share=share)
        covariance = covariances(both, weights, ridge=ridge, share=share)
        del both  # as large as the rows
        metrics, baselines = {"rows": log.rows, "ridge": ridge, "share": share}, dict[str, float]()
        if len(tune) >= _LEAST_TUNE:
            metrics["tune_loss"] = loss
            values, baselines = _values(train, tune, ridge, share, low, high)
            metrics |= values
        return Learned(
            family="outcome",
            tensors={
                "weights": weights,
                "covariance": covariance,
                "range": np.array([low, high]),
            },
            knobs={key: value for key, value in wanted.items() if key != "fit_rows"} | {"ridge": ridge, "share": share},
            metrics=metrics,
            baselines=baselines,
            trained_on=log.trained_on(),
            extra=log.extra(),
        )


def _check_width(features: Features) -> None:
    if features.width > _WIDEST:
        raise errors.InvalidInput(
            f"The features are {features.width} wide; outcome takes {_WIDEST} at most.",
            code="too_wide",
            hint="Use a narrower encoder, or the family bandit or cql.",
        )


def _fields(arm: ArmRows) -> tuple[Any, Any, Any]:
    return arm.x, arm.y, arm.weight


def _arms(log: Transitions, low: float, high: float, *, even: bool = False) -> list[ArmRows]:
    """The rows of each arm, rewards as shares of the range; `even` weights arms as if tried equally often."""
    rows = log.usable
    y = (log.reward[rows] - np.float32(low)) / np.float32(max(high - low, 1e-12))
    weight = log.weight[rows]
    if even:
        tried = log.offered[rows].sum(axis=1) * np.maximum(log.propensity[rows], 1e-3)
        weight = (weight * np.minimum(1.0 / tried, 10.0)).astype(np.float32)
    mine = [log.action[rows] == arm for arm in range(log.offered.shape[1])]
    return [ArmRows(log.x[rows[row]], y[row].astype(np.float32), weight[row]) for row in mine]


def _chosen(
    train: Transitions,
    tune: Transitions,
    wanted: Mapping[str, Any],
    low: float,
    high: float,
    progress: Progress | None,
) -> tuple[float, float, float]:
    """Ridge, share, and the log loss on the tune part."""
    ridges: Sequence[float] = [float(wanted["ridge"])] if wanted["ridge"] else _RIDGES
    shares: Sequence[float] = [float(wanted["share"])] if wanted["share"] else _SHARES
    if len(tune) < _LEAST_TUNE:
        return float(wanted["ridge"] or _DEFAULT[0]), float(wanted["share"] or _DEFAULT[1]), float("nan")
    if len(ridges) == len(shares) == 1:
        weights = fit(_arms(train, low, high), train.x.shape[1], ridge=ridges[0], share=shares[0])
        return ridges[0], shares[0], loss_of(_arms(tune, low, high, even=True), weights)
    rows, held = _arms(train, low, high), _arms(tune, low, high, even=True)
    results: list[tuple[float, float, float]] = []
    for share in shares:
        last: Floats | None = None
        for ridge in ridges:
            last = fit(rows, train.x.shape[1], ridge=ridge, share=share, start=last)
            results.append((loss_of(held, last), ridge, share))
            if progress is not None:
                progress("models", len(results), len(ridges) * len(shares))
    loss, ridge, share = min(results)
    return ridge, share, loss


def _values(
    train: Transitions, tune: Transitions, ridge: float, share: float, low: float, high: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Values on the tune part: of the model of the train part alone, and of baselines."""
    weights = fit(_arms(train, low, high), train.x.shape[1], ridge=ridge, share=share)
    held, model = as_logged(tune), logged.fitted(as_logged(train))
    rewards = logged.doubly_robust(held, model.predict(held.x))
    q = held.x @ weights[:-1].T
    target = np.zeros_like(q)
    target[np.arange(len(q)), np.where(held.offered, q, -np.inf).argmax(axis=1)] = 1.0
    return {"tune_value": logged.value_of(target, rewards)}, dict(logged.baselines_of(held, rewards, model))


def _wanted(knobs: Mapping[str, Any]) -> dict[str, Any]:
    wanted = asdict(changed("outcome", OutcomeKnobs(), knobs))
    Chooser(wanted)  # refuses an explorer that is none
    return wanted


Singles = NDArray[np.float32]
_MEMORY = 8


@dataclass(frozen=True, slots=True)
class ArmRows:
    """The rows of one arm."""

    x: Singles  # [row, width]; the first column is the bias
    y: Singles
    weight: Singles


def fit(arms: Sequence[ArmRows], width: int, *, ridge: float, share: float, start: Floats | None = None) -> Floats:
    """[arm + 1, width]: the arms' weights, and last w₀, for an unknown arm.

    For arm a with rows x, outcomes y in 0 … 1 and weights m, the arm's weights are w_a = w₀ + d_a, and

        loss = Σ_a Σ_rows m·[log(1 + exp(x·w_a)) − y·x·w_a] + ½·λ·|w₀|² + ½·λ·s·Σ_a |d_a|²

    (biases are regularised by at most one row). An arm with few rows starts from w₀. y is a share, not a label: the
    estimate is a quasi-likelihood (Papke and Wooldridge, 1996). The loss is strictly convex.
    """
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
