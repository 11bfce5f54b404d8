"""A reward model: predicts the rewards of answers that were not measured. Predictions are always marked as such.

    model = fit_model(x, rewards, names=…, groups=prompts, seed=7)   # ridge; its strength by cross-validation
    model.predict(x)                                                 # Predicted(value, low, high), calibrated
    model.explain(x[0])                                              # {"mutation=expansion": +0.12, "embedding": …}
    filled(rewards, model, x)                                        # measured rewards, else predicted ones

Rows of one group (a prompt) stay together in cross-validation, so the model is judged on unseen prompts. Predictions
are calibrated by regressing the rewards on the held-out predictions (slope and intercept), and the interval is the 80%
quantile of the held-out errors. A model that does not beat the mean on held-out prompts is not `useful`, and its
predictions are not used. A predicted reward has a weight of at most 1 - error/variance, a measured one 1.

The caller supplies the features: embeddings, the mutation, numbers about the prompt; never the outcome itself.
Not covered: relations that are not linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Floats

__all__ = ["Filled", "Predicted", "RewardRegression", "filled", "fit_model"]

_STRENGTHS = tuple(10.0**power for power in range(-2, 5))
_FOLDS = 5
_LEAST_GROUPS = 10
_INSIDE = 0.8


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions, all of shape [row]."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Filled:
    """The reward of one row, whether it was predicted, and its weight."""

    value: float | None
    modelled: bool
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewardRegression:
    """Immutable. `r2` and `slope` are measured on held-out groups."""

    names: tuple[str, ...]
    weights: Floats
    centre: Floats
    scale: Floats
    intercept: float
    slope: float  # of the calibration; 1: no correction
    offset: float
    margin: float  # half of the interval's width
    r2: float
    strength: float
    rows: int
    groups: int

    @property
    def useful(self) -> bool:
        """Whether it beats the mean on held-out prompts."""
        return self.r2 > 0.0

    def predict(self, x: Floats) -> Predicted:
        value = self.offset + self.slope * (self.intercept + self._scaled(x) @ self.weights)
        return Predicted(value, value - self.margin, value + self.margin)

    def explain(self, row: Floats) -> dict[str, float]:
        """The contribution of each feature to the prediction, largest first; equal names are summed."""
        parts = self.slope * self._scaled(row[None, :])[0] * self.weights
        contributions: dict[str, float] = {}
        for name, part in zip(self.names, parts.tolist(), strict=True):
            contributions[name] = contributions.get(name, 0.0) + part
        return dict(sorted(contributions.items(), key=lambda item: -abs(item[1])))

    def _scaled(self, x: Floats) -> Floats:
        if x.ndim != 2 or x.shape[1] != len(self.names):
            raise InvalidInput(
                f"The rows have the shape {x.shape}, expected {len(self.names)} features.", code="bad_shape", hint=""
            )
        scaled: Floats = (x - self.centre) / self.scale
        return scaled


def fit_model(
    x: Floats, rewards: Floats, *, names: Sequence[str], groups: Sequence[str], seed: int = 0
) -> RewardRegression:
    """Ridge regression on standardised features, with the best strength on held-out groups."""
    if len(set(groups)) < _LEAST_GROUPS or len(x) != len(rewards) or not np.isfinite(x).all():
        raise InvalidInput(
            f"There are {len(x)} rows of {len(set(groups))} prompts, expected {_LEAST_GROUPS} or more, all finite.",
            code="nothing_to_learn",
            hint="Collect outcomes of more prompts.",
        )
    if not np.isfinite(rewards).all():
        raise InvalidInput("A reward is not a finite number.", code="not_finite", hint="Remove that row.")
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    scaled = (x - centre) / scale
    known = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(known))
    fold_of = {known[group]: place % _FOLDS for place, group in enumerate(order)}
    fold = np.array([fold_of[group] for group in groups])
    held_out = {strength: _held_out(scaled, rewards, fold, strength) for strength in _STRENGTHS}
    strength = min(_STRENGTHS, key=lambda candidate: float(((held_out[candidate] - rewards) ** 2).mean()))
    slope, offset = _line(held_out[strength], rewards)
    errors = offset + slope * held_out[strength] - rewards
    means = _held_out(scaled[:, :0], rewards, fold, 1.0)  # the mean of the other folds: the baseline
    raw_error = float(((held_out[strength] - rewards) ** 2).mean())
    spread = float(((means - rewards) ** 2).mean())
    return RewardRegression(
        names=tuple(names),
        weights=_ridge(scaled, rewards - rewards.mean(), strength),
        centre=centre,
        scale=scale,
        intercept=float(rewards.mean()),
        slope=slope,
        offset=offset,
        margin=float(np.quantile(np.abs(errors), _INSIDE)),
        r2=1.0 - raw_error / spread if spread > 0 else 0.0,
        strength=strength,
        rows=len(x),
        groups=len(known),
    )


def filled(rewards: Sequence[float | None], model: RewardRegression, x: Floats) -> list[Filled]:
    """Measured rewards unchanged, missing ones predicted and marked."""
    predicted = model.predict(x).value
    weight = max(0.0, min(1.0, model.r2))
    return [
        Filled(float(value), modelled=False, weight=1.0)
        if value is not None
        else Filled(float(guess) if model.useful else None, modelled=True, weight=weight)
        for value, guess in zip(rewards, predicted, strict=True)
    ]


def _ridge(x: Floats, y: Floats, strength: float) -> Floats:
    """Weights [feature], from the smaller of the two linear systems."""
    rows, width = x.shape
    if not width:
        return np.zeros(0)
    if width <= rows:
        weights: Floats = np.asarray(np.linalg.solve(x.T @ x + strength * np.eye(width), x.T @ y), dtype=np.float64)
        return weights
    dual: Floats = x.T @ np.linalg.solve(x @ x.T + strength * np.eye(rows), y)
    return dual


def _held_out(x: Floats, y: Floats, fold: NDArray[np.int64], strength: float) -> Floats:
    predictions = np.empty(len(y))
    for number in range(_FOLDS):
        out = fold == number
        mean = y[~out].mean()
        predictions[out] = mean + x[out] @ _ridge(x[~out], y[~out] - mean, strength)
    return predictions


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of y on x; a negative slope becomes 0, because x then has no predictive value."""
    variance = float(x.var())
    slope = max(0.0, float(((x - x.mean()) * (y - y.mean())).mean()) / variance) if variance > 1e-12 else 0.0
    return slope, float(y.mean() - slope * x.mean())
