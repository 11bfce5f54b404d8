"""Money and quality of a policy against always taking one action, from logged decisions: for display, never a verdict.

Every row has the probabilities of its draw and those of the policy. The value of the policy and of an action are doubly
robust, with the mean of each action as the model:

    policy   Σ_a π(a) m_a + π(A)/p(A) (y − m_A)        action b   m_b + 1[A = b]/p(b) (y − m_b)

Both have one score per row, so that their difference and ratio are paired. The action is the most expensive one of
those whose quality is not shown to be below the best: what one would take without a router.
Not covered: choices by context in the model, which would only narrow the intervals; proof, which is the gate's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns.worth import Measure
from headway.prove.intervals import normal
from headway.prove.log import Floats, Integers

__all__ = ["LEAST", "LEAST_DRAWS", "ComparedWorth", "WorthRows", "compare_worth"]

LEAST = 100  # rows with an outcome
LEAST_DRAWS = 30  # rows in which the action that we compare with was taken
_KNOWN = 0.9  # of each action's rows that must have a cost
_CLEAR = 0.05  # the quality of an action must be this much above 0 for a ratio to mean something


@dataclass(frozen=True, slots=True, kw_only=True)
class WorthRows:
    """Decisions with an outcome. Quality may be empty (the reward is all cost), cost is NaN where it is unknown."""

    action: Integers  # [n]; an index of `arms`
    logged: Floats  # [n, arm]
    target: Floats  # [n, arm]
    quality: Floats | None  # [n]
    cost: Floats  # [n]
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedWorth:
    """A policy against one action. `unpriced`: an action whose cost is unknown, so that no saving can be stated."""

    against: str = ""
    saved: Measure | None = None  # per request
    ratio: Measure | None = None
    gap: Measure | None = None
    same: bool = False
    cost_known: float = 0.0
    unpriced: str = ""
    free: bool = False  # every cost is 0: prices were not set
    short: str = ""  # too few rows: how many of what
    moving: bool = False  # no action was possible in every decision: there is nothing to compare with


def compare_worth(rows: WorthRows) -> ComparedWorth:
    """The policy of these rows against the best fixed action."""
    n = rows.action.size
    if n < LEAST:
        return ComparedWorth(short=f"{n:,} of {LEAST} decisions with an outcome")
    priced = np.isfinite(rows.cost)
    unpriced = _unpriced(rows, priced)
    fixed = [arm for arm in range(len(rows.arms)) if (rows.logged[:, arm] > 0.0).all()]
    if not fixed:
        return ComparedWorth(moving=True)
    quality = None if rows.quality is None else _scores(rows, rows.quality)
    free = bool(priced.any() and (rows.cost[priced] == 0.0).all())
    costs = None if unpriced or free or not priced.any() else _scores(_some(rows, priced), rows.cost[priced])
    against = _reference(fixed, quality, costs)
    draws = int((rows.action == against).sum())
    if draws < LEAST_DRAWS:
        return ComparedWorth(short=f"{draws} of {LEAST_DRAWS} decisions took {rows.arms[against]}")
    gap, ratio = (None, None) if quality is None else _quality(quality, against)
    return ComparedWorth(
        against=rows.arms[against],
        saved=None if costs is None else _measure(costs.action[:, against] - costs.policy),
        ratio=ratio,
        gap=gap,
        same=bool((rows.target[:, against] >= 1.0 - 1e-9).all()),
        cost_known=float(priced.mean()),
        free=free,
        unpriced="" if not unpriced else rows.arms[unpriced[0]],
    )


@dataclass(frozen=True, slots=True)
class _RowScores:
    policy: Floats  # [n]
    action: Floats  # [n, arm]


def _scores(rows: WorthRows, values: Floats) -> _RowScores:
    """One doubly robust score per row, for the policy and for each action."""
    count = len(rows.arms)
    places = np.arange(rows.action.size)
    draws = np.bincount(rows.action, minlength=count)
    sums = np.bincount(rows.action, weights=values, minlength=count)
    means = np.divide(sums, draws, out=np.full(count, values.mean()), where=draws > 0)
    left = values - means[rows.action]
    drawn = rows.logged[places, rows.action]
    policy = rows.target @ means + rows.target[places, rows.action] / drawn * left
    action = np.tile(means, (rows.action.size, 1))
    action[places, rows.action] += left / drawn
    return _RowScores(policy, action)


def _some(rows: WorthRows, chosen: NDArray[np.bool_]) -> WorthRows:
    return WorthRows(
        action=rows.action[chosen],
        logged=rows.logged[chosen],
        target=rows.target[chosen],
        quality=None,
        cost=rows.cost[chosen],
        arms=rows.arms,
    )


def _unpriced(rows: WorthRows, priced: NDArray[np.bool_]) -> list[int]:
    """Actions that are taken and whose cost is mostly unknown. What is missing is rarely missing by chance."""
    if not priced.any():
        return []
    return [
        arm
        for arm in range(len(rows.arms))
        if (taken := rows.action == arm).any() and float(priced[taken].mean()) < _KNOWN
    ]


def _reference(fixed: list[int], quality: _RowScores | None, costs: _RowScores | None) -> int:
    """The most expensive of the actions whose quality is not shown to be below the best."""
    able = fixed
    if quality is not None:
        best = max(fixed, key=lambda arm: float(quality.action[:, arm].mean()))
        able = [arm for arm in fixed if normal(quality.action[:, best] - quality.action[:, arm])[0] <= 0.0]
        if costs is None:
            return best
    if costs is None:
        return fixed[0]
    return max(able, key=lambda arm: float(costs.action[:, arm].mean()))


def _quality(scores: _RowScores, against: int) -> tuple[Measure | None, Measure | None]:
    """(the difference per request, None) or (None, the ratio) where the quality of the action is clearly above 0."""
    policy, action = scores.policy, scores.action[:, against]
    base = float(action.mean())
    if normal(action)[0] < _CLEAR:
        return _measure(policy - action), None
    ratio = float(policy.mean()) / base
    low, high = normal((policy - ratio * action) / base)
    return None, Measure(value=ratio, low=ratio + low, high=ratio + high)


def _measure(rows: Floats) -> Measure:
    low, high = normal(rows)
    return Measure(value=float(rows.mean()), low=low, high=high)
