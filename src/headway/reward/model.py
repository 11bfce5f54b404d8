"""A reward model: what an answer would have earned, where nobody measured it. Marked as such, always.

    model = fit_model(x, rewards, names=…, groups=prompts, seed=7)   # ridge; its strength by cross-validation
    model.predict(x)                                                 # Predicted(value, low, high), calibrated
    model.explain(x[0])                                              # {"mutation=expansion": +0.12, "embedding": …}
    filled(rewards, model, x)                                        # measured where there is one, else modelled

Rows of one group (a prompt) stay together in cross-validation, so the model is judged on prompts that it has not seen.
Predictions are calibrated by regressing the rewards on the left-out predictions (slope and intercept), and the interval
is the 80% quantile of the left-out errors. A model that does not beat the mean on prompts left out is not `useful`, and
nothing is filled in from it. A modelled reward has the weight 1 - error/variance at most, a measured one 1.

Features are given by the caller: embeddings, the mutation, numbers about the prompt. Never the outcome itself.
Not covered: anything that a straight line cannot say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Floats

__all__ = ["Filled", "Predicted", "RewardModel", "filled", "fit_model"]

_STRENGTHS = tuple(10.0**power for power in range(-2, 5))
_FOLDS = 5
_LEAST_GROUPS = 10
_INSIDE = 0.8


@dataclass(frozen=True, slots=True)
class Predicted:
    """[row] each."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Filled:
    """One row's reward, where it is from, and what it should weigh."""

    value: float | None
    modelled: bool
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewardModel:
    """Immutable. `r2` and `slope` are measured on groups left out."""

    names: tuple[str, ...]
    weights: Floats
    centre: Floats
    scale: Floats
    intercept: float
    slope: float  # of the calibration: 1 is calibrated already
    offset: float
    margin: float  # half of the interval's width
    r2: float
    strength: float
    rows: int
    groups: int

    @property
    def useful(self) -> bool:
        """Whether it beats the mean on prompts that it has not seen."""
        return self.r2 > 0.0

    def predict(self, x: Floats) -> Predicted:
        value = self.offset + self.slope * (self.intercept + self._scaled(x) @ self.weights)
        return Predicted(value, value - self.margin, value + self.margin)

    def explain(self, row: Floats) -> dict[str, float]:
        """What each feature adds to this row's prediction, largest first; features of one name are summed."""
        parts = self.slope * self._scaled(row[None, :])[0] * self.weights
        found: dict[str, float] = {}
        for name, part in zip(self.names, parts.tolist(), strict=True):
            found[name] = found.get(name, 0.0) + part
        return dict(sorted(found.items(), key=lambda each: -abs(each[1])))

    def _scaled(self, x: Floats) -> Floats:
        if x.ndim != 2 or x.shape[1] != len(self.names):
            raise InvalidInput(
                f"The rows have the shape {x.shape}, expected {len(self.names)} features.", code="bad_shape", hint=""
            )
        found: Floats = (x - self.centre) / self.scale
        return found


def fit_model(x: Floats, rewards: Floats, *, names: Sequence[str], groups: Sequence[str], seed: int = 0) -> RewardModel:
    """Ridge on standardised features; the strength that does best on groups left out."""
    if len(set(groups)) < _LEAST_GROUPS or len(x) != len(rewards) or not np.isfinite(x).all():
        raise InvalidInput(
            f"{len(x)} rows of {len(set(groups))} prompts, expected finite ones of at least {_LEAST_GROUPS} prompts.",
            code="nothing_to_learn",
            hint="Collect outcomes of more prompts first.",
        )
    if not np.isfinite(rewards).all():
        raise InvalidInput("A reward is not a finite number.", code="not_finite", hint="Leave that row out.")
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    scaled = (x - centre) / scale
    known = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(known))
    fold_of = {known[group]: place % _FOLDS for place, group in enumerate(order)}
    fold = np.array([fold_of[each] for each in groups])
    left_out = {strength: _left_out(scaled, rewards, fold, strength) for strength in _STRENGTHS}
    strength = min(_STRENGTHS, key=lambda each: float(((left_out[each] - rewards) ** 2).mean()))
    slope, offset = _line(left_out[strength], rewards)
    errors = offset + slope * left_out[strength] - rewards
    means = _left_out(scaled[:, :0], rewards, fold, 1.0)  # the mean of the other folds: what has to be beaten
    raw_error = float(((left_out[strength] - rewards) ** 2).mean())
    spread = float(((means - rewards) ** 2).mean())
    return RewardModel(
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


def filled(rewards: Sequence[float | None], model: RewardModel, x: Floats) -> list[Filled]:
    """Measured rewards as they are, missing ones from the model, and which is which."""
    predicted = model.predict(x).value
    weight = max(0.0, min(1.0, model.r2))
    return [
        Filled(float(value), modelled=False, weight=1.0)
        if value is not None
        else Filled(float(guess) if model.useful else None, modelled=True, weight=weight)
        for value, guess in zip(rewards, predicted, strict=True)
    ]


def _ridge(x: Floats, y: Floats, strength: float) -> Floats:
    """[feature]; by the smaller of the two systems."""
    rows, width = x.shape
    if not width:
        return np.zeros(0)
    if width <= rows:
        found: Floats = np.asarray(np.linalg.solve(x.T @ x + strength * np.eye(width), x.T @ y), dtype=np.float64)
        return found
    dual: Floats = x.T @ np.linalg.solve(x @ x.T + strength * np.eye(rows), y)
    return dual


def _left_out(x: Floats, y: Floats, fold: NDArray[np.int64], strength: float) -> Floats:
    found = np.empty(len(y))
    for each in range(_FOLDS):
        out = fold == each
        mean = y[~out].mean()
        found[out] = mean + x[out] @ _ridge(x[~out], y[~out] - mean, strength)
    return found


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of y on x; a slope below 0 means that x tells nothing."""
    variance = float(x.var())
    slope = max(0.0, float(((x - x.mean()) * (y - y.mean())).mean()) / variance) if variance > 1e-12 else 0.0
    return slope, float(y.mean() - slope * x.mean())
