"""reward_v1 against twenty cases computed by hand, and reward_v2 on top of it."""

from __future__ import annotations

import pytest

from headway.reward.compose import PRESET_RANGE, Rewards

# trajectory_reward, verification_passed, timeout, retries, terminal_failure → what the rules come to, by hand
TABLE = [
    ((0.5, None, 0, 0, 0), 0.50),
    ((0.5, 1, 0, 0, 0), 0.75),
    ((0.5, 0, 0, 0, 0), 0.35),
    ((0.0, None, 0, 0, 0), 0.00),
    ((0.0, 1, 0, 0, 0), 0.25),
    ((0.0, 0, 0, 0, 0), -0.15),
    ((0.8, None, 1, 0, 0), -0.20),
    ((0.8, 0, 1, 0, 0), -0.35),
    ((0.8, 1, 1, 0, 0), 0.05),
    ((0.8, None, 0, 1, 0), 0.70),
    ((0.8, None, 0, 4, 0), 0.70),
    ((0.8, 0, 0, 1, 0), 0.55),
    ((0.8, None, 0, 0, 1), 0.60),
    ((0.8, 0, 0, 0, 1), 0.45),
    ((0.0, 0, 1, 1, 1), -1.45),
    ((1.0, 1, 0, 0, 0), 1.25),
    ((-1.0, 0, 1, 1, 1), -2.00),
    ((2.0, 1, 0, 0, 0), 2.00),
    ((-0.9, 0, 1, 0, 0), -2.00),
    ((1.0, 1, 0, 1, 1), 0.95),
]


def signals(row: tuple[float | None, ...]) -> dict[str, float]:
    names = ("trajectory_reward", "verification_passed", "timeout", "retries", "terminal_failure")
    return {name: float(value) for name, value in zip(names, row, strict=True) if value is not None}


def test_the_table_has_twenty_different_cases() -> None:
    assert len({row for row, _ in TABLE}) == len(TABLE) == 20


@pytest.mark.parametrize(("row", "expected"), TABLE)
def test_reward_v1_equals_the_rules_computed_by_hand(row: tuple[float | None, ...], expected: float) -> None:
    rewards = Rewards.from_settings(reward="reward_v1", range=PRESET_RANGE)
    assert rewards.outcome(signals(row), age_s=1.0).reward == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("row", "expected"), TABLE)
def test_reward_v2_prices_money_and_time(row: tuple[float | None, ...], expected: float) -> None:
    rewards = Rewards.from_settings(reward="reward_v2", range=PRESET_RANGE)
    assert rewards.outcome(signals(row), age_s=1.0).reward == pytest.approx(expected, abs=1e-12)
    priced = {**signals(row), "cost_usd": 0.005, "latency_s": 3.0}
    unclipped = {(-1.0, 0, 1, 1, 1): -2.45, (2.0, 1, 0, 0, 0): 2.25, (-0.9, 0, 1, 0, 0): -2.05}.get(row, expected)
    lower = max(-2.0, min(2.0, unclipped - 0.1 - 0.03))
    assert rewards.outcome(priced, age_s=1.0).reward == pytest.approx(lower, abs=1e-12)
