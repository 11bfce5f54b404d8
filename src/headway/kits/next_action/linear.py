"""The linear architecture: a bilinear ridge regression over state, action, and their products.

    weights = fit_linear(rows, pick_linear(rows, tune, rng), rng)      # [state, action]
    predict(weights, states, actions)      # [state, candidate], exact: the same bits in any set

The kernel of two rows is 1 + s·s' + a·a' + γ(s·s')(a·a'): main effects, and every product of a state and an action
column. Ridge, γ and the scale of the text are picked on the tuning rows. Rewards are in units of their deviation.

Vectors are multiples of 2⁻¹⁴ (`encode.state`) and weights of 2⁻²⁶, so that sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from headway.nouns.protocols import Floats

__all__ = ["MOST_WEIGHT", "LinearChoice", "LinearRows", "fit_linear", "pick_linear", "predict", "predict_rows"]

MOST_WEIGHT = 4.0
_GRID, _STATE_GRID = 2.0**-26, 2.0**-20
_SEARCHED, _MOST = 1000, 6000  # rows for picking, and for the fit
_RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_TEXTS, _PRODUCTS = (1.0, 3.0), (0.0, 0.3, 1.0)


@dataclass(frozen=True, slots=True)
class LinearRows:
    """Rows with rewards in units of their deviation, centred."""

    states: Floats
    actions: Floats
    reward: Floats
    weight: Floats
    text: tuple[int, int]  # widths of the text in states and actions

    def sample(self, most: int, rng: np.random.Generator) -> LinearRows:
        if len(self.reward) <= most:
            return self
        keep = np.sort(rng.permutation(len(self.reward))[:most])
        return LinearRows(self.states[keep], self.actions[keep], self.reward[keep], self.weight[keep], self.text)


def predict(weights: Floats, states: Floats, actions: Floats) -> Floats:
    """[state, action]: every action in every state."""
    middle = np.rint((states @ weights) / _STATE_GRID) * _STATE_GRID
    predicted: Floats = middle @ actions.T
    return predicted


def predict_rows(weights: Floats, states: Floats, actions: Floats) -> Floats:
    """[row]: row i of the actions in row i of the states."""
    middle = np.rint((states @ weights) / _STATE_GRID) * _STATE_GRID
    predicted: Floats = np.einsum("ij,ij->i", middle, actions)
    return predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearChoice:
    """What is picked on the tuning rows."""

    text: float = 1.0
    products: float = 0.0
    ridge: float = 10.0


def pick_linear(train: LinearRows, tune: LinearRows, rng: np.random.Generator) -> LinearChoice:
    """The choice with the least error on the tuning rows."""
    few = train.sample(_SEARCHED, rng)
    best, choice = np.inf, LinearChoice()
    for text, products in product(_TEXTS, _PRODUCTS) if len(tune.reward) else ():
        for ridge, predicted in _Kernel(few, text, products).path(few, tune, _RIDGES):
            error = float(np.average((predicted - tune.reward) ** 2, weights=tune.weight))
            if error < best:
                best, choice = error, LinearChoice(text=text, products=products, ridge=ridge)
    return choice


def fit_linear(train: LinearRows, choice: LinearChoice, rng: np.random.Generator) -> Floats:
    """The weights [state, action]."""
    many = train.sample(_MOST, rng)
    return _Kernel(many, choice.text, choice.products).weights(many, choice.ridge)


class _Kernel:
    """The kernel of some rows with one scale of the text and one weight of the products."""

    def __init__(self, rows: LinearRows, text: float, products: float) -> None:
        self.products = products
        self.of_state, self.of_action = (
            _scales(rows.states, rows.text[0], text),
            _scales(rows.actions, rows.text[1], text),
        )
        root = np.sqrt(rows.weight)
        gram = self._between(rows, rows) * root * root[:, None]
        self._root, self._gram = root, gram

    def _between(self, one: LinearRows, other: LinearRows) -> Floats:
        by_state = (one.states * self.of_state) @ other.states.T
        by_action = (one.actions * self.of_action) @ other.actions.T
        mixed: Floats = 1.0 + by_state + by_action
        return mixed + self.products * by_state * by_action if self.products else mixed

    def path(self, rows: LinearRows, tune: LinearRows, ridges: tuple[float, ...]) -> list[tuple[float, Floats]]:
        """The predictions for the tuning rows, for every ridge."""
        values, vectors = np.linalg.eigh(self._gram)
        seen = vectors.T @ (self._root * rows.reward)
        across = (self._between(tune, rows) * self._root) @ vectors
        return [(ridge, across @ (seen / (np.maximum(values, 0.0) + ridge))) for ridge in ridges]

    def weights(self, rows: LinearRows, ridge: float) -> Floats:
        """The same regression as one matrix."""
        solved = np.linalg.solve(self._gram + ridge * np.eye(len(self._gram)), self._root * rows.reward)
        dual = self._root * solved
        states, actions = rows.states * self.of_state, rows.actions * self.of_action
        weights = self.products * (states * dual[:, None]).T @ actions
        weights[:, 0] += states.T @ dual  # column 0 of both sides is the constant 1, whose scale is 0
        weights[0, :] += actions.T @ dual
        weights[0, 0] += dual.sum()
        rounded: Floats = np.clip(np.rint(weights / _GRID) * _GRID, -MOST_WEIGHT, MOST_WEIGHT)
        return rounded


def _scales(x: Floats, text: int, factor: float) -> Floats:
    """The weight of every column in a product: 0 for the constant; together, the others have a mean square of 1."""
    scales = np.ones(x.shape[1])
    scales[0] = 0.0
    scales[1 : 1 + text] = factor * 4.0
    size = float(((x * x) @ scales).mean()) if len(x) else 1.0
    return scales / max(size, 1e-9)
