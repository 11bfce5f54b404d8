"""The architecture `linear`: picks a ridge regression on the tuning rows, fits it, and reads it from a bundle.

    choice = pick_regression(rows, tune, rng)
    model = read_regression(fit_regression(rows, choice, rng), layout)
    model(states, actions)          # [state, candidate]

As a rule there are few tuning rows: another choice than the usual one is made only where it predicts them better by two
standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headway.decide import tensor
from headway.kits.next_action.layout import Layout
from headway.kits.next_action.linear import (
    MOST_WEIGHT,
    LinearChoice,
    LinearRows,
    MatrixModel,
    ProductKernel,
    fit_matrix,
)
from headway.nouns import Floats

_MOST, _CHUNK = 3000, 512  # rows of a fit, and rows that are predicted at once
# Sums of at most 4,096 products are exact in float64: |inner product| ≤ 2³ and its square ≤ 2⁶ in steps of 2⁻¹²,
# weights ≤ 2⁸ in steps of 2⁻¹⁵. Stored rows are multiples of 2⁻¹⁸, vectors of 2⁻¹⁴.
_ROW_GRID, _INNER_GRID, _WEIGHT_GRID = 2.0**-18, 2.0**-12, 2.0**-15
_MOST_ROW, _MOST_INNER, _MOST_WEIGHT = 64.0, 8.0, 256.0


def fit_cubic(train: LinearRows, choice: LinearChoice, rng: np.random.Generator) -> dict[str, Floats]:
    """The tensors of a bundle: scaled rows and the weight of each."""
    rows = train.sample(_MOST, rng)
    kernel = ProductKernel(rows, choice)
    return {
        "cubic.states": _rounded(rows.states * kernel.of_state, _ROW_GRID, _MOST_ROW),
        "cubic.actions": _rounded(rows.actions * kernel.of_action, _ROW_GRID, _MOST_ROW),
        "cubic.dual": kernel.dual(rows, choice.ridge),
        "cubic.terms": np.array([choice.main, choice.cubes]),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CubicModel:
    """A fitted regression. Rewards are in units of their deviation, centred."""

    states: Floats  # [row, …], scaled
    actions: Floats
    dual: Floats  # [row]
    main: float
    cubes: float

    @classmethod
    def read(cls, tensors: Mapping[str, Any], layout: Layout) -> CubicModel:
        """From a bundle; the input is untrusted."""
        dual = tensor(tensors, "cubic.dual", -1, limit=1e6)[:_MOST]
        states = tensor(tensors, "cubic.states", len(dual), layout.state.width, limit=_MOST_ROW)
        actions = tensor(tensors, "cubic.actions", len(dual), layout.action.width, limit=_MOST_ROW)
        main, cubes = tensor(tensors, "cubic.terms", 2, limit=1e3).tolist()
        return cls(states=states, actions=actions, dual=dual, main=main, cubes=cubes)

    def __call__(self, states: Floats, actions: Floats) -> Floats:
        """[state, action]: every action in every state."""
        flat, slope, bend = self._weights(states)
        inner, square = self._inner(actions)
        predicted: Floats = flat[:, None] + slope @ inner.T + bend @ square.T
        return predicted

    def rows(self, states: Floats, actions: Floats) -> Floats:
        """[row]: row i of the actions in row i of the states."""
        predicted = np.empty(len(states))
        for start in range(0, len(states), _CHUNK):
            some = slice(start, start + _CHUNK)
            flat, slope, bend = self._weights(states[some])
            inner, square = self._inner(actions[some])
            predicted[some] = flat + (slope * inner).sum(axis=1) + (bend * square).sum(axis=1)
        return predicted

    def _weights(self, states: Floats) -> tuple[Floats, Floats, Floats]:
        """Of the constant [state], of the inner products and of their squares [state, row]."""
        near = _rounded(states @ self.states.T, _INNER_GRID, _MOST_INNER)
        curved = self.cubes * near * near
        terms = (self.main * (1.0 + near) + curved, self.main + near + curved, self.cubes * (1.0 + near))
        flat, slope, bend = (_rounded(self.dual * term, _WEIGHT_GRID, _MOST_WEIGHT) for term in terms)
        return flat.sum(axis=1), slope, bend

    def _inner(self, actions: Floats) -> tuple[Floats, Floats]:
        """Inner products with the rows' actions, and their squares: [action, row]."""
        inner = _rounded(actions @ self.actions.T, _INNER_GRID, _MOST_INNER)
        return inner, _rounded(inner * inner, _INNER_GRID, _MOST_INNER**2)


def _rounded(values: Floats, grid: float, most: float) -> Floats:
    rounded: Floats = np.clip(np.rint(values / grid) * grid, -most, most)
    return rounded


Regression = MatrixModel | CubicModel

_SEARCHED = 800  # rows for picking
_RIDGES = (0.2, 1.0, 5.0, 50.0)
_CLEARLY = 2.0  # standard errors
_OTHERS = (
    LinearChoice(words=0.2),
    LinearChoice(goal=0.3),
    LinearChoice(cubes=0.0),
    LinearChoice(cubes=0.0, main=1.0),
    LinearChoice(goal=0.3, cubes=0.0),
    LinearChoice(goal=0.3, cubes=0.0, main=1.0),
    LinearChoice(cubes=0.1),
)


def pick_regression(train: LinearRows, tune: LinearRows, rng: np.random.Generator) -> LinearChoice:
    """The usual choice, or the one with the least error on the tuning rows if that is clearly less."""
    if not len(tune.reward):
        return LinearChoice()
    few = train.sample(_SEARCHED, rng)
    tried = [trial for choice in (LinearChoice(), *_OTHERS) for trial in _errors(few, tune, choice)]
    usual = min(tried[: len(_RIDGES)], key=lambda trial: float(trial[0].sum()))
    best = min(tried, key=lambda trial: float(trial[0].sum()))
    lead = usual[0] - best[0]
    error = float(lead.std()) * math.sqrt(len(lead))
    return best[1] if float(lead.sum()) > _CLEARLY * error else usual[1]


def _errors(few: LinearRows, tune: LinearRows, choice: LinearChoice) -> Iterator[tuple[Floats, LinearChoice]]:
    """The squared errors of the tuning rows with every ridge."""
    for ridge, predicted in ProductKernel(few, choice).path(few, tune, _RIDGES):
        yield tune.weight * (predicted - tune.reward) ** 2, replace(choice, ridge=ridge)


def fit_regression(rows: LinearRows, choice: LinearChoice, rng: np.random.Generator) -> dict[str, Floats]:
    """The tensors of a bundle."""
    return fit_cubic(rows, choice, rng) if choice.cubes else {"linear": fit_matrix(rows, choice, rng)}


def read_regression(tensors: Mapping[str, Any], layout: Layout) -> Regression:
    """The model of a bundle; the input is untrusted."""
    if "linear" not in tensors and "cubic.dual" in tensors:
        return CubicModel.read(tensors, layout)
    return MatrixModel(tensor(tensors, "linear", layout.state.width, layout.action.width, limit=MOST_WEIGHT))
