"""Rewards without the signals of one rater."""

from __future__ import annotations

from collections.abc import Collection
from math import nan

from headway.nouns import Settled, is_own
from headway.reward.compose import Rewards


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
