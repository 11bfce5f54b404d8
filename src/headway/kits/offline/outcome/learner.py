"""Learns the probability of success of each arm: logistic models with a shared part.

    OutcomeLearner(encoder).learn(experience, {}, seed=7)
    OutcomeLearner(encoder).learn(experience, {"ridge": 3.0, "share": 4.0}, seed=7)

For rewards between two bounds (solved or not, a score). Use it if outcomes of *every* arm are known, as in an
evaluation set: record one decision per arm and prompt. The model is in `logistic.py`; `ridge` and
`share` are those with the least log loss on the tune part, rows weighted as if all candidates had been tried equally
often. The policy is then fitted on train and tune together. Range: the least and the greatest reward seen.

Not covered: learning row by row; more than 1,024 features; rewards without bounds (use the bandit).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.decide import Explorer
from headway.encode import Features
from headway.kits.offline.knobs import OutcomeKnobs
from headway.kits.offline.outcome.logistic import ArmRows, covariances, fit, loss_of
from headway.kits.offline.transitions import Transitions, as_logged, read_log
from headway.kits.practice import logged
from headway.learn import checked
from headway.nouns import Encoder, Experience, Floats, InvalidInput, Learned, Progress

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
        metrics, baselines = {"rows": log.rows, "ridge": ridge, "share": share}, dict[str, float]()
        if len(tune) >= _LEAST_TUNE:
            metrics["tune_loss"] = loss
            values, baselines = _values(train, tune, ridge, share, low, high)
            metrics |= values
        return Learned(
            family="outcome",
            tensors={
                "weights": weights,
                "covariance": covariances(both, weights, ridge=ridge, share=share),
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
        raise InvalidInput(
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
    wanted = checked("outcome", knobs, OutcomeKnobs)
    Explorer.of(wanted["explore"])
    return wanted
