"""Combine the signals of several raters into one value and a weight.

    agreeing(rewards, given)                    # per decision: the combined values, and its weight

`given` holds live signals: (number of the draw, name, rater, value).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from math import nan

from headway.nouns import Settled, is_own
from headway.reward.compose import Rewards
from headway.reward.raters import Agreed, Rating, consensus
from headway.reward.signals import RESERVED

Given = tuple[int, str, str, float]
WEIGHTS = 64  # weights are multiples of 1/64, so that sums of weighted rows stay exact


def agreeing(rewards: Rewards, given: Sequence[Given]) -> dict[int, tuple[dict[str, float], float]]:
    """Per draw: the combined values of its raters, and its weight in learning.

    Only signals with at least two raters are combined; a measured signal has one source and is used unchanged. The
    weight is the share of the rated signals' variance that the ratings explain, weighted by each signal's effect on
    the reward.
    """
    agreements: dict[int, tuple[dict[str, float], float]] = {}
    known: dict[int, tuple[float, float]] = {}
    for name, agreed in by_signal(rewards, given).items():
        if not agreed.compared:
            continue
        part = rewards.worth(name) ** 2 * agreed.spread
        step = _step(agreed.spread)
        for draw, quality in agreed.items.items():
            values, _ = agreements.setdefault(draw, ({}, 1.0))
            values[name] = round(quality.mean / step) * step
            explained, whole = known.get(draw, (0.0, 0.0))
            known[draw] = (explained + part * quality.reliability, whole + part)
    for draw, (explained, whole) in known.items():
        share = explained / whole if whole > 0.0 else 1.0
        agreements[draw] = (agreements[draw][0], max(1, round(share * WEIGHTS)) / WEIGHTS)
    return agreements


def _step(spread: float) -> float:
    """The step to which consensus values are rounded: a power of two, about a thousandth of their spread.

    One more rating slightly moves every other item of its rater. With rounding most outcomes do not change, and they
    still depend only on the live ratings.
    """
    return 2.0 ** math.floor(math.log2(math.sqrt(max(spread, 1e-300))) - 9)


def by_signal(rewards: Rewards, given: Sequence[Given]) -> dict[str, Agreed[int]]:
    """The consensus of the raters, by signal."""
    by_name: dict[str, list[Rating[int]]] = {}
    for draw, name, rater, value in given:
        if name not in RESERVED and (not rewards.signals or name in rewards.signals):
            by_name.setdefault(name, []).append(Rating(draw, rater, value))
    return {name: consensus(rows) for name, rows in sorted(by_name.items())}


def reward_without(row: Settled, rater: str, rewards: Rewards) -> float:
    """The reward that the others' signals come to, averaged as `settle` does; NaN where they settle nothing."""
    given: dict[str, list[float]] = {}
    for name, signals in row.said.items():
        if name != rater:
            for signal, value in signals:
                given.setdefault(signal, []).append(value)
    values = {name: sum(sorted(numbers)) / len(numbers) for name, numbers in sorted(given.items())}
    reward = rewards.outcome(values, age_s=0.0, decision=row.decision).reward
    return nan if reward is None else reward


def agreed(row: Settled, rewards: Rewards, trusted: Collection[str] = ()) -> bool:
    """Whether a good outcome stays good without any single key that is not trusted, as the gate asks of evidence."""
    keys = (name for name in row.said if not is_own(name) and name not in trusted)
    return all(reward_without(row, name, rewards) > 0.0 for name in keys)
