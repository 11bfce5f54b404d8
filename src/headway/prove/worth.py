"""Money and quality of a policy against always taking one action, from logged decisions: for display, never a verdict.

Every row has the probabilities of its draw and those of the policy. The value of the policy and of an action are doubly
robust, with the mean of each action as the model:

    policy   Σ_a π(a) m_a + π(A)/p(A) (y − m_A)        action b   m_b + 1[A = b]/p(b) (y − m_b)

Both have one score per row, so that their difference and ratio are paired. The action is the most expensive one of
those whose quality is not shown to be below the best: what one would take without a router.

A missing outcome or cost may be anything that is possible: the interval holds with all of them at either end, and where
they could move it too far, the number is unknown. A cost is possible up to its declared range, or twice the largest one
known of its action: that holds the mean of the dearest percent of log-normal costs up to σ = 1.4. The tail of the costs
widens the interval by what larger ones, not seen yet, may add; where a few rows decide an average, it is unknown.
Not covered: choices by context in the model, which would only narrow the intervals; proof, which is the gate's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, isqrt, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Decision, Measure
from headway.prove.log import Floats, Integers
from headway.prove.sequential import quantile

LEAST = 100  # rows with an outcome
LEAST_DRAWS = 30  # rows in which the action that we compare with was taken
_MOST_MOVED = 0.05  # of the action's quality: how far missing outcomes may move a number that is shown
_MOST_COST_MOVED = 0.25  # of the action's cost, by missing costs: the interval is wide, and says what it allows for
_NARROW = 0.05  # of the action's cost: an interval that hides no tail that matters
_MOST_SKEW = 0.2  # skewness / √rows, up to which the interval covers as often as it says
_MOST_TAIL = 0.35  # the same, as the largest costs suggest it: log-normal costs with σ = 2 are hidden
_SHIFT, _TAIL_SHIFT = 3.0, 7.0  # standard errors per unit of each
_TIMES = 2.0  # a missing cost is at most so many times the largest that is known of its action
_TIMES_UNKNOWN = 10.0  # or of all, where few costs of its action are known
_CLEAR = 0.05  # the quality of an action must be this much above 0 for a ratio to mean something


@dataclass(frozen=True, slots=True, kw_only=True)
class WorthRows:
    """Mature decisions; NaN where quality or cost is missing. Quality is None if the reward is all cost."""

    action: Integers  # [n]; an index of `arms`
    logged: Floats  # [n, arm]
    target: Floats  # [n, arm]
    quality: Floats | None  # [n]
    cost: Floats  # [n]
    arms: tuple[str, ...]
    quality_range: tuple[float, float] = (0.0, 1.0)
    cost_range: tuple[float, float] | None = None  # declared
    offered: NDArray[np.bool_] | None = None  # [n, arm]; without it, every arm was a candidate of every row

    @classmethod
    def of(
        cls,
        decisions: Sequence[Decision],
        target: Sequence[Sequence[float]],
        *,
        goods: Sequence[float] | None,
        prices: Sequence[float],
        at_random: bool,
        quality_range: tuple[float, float],
        cost_range: tuple[float, float] | None,
    ) -> WorthRows:
        """`target`: the policy's probabilities, by decision. `at_random`: rows with something missing are left out."""
        arms = tuple(sorted({candidate.name for decision in decisions for candidate in decision.candidates}))
        column = {name: place for place, name in enumerate(arms)}
        logged, wanted = np.zeros((len(decisions), len(arms))), np.zeros((len(decisions), len(arms)))
        offered = np.zeros((len(decisions), len(arms)), dtype=np.bool_)
        for place, decision in enumerate(decisions):
            columns = [column[candidate.name] for candidate in decision.candidates]
            logged[place, columns] = decision.probabilities
            offered[place, columns] = True
            wanted[place, columns] = target[place][: len(columns)]
        quality, cost = None if goods is None else np.array(goods), np.array(prices, dtype=np.float64)
        kept = np.ones(len(decisions), dtype=np.bool_)
        if at_random:
            kept = np.isfinite(cost) | (quality is not None and np.isfinite(cost).mean() < 0.5)
            kept &= quality is None or np.isfinite(quality)
        return cls(
            action=np.array([column[decision.action] for decision in decisions], dtype=np.int64)[kept],
            logged=logged[kept],
            target=wanted[kept],
            quality=None if quality is None else quality[kept],
            cost=cost[kept],
            arms=arms,
            quality_range=quality_range,
            cost_range=cost_range,
            offered=offered[kept],
        )

    def choices(self) -> NDArray[np.bool_]:
        """[n]; where more than one action could be taken; all of them, if none was a candidate of all these rows."""
        if self.offered is None:
            return np.ones(self.action.size, dtype=np.bool_)
        chosen: NDArray[np.bool_] = self.offered.sum(axis=1) > 1
        whole = np.flatnonzero(self.offered.all(axis=1))
        if 2 * whole.size >= self.action.size and not self.offered[chosen].all(axis=0).any():
            chosen = np.isin(np.arange(self.action.size), whole)
        return chosen

    def where(self, chosen: NDArray[np.bool_]) -> WorthRows:
        """Only these rows."""
        return replace(
            self,
            action=self.action[chosen],
            logged=self.logged[chosen],
            target=self.target[chosen],
            quality=None if self.quality is None else self.quality[chosen],
            cost=self.cost[chosen],
            offered=None if self.offered is None else self.offered[chosen],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedWorth:
    """A policy against one action. `unpriced`, `unrated`: the action with the most missing costs or outcomes, if these
    could move the number too far. `heavy`: a few decisions decide what an average costs.
    """

    against: str = ""
    saved: Measure | None = None  # per request
    ratio: Measure | None = None
    gap: Measure | None = None
    same: bool = False
    cost_known: float = 0.0
    unpriced: str = ""
    unrated: str = ""
    heavy: bool = False
    unpriced_most: float = 0.0  # the largest missing cost that the interval of `saved` allows for; 0: none is missing
    free: bool = False  # every cost is 0: prices were not set
    short: str = ""  # too few rows: how many of what
    unchosen: int = 0  # rows that do not speak, because only one action could be drawn
    moving: bool = False  # no action was possible in every decision: there is nothing to compare with


def compare_worth(rows: WorthRows) -> ComparedWorth:
    """The policy against the best fixed action, in the rows in which there was a choice."""
    chosen = rows.choices()
    unchosen = rows.action.size - int(chosen.sum())
    return replace(_compare(rows.where(chosen) if unchosen else rows), unchosen=unchosen)


def _compare(rows: WorthRows) -> ComparedWorth:
    priced = np.isfinite(rows.cost)
    rated = priced if rows.quality is None else np.isfinite(rows.quality)
    known = int(rated.sum())
    if known < LEAST:
        return ComparedWorth(short=f"{known:,} of the {LEAST} outcomes")
    fixed = [arm for arm in range(len(rows.arms)) if (rows.logged[:, arm] > 0.0).all()]
    if not fixed:
        return ComparedWorth(moving=True)
    free = bool(priced.any() and (rows.cost[priced] == 0.0).all())
    costs = quality = None
    if priced.any() and not free:
        low, high = rows.cost_range or (0.0, _dearest(rows, priced))
        costs = _BoundedScores.of(rows, rows.cost, (min(low, float(rows.cost[priced].min())), high))
    if rows.quality is not None:
        quality = _BoundedScores.of(rows, rows.quality, rows.quality_range)
    against = _reference(fixed, quality, costs)
    draws = int((rows.action == against).sum())
    if draws < LEAST_DRAWS:
        return ComparedWorth(short=f"{draws} of the {LEAST_DRAWS} {rows.arms[against]} decisions")
    saved, heavy, unpriced = (None, False, "") if costs is None else _saved(rows, costs, against)
    gap, ratio = (None, None) if quality is None else _quality(quality, against)
    return ComparedWorth(
        against=rows.arms[against],
        saved=saved,
        ratio=ratio,
        gap=gap,
        same=bool((rows.target[:, against] >= 1.0 - 1e-9).all()),
        cost_known=float(priced.mean()),
        free=free,
        unpriced=unpriced,
        heavy=heavy,
        unpriced_most=0.0 if saved is None or priced.all() else float(np.max(np.where(priced, 0.0, high))),
        unrated="" if quality is None or ratio or gap else _most_missing(rows, ~rated),
    )


@dataclass(frozen=True, slots=True)
class _BoundedScores:
    """Scores as sums: Σ_a π(a) m_a + w (y − m_A), for the policy and for each action."""

    rows: WorthRows
    means: Floats  # [arm]
    left: Floats  # [n]; y − m_A; NaN where y is missing
    least: Floats  # [n]; the same for the least and the largest possible value, where y is missing
    most: Floats
    spare: Floats  # [arm]; variance of a value that the rows have not shown, which they may still hold

    @classmethod
    def of(cls, rows: WorthRows, values: Floats, limits: tuple[float, float | Floats]) -> _BoundedScores:
        known, count = np.isfinite(values), len(rows.arms)
        draws = np.bincount(rows.action[known], minlength=count)
        sums = np.bincount(rows.action[known], weights=values[known], minlength=count)
        means = np.divide(sums, draws, out=np.full(count, values[known].mean()), where=draws > 0)
        model = means[rows.action]
        width = float(values[known].max() - values[known].min())
        return cls(
            rows,
            means,
            values - model,
            np.where(known, values, limits[0]) - model,
            np.where(known, values, limits[1]) - model,
            np.divide(0.5 * width**2, draws + 2.0),
        )

    def action(self, arm: int, times: float = 1.0) -> tuple[Floats, Floats]:
        """The part of the scores of always taking an action that the model explains, and the weight of each row."""
        n = self.rows.action.size
        drawn = self.rows.logged[:, arm]
        return np.full(n, times * self.means[arm]), np.where(self.rows.action == arm, times / drawn, 0.0)

    def policy(self) -> tuple[Floats, Floats]:
        places = np.arange(self.rows.action.size)
        drawn = self.rows.logged[places, self.rows.action]
        return self.rows.target @ self.means, self.rows.target[places, self.rows.action] / drawn

    def low_and_high(self, direct: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """The scores with every missing value where it makes them smallest, and where it makes them largest."""
        up = weight > 0.0
        return (
            direct + weight * np.where(up, self.least, self.most),
            direct + weight * np.where(up, self.most, self.least),
        )

    def measure(self, direct: Floats, weight: Floats, tail: float = 0.0) -> tuple[Measure, float]:
        """The mean of the scores with its interval, and how far missing values may move it."""
        low, high = self.low_and_high(direct, weight)
        spare = float(np.mean(weight**2 * self.spare[self.rows.action]))
        least, most = float(low.mean()), float(high.mean())
        return (
            Measure(
                value=(least + most) / 2.0,
                low=least - _wide(low, spare, tail),
                high=most + _wide(high, spare, tail),
            ),
            most - least,
        )


def _dearest(rows: WorthRows, priced: NDArray[np.bool_]) -> Floats:
    """The largest cost that each row may have had."""
    most = np.full(rows.action.size, _TIMES_UNKNOWN * float(rows.cost[priced].max()))
    for arm in range(len(rows.arms)):
        taken = rows.action == arm
        if (taken & priced).sum() >= LEAST_DRAWS:
            most[taken] = _TIMES * float(rows.cost[taken & priced].max())
    return most


def _wide(scores: Floats, spare: float, tail: float) -> float:
    """Half of the 95% interval of a mean: Student's, for as many rows as the scores are worth.

    Skewed scores shift it to one side (Johnson, 1978, by about 1.4 κ standard errors with κ = skewness / √n). Whether
    they are is as uncertain as the mean, so both sides get twice that.
    """
    n, centred = scores.size, scores - scores.mean()
    square = centred**2
    total, fourth = float(square.sum()), float((square**2).sum())
    worth = max(10.0, total**2 / fourth) if fourth > 0.0 else float(n)
    z = quantile(0.975)
    student = z * (1.0 + (z * z + 1.0) / (4.0 * worth))
    return (student + _SHIFT * _skew(scores) + _TAIL_SHIFT * tail) * sqrt((total / (n - 1) + spare) / n)


def _skew(scores: Floats) -> float:
    """Skewness / √n: how far a few rows decide the mean."""
    centred = scores - scores.mean()
    spread = float(centred @ centred)
    scale = scores.size * float(np.abs(scores).max(initial=0.0)) ** 2
    return abs(float((centred**3).sum())) / spread**1.5 if spread > 1e-18 * scale else 0.0


def _tail(rows: WorthRows, scores: Floats) -> float:
    """The skewness / √n that the tails of the costs lead one to expect, also of the largest costs not seen yet.

    The mean excess of an action's largest logarithms (Hill) gives the spread of the log-normal costs with such a tail.
    Missing costs may be the largest: they count as at least the largest known, unless a range is declared.
    """
    square, expected = (scores - scores.mean()) ** 2, 0.0
    for arm in range(len(rows.arms)):
        taken = (rows.action == arm) & (rows.cost > 0.0)
        count = int(taken.sum())
        if count < LEAST_DRAWS:
            continue
        gone = 0 if rows.cost_range else int(np.isnan(rows.cost[rows.action == arm]).sum())
        largest = 2 * isqrt(count)
        logs = np.log(np.sort(rows.cost[taken])[-largest - 1 :])
        top = (largest + gone) / (count + gone)
        z = quantile(1.0 - top)
        excess = exp(-z * z / 2.0) / sqrt(2.0 * pi) / top - z  # of a standard normal variable
        seen = float((logs - logs[0]).sum() + gone * (logs[-1] - logs[0])) / largest
        spread = exp(min(3.0, seen / excess) ** 2)
        share = float(square[taken].sum()) / max(float(square.sum()), 1e-300)
        expected += (spread + 2.0) * sqrt(spread - 1.0) / sqrt(count) * share**1.5
    return expected


def _saved(rows: WorthRows, costs: _BoundedScores, against: int) -> tuple[Measure | None, bool, str]:
    """What the policy saves per request; None where the tail is heavy, or too many costs are missing."""
    (direct, weight), (ours, shares) = costs.action(against), costs.policy()
    scores, base = direct - ours + (weight - shares) * np.nan_to_num(costs.left), abs(float(costs.means[against]))
    tail = _tail(rows, scores)
    measure, moved = costs.measure(direct - ours, weight - shares, tail)
    if moved > _MOST_COST_MOVED * base:
        return None, False, _most_missing(rows, np.isnan(costs.left))
    if (_skew(scores) > _MOST_SKEW or tail > _MOST_TAIL) and measure.high - measure.low > _NARROW * base:
        return None, True, ""
    return measure, False, ""


def _most_missing(rows: WorthRows, missing: NDArray[np.bool_]) -> str:
    """The action with the largest share of missing values; empty if none is missing."""
    draws = np.maximum(1, np.bincount(rows.action, minlength=len(rows.arms)))
    gone = np.bincount(rows.action[missing], minlength=len(rows.arms))
    return rows.arms[int((gone / draws).argmax())] if gone.any() else ""


def _reference(fixed: list[int], quality: _BoundedScores | None, costs: _BoundedScores | None) -> int:
    """The most expensive of the actions whose quality is not shown to be below the best."""
    able = fixed
    if quality is not None:
        best = max(fixed, key=lambda arm: float(quality.means[arm]))
        able = [arm for arm in fixed if arm == best or _not_shown_below(quality, best, arm)]
        if costs is None:
            return best
    if costs is None:
        return fixed[0]
    return max(able, key=lambda arm: float(costs.means[arm]))


def _not_shown_below(quality: _BoundedScores, best: int, arm: int) -> bool:
    (first, weight), (second, other) = quality.action(best), quality.action(arm)
    return quality.measure(first - second, weight - other)[0].low <= 0.0


def _quality(scores: _BoundedScores, against: int) -> tuple[Measure | None, Measure | None]:
    """(the difference per request, None) or (None, the ratio) where the quality of the action is clearly above 0."""
    (ours, shares), (direct, weight) = scores.policy(), scores.action(against)
    base, moved = scores.measure(direct, weight)
    if base.low < _CLEAR:
        gap, moved = scores.measure(ours - direct, shares - weight)
        low, high = scores.rows.quality_range
        return (gap if moved <= _MOST_MOVED * (high - low) else None), None
    ratio = scores.measure(ours, shares)[0].value / base.value
    for _ in range(2):  # the second time with the ratio that the first gives
        direct, weight = scores.action(against, ratio)
        rest, moved = scores.measure(ours - direct, shares - weight)
        ratio += rest.value / base.value
    if moved > _MOST_MOVED * base.value:
        return None, None
    return None, Measure(
        value=ratio,
        low=ratio + (rest.low - rest.value) / base.value,
        high=ratio + (rest.high - rest.value) / base.value,
    )
