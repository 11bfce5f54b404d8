"""Ridge regression over state, action, and their products: rows, the kernel, and the model as one matrix.

    model = MatrixModel(weights=fit_matrix(rows, choice, rng))      # weights [state, action]
    model(states, actions)       # [state, candidate], exact: the same bits in any set

The kernel of two rows is μ(1 + s + a) + sa + δ(a²(1 + s) + s²(1 + a)), where s and a are inner products of their states
and actions: main effects of weight μ, every product of a state and an action column, and of weight δ products of three.
Text has a share of each inner product. Without products of three, the regression is one matrix; `cubic` has the other
form. Rewards are in units of their deviation.

Vectors are multiples of 2⁻¹⁴ (`encode.state`) and weights of 2⁻²⁶, so that sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats

MOST_WEIGHT = 4.0
_GRID, _STATE_GRID = 2.0**-26, 2.0**-20
_MOST = 6000  # rows of a fit


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
        return self.part(np.sort(rng.permutation(len(self.reward))[:most]))

    def part(self, keep: NDArray[np.int64]) -> LinearRows:
        return LinearRows(self.states[keep], self.actions[keep], self.reward[keep], self.weight[keep], self.text)

    def __add__(self, more: LinearRows) -> LinearRows:
        """Both sets of rows, in the units of the first."""
        pairs = ((self.states, more.states), (self.actions, more.actions), (self.reward, more.reward))
        states, actions, reward = (np.concatenate(pair) for pair in pairs)
        return LinearRows(states, actions, reward, np.concatenate([self.weight, more.weight]), self.text)


@dataclass(frozen=True, slots=True)
class MatrixModel:
    """A fitted regression as one matrix [state, action]."""

    weights: Floats

    def __call__(self, states: Floats, actions: Floats) -> Floats:
        """[state, action]: every action in every state."""
        predicted: Floats = self._middle(states) @ actions.T
        return predicted

    def rows(self, states: Floats, actions: Floats) -> Floats:
        """[row]: row i of the actions in row i of the states."""
        predicted: Floats = np.einsum("ij,ij->i", self._middle(states), actions)
        return predicted

    def _middle(self, states: Floats) -> Floats:
        middle: Floats = np.rint((states @ self.weights) / _STATE_GRID) * _STATE_GRID
        return middle


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearChoice:
    """What is picked on the tuning rows; the defaults are the usual choice."""

    goal: float = 0.0  # the share of text in the inner product of states
    words: float = 0.35  # and of actions
    main: float = 0.05  # μ
    cubes: float = 0.03  # δ
    ridge: float = 0.5


def fit_matrix(train: LinearRows, choice: LinearChoice, rng: np.random.Generator) -> Floats:
    """The weights [state, action] of a choice without products of three."""
    many = train.sample(_MOST, rng)
    return ProductKernel(many, choice).weights(many, choice.ridge)


class ProductKernel:
    """The kernel of some rows."""

    def __init__(self, rows: LinearRows, choice: LinearChoice) -> None:
        self.main, self.cubes = choice.main, choice.cubes
        self.of_state = _scales(rows.states, rows.text[0], choice.goal)
        self.of_action = _scales(rows.actions, rows.text[1], choice.words)
        root = np.sqrt(rows.weight)
        gram = self._between(rows, rows) * root * root[:, None]
        self._root, self._gram = root, gram

    def _between(self, one: LinearRows, other: LinearRows) -> Floats:
        by_state = (one.states * self.of_state) @ other.states.T
        by_action = (one.actions * self.of_action) @ other.actions.T
        mixed: Floats = self.main * (1.0 + by_state + by_action) + by_state * by_action
        if self.cubes:
            mixed += self.cubes * (by_action**2 * (1.0 + by_state) + by_state**2 * (1.0 + by_action))
        return mixed

    def path(self, rows: LinearRows, tune: LinearRows, ridges: tuple[float, ...]) -> list[tuple[float, Floats]]:
        """The predictions for the tuning rows, for every ridge."""
        values, vectors = np.linalg.eigh(self._gram)
        seen = vectors.T @ (self._root * rows.reward)
        across = (self._between(tune, rows) * self._root) @ vectors
        return [(ridge, across @ (seen / (np.maximum(values, 0.0) + ridge))) for ridge in ridges]

    def dual(self, rows: LinearRows, ridge: float) -> Floats:
        """The weight of every row."""
        solved = np.linalg.solve(self._gram + ridge * np.eye(len(self._gram)), self._root * rows.reward)
        weights: Floats = self._root * solved
        return weights

    def weights(self, rows: LinearRows, ridge: float) -> Floats:
        """The same regression as one matrix; only without `cubes`."""
        dual = self.dual(rows, ridge)
        states, actions = rows.states * self.of_state, rows.actions * self.of_action
        weights = (states * dual[:, None]).T @ actions
        weights[:, 0] += self.main * (states.T @ dual)  # column 0 of both sides is the constant 1, whose scale is 0
        weights[0, :] += self.main * (actions.T @ dual)
        weights[0, 0] += self.main * dual.sum()
        rounded: Floats = np.clip(np.rint(weights / _GRID) * _GRID, -MOST_WEIGHT, MOST_WEIGHT)
        return rounded


def _scales(x: Floats, text: int, share: float) -> Floats:
    """The weight of every column in an inner product: 0 for the constant, together a mean square of 1."""
    squares = (x * x).mean(axis=0) if len(x) else np.ones(x.shape[1])
    words, others = float(squares[1 : 1 + text].sum()), float(squares[1 + text :].sum())
    if min(words, others) < 1e-9:  # one of them says nothing
        share = 1.0 if words > others else 0.0
    scales = np.zeros(x.shape[1])
    scales[1 : 1 + text] = share / max(words, 1e-9)
    scales[1 + text :] = (1.0 - share) / max(others, 1e-9)
    return scales
