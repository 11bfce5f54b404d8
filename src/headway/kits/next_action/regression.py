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
from dataclasses import replace
from typing import Any

import numpy as np

from headway.decide.stored import tensor
from headway.kits.next_action.cubic import CubicModel, fit_cubic
from headway.kits.next_action.layout import Layout
from headway.kits.next_action.linear import (
    MOST_WEIGHT,
    LinearChoice,
    LinearRows,
    MatrixModel,
    ProductKernel,
    fit_matrix,
)
from headway.nouns.protocols import Floats

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
