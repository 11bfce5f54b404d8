"""Whether the logged probabilities are those that the actions were drawn with.

If they are, then for any set of actions S that is fixed before the draw, Σ 1[A ∈ S] − μ(S) is a martingale of known
variance Σ μ(S)(1 − μ(S)). `Calibration` adds up such sums by action, by size of the probability, for the likeliest
action and the choice of either policy, and each of these on one side of the median of every feature. `Repetition`
asks whether actions of one user, episode or situation resemble one another more than their probabilities allow.

Every sum is held against Bernstein's inequality for martingales (Freedman, 1975), which holds for small counts too:
P(|S| ≥ t) ≤ 2 exp(−t²/(2(V + bt/3))). A count is also held against Chernoff's bound, which knows that no count is below
0: an action with 30 expected draws that never occurs is far less likely than its variance says. All cells share
FALSE_ALARM (Bonferroni). Memory does not grow with the rows.

Rows that were deleted are missing from the sums, perhaps for what was drawn: each sum may be off by as much as they can
have moved it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from headway.prove.log import DELETED, Floats, Integers, Log

FALSE_ALARM = 2e-5  # of one look at all cells; repeated looks over a 50-fold growth of the log stay below 0.1%
EDGES: Floats = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99])  # bins of probabilities
MEDIANS = (50, 100, 200, 400)  # rows after which the medians of features are taken again, from earlier rows only
MOST_FEATURES = 96  # columns that are split at their medians
PLACES = 1 << 16  # kept per grouping
LEAST_SEEN = 20  # draws of an action before its weights are compared, where only its own probability is known
REACH = 3.0  # where the earlier draws of a group are cut off
PERIOD = 50  # rows in a row that count as one period
_PERIOD = "period"
_POLICIES = ("the likeliest action", "the candidate's choice", "the current policy's choice")


def exponent(total: Floats, variance: Floats, bound: Floats | float, slack: Floats | float = 0.0) -> Floats:
    """The exponent of Bernstein's inequality: P(a sum as large) ≤ 2 exp(−exponent). Without `slack` of the sum."""
    size = np.maximum(np.abs(total) - slack, 0.0)
    below = 2.0 * (variance + bound * size / 3.0)
    return np.where(below > 0.0, size * size / np.where(below > 0.0, below, 1.0), 0.0)


def chernoff(count: Floats, expected: Floats) -> Floats:
    """The exponent of Chernoff's bound for a count of independent draws: P(as far from `expected`) ≤ exp(−exponent)."""
    mean = np.maximum(expected, 1e-12)
    seen = np.maximum(count, 0.0)
    logarithm = np.log(np.where(seen > 0.0, seen / mean, 1.0))
    return np.where(expected > 0.0, mean - seen + seen * logarithm, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """The cell that fits worst. It fails above `limit`."""

    value: float
    limit: float
    message: str


class Calibration:
    """Sums of draws less their probabilities, by cell."""

    def __init__(self, arms: int, width: int) -> None:
        self._arms = arms
        self._rows = 0
        self._picked = _picked(width)
        self._medians: Floats | None = None
        self._seen: list[Floats] = []
        cells = arms + EDGES.size + 1 + len(_POLICIES)
        sides = 1 + self._picked.size
        self._total, self._variance, self._expected = (np.zeros((sides, cells)) for _ in range(3))
        self._counted = np.zeros((sides, 1))  # rows with all probabilities
        self._weights, self._weight_variance, self._draws = (np.zeros((sides, arms)) for _ in range(3))
        self._largest = np.ones(arms)
        self.alone = 0  # rows of which only the probability of the chosen action is known
        self._deleted = 0

    def add(self, piece: Log) -> None:
        """Add rows; a piece never reaches over one of MEDIANS."""
        sides = self._sides(piece.features)
        whole, alone = _kinds(piece)
        self._deleted += len(piece) - int(whole.sum() + alone.sum())
        if whole.all():
            self._add_full(sides, piece.action, piece.logged, piece.target, piece.baseline)
        else:
            policies = (piece.logged[whole], piece.target[whole], piece.baseline[whole])
            self._add_full(sides[whole], piece.action[whole], *policies)
            self._add_alone(sides[alone], piece.action[alone], piece.logged[alone])
            self.alone += int(alone.sum())
        self._learn_medians(piece.features)

    def _add_full(self, sides: Floats, action: Integers, logged: Floats, target: Floats, baseline: Floats) -> None:
        """Rows with all probabilities."""
        n, k = logged.shape
        rows = np.arange(n)
        code = np.searchsorted(EDGES, logged)
        bins = EDGES.size + 1
        expected = np.empty((n, k + bins + len(_POLICIES)))
        hit = np.zeros_like(expected)
        expected[:, :k] = logged
        hit[rows, action] = 1.0
        place = (rows[:, None] * bins + code).ravel()
        expected[:, k : k + bins] = np.bincount(place, weights=logged.ravel(), minlength=n * bins).reshape(n, bins)
        hit[rows, k + code[rows, action]] = 1.0
        for column, policy in enumerate((logged, target, baseline), start=k + bins):
            choice = policy.argmax(axis=1)
            expected[:, column] = logged[rows, choice]
            hit[:, column] = choice == action
        self._total += sides.T @ (hit - expected)
        self._variance += sides.T @ (expected * (1.0 - expected))
        self._expected += sides.T @ expected
        self._counted += sides.sum(axis=0)[:, None]

    def _add_alone(self, sides: Floats, action: Integers, logged: Floats) -> None:
        """Rows of which only the probability of the chosen action is known: E[1[A = a] / μ(a)] = 1."""
        rows = np.arange(action.size)
        weight = 1.0 / logged[rows, action]
        gap = -(logged > 0.0).astype(np.float64)
        gap[rows, action] += weight
        spread, hit = np.zeros_like(gap), np.zeros_like(gap)
        spread[rows, action] = weight * (weight - 1.0)
        hit[rows, action] = 1.0
        self._weights += sides.T @ gap
        self._weight_variance += sides.T @ spread
        self._draws += sides.T @ hit
        np.maximum.at(self._largest, action, weight)

    def _sides(self, features: Floats) -> Floats:
        """[n, 1 + column]; 1 for every row, and whether each feature lies above its median."""
        sides = np.zeros((len(features), 1 + self._picked.size))
        sides[:, 0] = 1.0
        if self._medians is not None:
            sides[:, 1:] = features[:, self._picked] > self._medians
        return sides

    def _learn_medians(self, features: Floats) -> None:
        self._rows += len(features)
        if not self._picked.size or self._rows > MEDIANS[-1]:
            return
        self._seen.append(features)
        if self._rows in MEDIANS:
            self._medians = np.median(np.concatenate(self._seen)[:, self._picked], axis=0)
        if self._rows == MEDIANS[-1]:
            self._seen.clear()

    def worst(self, arms: tuple[str, ...], columns: tuple[str, ...] = ()) -> Misfit | None:
        """The cell that fits worst; None before the first row."""
        total, variance = _contrasts(self._total), _contrasts(self._variance, squared=True)
        weights, spread = _contrasts(self._weights), _contrasts(self._weight_variance, squared=True)
        counted = (_contrasts(self._draws, squared=True) >= LEAST_SEEN) & (spread > 0.0)
        cells = int((variance > 0.0).sum() + counted.sum())
        if not cells:
            return None
        limit = log(2.0 * cells / FALSE_ALARM)
        surprise = np.where(variance > 0.0, exponent(total, variance, 1.0, self._deleted), 0.0)
        expected, rows = _contrasts(self._expected)[:2], _contrasts(self._counted)[:2]
        count = expected + np.sign(total[:2]) * np.maximum(np.abs(total[:2]) - self._deleted, 0.0)
        for seen, mean in ((count, expected), (rows - count, rows - expected)):  # drawn, and not drawn
            surprise[:2] = np.where(variance[:2] > 0.0, np.maximum(surprise[:2], chernoff(seen, mean)), 0.0)
        heavy = np.where(counted, exponent(weights, spread, self._largest, self._deleted * self._largest), 0.0)
        most = max(float(heavy.max(initial=0.0)), float(surprise.max(initial=0.0)))
        if most <= limit:
            return Misfit(value=most, limit=limit, message=f"{cells:,} counts of actions agree with the probabilities")
        if heavy.max(initial=0.0) > surprise.max(initial=0.0):
            kind, side, arm = (int(place) for place in np.unravel_index(int(heavy.argmax()), heavy.shape))
            message = (
                f"the weights 1/probability of {arms[arm]!r}{self._where(kind, side, columns)} are off by "
                f"{weights[kind, side, arm]:+,.0f} decisions"
            )
            return Misfit(value=most, limit=limit, message=message)
        kind, side, cell = (int(place) for place in np.unravel_index(int(surprise.argmax()), surprise.shape))
        off = float(total[kind, side, cell])
        message = (
            f"{self._what(cell, arms)} was chosen {abs(off):,.0f} times {'more' if off > 0.0 else 'less'} than the "
            f"logged probabilities add up to{self._where(kind, side, columns)} (chance explains "
            f"±{2.0 * variance[kind, side, cell] ** 0.5:,.0f})"
        )
        return Misfit(value=most, limit=limit, message=message)

    def _what(self, cell: int, arms: tuple[str, ...]) -> str:
        if cell < self._arms:
            return repr(arms[cell])
        cell -= self._arms
        if cell > EDGES.size:
            return _POLICIES[cell - EDGES.size - 1]
        low = EDGES[cell - 1] if cell else 0.0
        high = EDGES[cell] if cell < EDGES.size else 1.0
        return f"an action with a probability from {low:g} to {high:g}"

    def _where(self, kind: int, side: int, columns: tuple[str, ...]) -> str:
        if not side:
            return ""
        column = int(self._picked[side - 1])
        name = repr(columns[column]) if column < len(columns) else f"feature {column}"
        where = ("above its median", "not above its median", "above its median, less where it is not")[kind]
        return f" where {name} is {where}"


class Repetition:
    """Whether the draws of one user, episode or situation repeat one another.

    Two sums per grouping: how often an action is that of the group's last decision, less its probability; and the
    deviations from the likeliest action, weighted by the group's deviations so far. Groups share a fixed number of
    places by hash, which costs power where there are many, never validity.
    """

    def __init__(self) -> None:
        self._groups: defaultdict[str, _Draws] = defaultdict(_Draws)
        self._rows = self._deleted = 0

    def add(self, piece: Log) -> None:
        whole, alone = _kinds(piece)
        self._deleted += len(piece) - int(whole.sum() + alone.sum())
        action, logged = piece.action[whole], piece.logged[whole]
        rows = np.arange(action.size)
        if not rows.size:
            return
        likeliest = logged.argmax(axis=1)
        chance = 1.0 - logged[rows, likeliest]
        rest = (action != likeliest) - chance
        groups = {} if piece.origin is None else {name: codes[whole] for name, codes in piece.origin.groups.items()}
        groups[_PERIOD] = (self._rows + rows) // PERIOD
        self._rows += rows.size
        for name, codes in groups.items():
            self._groups[name].add(codes % PLACES, action, logged, rest, chance * (1.0 - chance))

    def worst(self) -> Misfit | None:
        """The grouping that repeats itself most; None if nothing repeats."""
        tested = {name: draws for name, draws in self._groups.items() if draws.variance.any()}
        if not tested:
            return None
        limit = log(4.0 * len(tested) / FALSE_ALARM)
        values = {name: draws.surprise(self._deleted) for name, draws in tested.items()}
        name = max(values, key=values.__getitem__)
        whose = "decisions made close together" if name == _PERIOD else f"decisions of the same {name}"
        far = "more than" if values[name] > limit else "no more than"
        message = f"the actions of {whose} depend on one another {far} their logged probabilities allow"
        return Misfit(value=values[name], limit=limit, message=message)


class _Draws:
    """The sums of one grouping, and what was drawn last in each place."""

    def __init__(self) -> None:
        self._last = np.full(PLACES, -1)
        self._deviations = np.zeros(PLACES)
        self.total, self.variance = np.zeros(2), np.zeros(2)

    def add(self, places: Integers, action: Integers, logged: Floats, rest: Floats, spread: Floats) -> None:
        order = np.argsort(places, kind="stable")
        places, action, rest, spread = places[order], action[order], rest[order], spread[order]
        new = np.ones(order.size, dtype=np.bool_)
        np.not_equal(places[1:], places[:-1], out=new[1:])
        first = np.flatnonzero(new)
        last = np.append(first[1:], order.size) - 1

        previous = np.empty_like(action)
        previous[1:] = action[:-1]
        previous[first] = self._last[places[first]]
        self._last[places[first]] = action[last]
        known = np.flatnonzero(previous >= 0)
        chance = logged[order[known], previous[known]]
        same = action[known] == previous[known]

        before = np.cumsum(rest) - rest
        before += (self._deviations[places[first]] - before[first])[np.cumsum(new) - 1]
        self._deviations[places[first]] += np.add.reduceat(rest, first)
        reach = np.clip(before, -REACH, REACH)

        self.total += (float(same.sum() - chance.sum()), float(reach @ rest))
        self.variance += (float(chance @ (1.0 - chance)), float((reach * reach) @ spread))

    def surprise(self, deleted: int) -> float:
        bounds = np.array([1.0, REACH])
        return float(exponent(self.total, self.variance, bounds, 2.0 * deleted * bounds).max())


def _kinds(piece: Log) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """[n], [n]; rows with all probabilities, and with that of the chosen action only; the others were deleted."""
    alone = None if piece.origin is None else piece.origin.chosen_only
    there = piece.status != DELETED
    return (there, np.zeros_like(there)) if alone is None else (there & ~alone, there & alone)


def _contrasts(sums: Floats, *, squared: bool = False) -> Floats:
    """[3, side, cell] from [side, cell]: above the median, not above it, and the difference of the two.

    The first side is every row, so its own rest is empty and its difference the same sum again. `squared`: sums of
    variances, where a difference adds up.
    """
    rest = sums[:1] - sums
    return np.stack([sums, rest, np.broadcast_to(sums[:1], sums.shape) if squared else sums - rest])


def _picked(width: int) -> Integers:
    """Columns that are split: all, or the first and the last ones, where numbers and categories follow the text."""
    if width <= MOST_FEATURES:
        return np.arange(width)
    few = MOST_FEATURES // 4
    return np.concatenate([np.arange(few), np.arange(width - MOST_FEATURES + few, width)])
