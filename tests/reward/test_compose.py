"""Rewards from signals: sums, products, ranges, failures, missing signals and the safety flag."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headway.nouns.errors import InvalidInput, InvalidSettings
from headway.nouns.records import Outcome
from headway.reward.compose import Rewards
from headway.reward.signals import Term

number = st.floats(-1e6, 1e6)
weight = st.floats(-100, 100)
WIDE = (-1e12, 1e12)


def rewarded(rewards: Rewards, **signals: float) -> float:
    outcome = rewards.outcome(signals, age_s=0.0)
    assert outcome.status == "rewarded"
    assert outcome.reward is not None
    return outcome.reward


def test_a_weighted_sum_of_signals_is_the_reward() -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0, "cost_usd": -20.0})
    assert rewarded(rewards, solved=1.0, cost_usd=0.004) == pytest.approx(0.92)


def test_signals_that_are_not_in_the_table_do_not_count() -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0})
    assert rewarded(rewards, solved=0.5, mood=100.0) == 0.5


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(weight, number), min_size=1))
def test_an_additive_reward_is_linear_in_the_weights(parts: dict[str, tuple[float, float]]) -> None:
    signals = {name: value for name, (_, value) in parts.items()}
    single = Rewards.from_settings(reward={name: w for name, (w, _) in parts.items()}, range=WIDE)
    double = Rewards.from_settings(reward={name: 2 * w for name, (w, _) in parts.items()}, range=WIDE)
    exact = math.fsum(w * value for w, value in parts.values())
    scale = 1.0 + sum(abs(w * value) for w, value in parts.values())
    assert abs(rewarded(single, **signals) - exact) <= 1e-12 * scale
    assert rewarded(double, **signals) == pytest.approx(2 * rewarded(single, **signals), rel=1e-15, abs=1e-300)


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(weight, number), min_size=1))
def test_the_reward_and_its_version_do_not_depend_on_the_order_of_the_table(
    parts: dict[str, tuple[float, float]],
) -> None:
    signals = {name: value for name, (_, value) in parts.items()}
    one = Rewards.from_settings(reward={name: parts[name][0] for name in parts}, range=WIDE)
    other = Rewards.from_settings(reward={name: parts[name][0] for name in reversed(parts)}, range=WIDE)
    assert one.version == other.version
    assert one.outcome(signals, age_s=0.0) == other.outcome(signals, age_s=0.0)


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0, 1), st.floats(-2, 2)), min_size=1))
def test_in_a_product_a_signal_of_one_or_a_weight_of_zero_changes_nothing(
    parts: dict[str, tuple[float, float]],
) -> None:
    table = {name: w for name, (w, _) in parts.items()}
    signals = {name: value for name, (_, value) in parts.items()}
    plain = Rewards.from_settings(reward=table, combine="multiplicative", range=WIDE)
    more = Rewards.from_settings(reward={**table, "idle": 1.0, "mute": 0.0}, combine="multiplicative", range=WIDE)
    exact = math.prod(1.0 - w + w * value for w, value in parts.values())
    assert rewarded(plain, **signals) == pytest.approx(exact, rel=1e-12, abs=1e-12)
    assert rewarded(more, **signals, idle=1.0, mute=77.0) == pytest.approx(exact, rel=1e-12, abs=1e-12)


@given(number, st.floats(-10, 0), st.floats(0.1, 10))
def test_a_reward_is_clipped_to_the_range_and_marked(value: float, low: float, high: float) -> None:
    rewards = Rewards.from_settings(reward={"x": 1.0}, range=(low, high))
    outcome = rewards.outcome({"x": value}, age_s=0.0)
    assert outcome.reward == min(max(value, low), high)
    assert outcome.clipped == (not low <= value <= high)
    again = rewards.outcome({"x": outcome.reward}, age_s=0.0)
    assert again == Outcome(status="rewarded", reward=outcome.reward)


def test_a_missing_required_signal_is_pending_and_later_censored() -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0, "cost_usd": -1.0}, reward_after_s=60.0)
    assert rewards.outcome({"solved": 1.0}, age_s=59.9) == Outcome(status="pending", reward=None)
    assert rewards.outcome({"solved": 1.0}, age_s=60.0) == Outcome(status="censored", reward=None)
    assert rewards.outcome({}, age_s=60.0).status == "censored"
    late = rewards.outcome({"solved": 1.0, "cost_usd": 0.5}, age_s=10_000.0)
    assert late == Outcome(status="rewarded", reward=0.5), "a late signal counts all the same"


def test_a_missing_signal_has_the_reward_of_on_censored() -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0}, on_censored=-0.25, reward_after_s=1.0)
    assert rewards.outcome({}, age_s=2.0) == Outcome(status="censored", reward=-0.25)


def test_optional_signals_count_if_they_are_present() -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0, "bonus": 0.5}, required=["solved"], range=(-2, 2))
    assert rewarded(rewards, solved=1.0) == 1.0
    assert rewarded(rewards, solved=1.0, bonus=1.0) == 1.5
    assert rewards.outcome({"bonus": 1.0}, age_s=0.0).status == "pending"


def test_with_nothing_required_the_first_signal_that_counts_settles() -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0, "bonus": 0.5}, required=[])
    assert rewards.outcome({}, age_s=0.0).status == "pending"
    assert rewards.outcome({"mood": 1.0}, age_s=0.0).status == "pending"
    assert rewarded(rewards, bonus=1.0) == 0.5


def test_a_required_signal_may_have_no_weight() -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0}, required=["solved", "reviewed"])
    assert rewards.outcome({"solved": 1.0}, age_s=0.0).status == "pending"
    assert rewarded(rewards, solved=1.0, reviewed=0.0) == 1.0


@pytest.mark.parametrize(("on_failure", "worth"), [(None, -1.0), (-0.5, -0.5), ("exclude", None)])
def test_a_failed_call_has_the_reward_of_on_failure(on_failure: Any, worth: float | None) -> None:
    rewards = Rewards.from_settings(reward={"solved": 1.0}, on_failure=on_failure)
    assert rewards.outcome({"failed": 1.0}, age_s=0.0) == Outcome(status="failed", reward=worth)
    assert rewards.outcome({"failed": 1.0, "solved": 1.0}, age_s=0.0).status == "failed"
    assert rewards.outcome({"failed": 0.0, "solved": 1.0}, age_s=0.0).status == "rewarded"


@given(st.floats(1, 5), st.floats(0.01, 1))
def test_a_flagged_reply_never_gets_a_positive_reward(stars: float, flag: float) -> None:
    rewards = Rewards.from_settings(reward={"rating": "stars"})
    assert rewards.outcome({"rating": stars, "safety_flag": flag}, age_s=0.0).reward == -1.0
    assert rewards.outcome({"rating": stars, "safety_flag": 0.0}, age_s=0.0).reward == (stars - 3) / 2


def test_a_flag_settles_at_once_and_a_failure_takes_precedence() -> None:
    rewards = Rewards.from_settings(reward={"rating": "stars"}, range=(-2, 2))
    assert rewards.outcome({"safety_flag": 1.0}, age_s=0.0) == Outcome(status="rewarded", reward=-2.0)
    assert rewards.outcome({"safety_flag": 1.0, "failed": 1.0}, age_s=0.0).status == "failed"


def test_many_outcomes_are_returned_in_order() -> None:
    rewards = Rewards.from_settings(reward={"x": 1.0})
    rows = [({"x": i / 10}, 0.0, None) for i in range(10)]
    assert [outcome.reward for outcome in rewards.outcomes(rows)] == [i / 10 for i in range(10)]


def test_parts_add_up_to_the_reward_and_multiply_to_the_product() -> None:
    signals = {"rating": 4.0, "tokens": 100.0, "other": 1.0}
    table = {"rating": "stars", "tokens": {"weight": -0.1, "transform": "log1p"}}
    added = Rewards.from_settings(reward=table)
    assert sum(added.parts(signals).values()) == pytest.approx(rewarded(added, **signals))
    assert added.parts(signals).keys() == {"rating", "tokens"}
    multiplied = Rewards.from_settings(reward={"rating": "stars", "other": 0.5}, combine="multiplicative")
    assert math.prod(multiplied.parts(signals).values()) == pytest.approx(rewarded(multiplied, **signals))


def test_a_reward_that_is_not_finite_is_an_error_and_is_not_clipped() -> None:
    rewards = Rewards.from_settings(reward={"x": 1.0})
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidInput) as caught:
            rewards.outcome({"x": value}, age_s=0.0)
        assert caught.value.code == "reward_not_finite"


CHANGES: list[dict[str, Any]] = [
    {"reward": {"solved": 1.5}},
    {"reward": {"solved": "stars"}},
    {"reward": {"solved": {"weight": 1.0, "low": 0.0}}},
    {"reward": {"resolved": 1.0}},
    {"reward": "reward_v1"},
    {"combine": "multiplicative"},
    {"required": []},
    {"range": (-1.0, 2.0)},
    {"on_failure": 0.0},
    {"on_failure": "exclude"},
    {"on_censored": 0.0},
    {"reward_after_s": 5.0},
]


def test_the_version_changes_with_every_part_of_the_definition() -> None:
    base: dict[str, Any] = {"reward": {"solved": 1.0}}
    versions = [
        Rewards.from_settings(**base).version,
        *(Rewards.from_settings(**{**base, **c}).version for c in CHANGES),
    ]
    assert len(set(versions)) == len(versions)


def test_equal_definitions_have_the_same_version() -> None:
    plain = Rewards.from_settings(reward={"solved": 1})
    assert plain.version == Rewards.from_settings(reward={"solved": Term(weight=1.0)}).version
    assert (
        plain.version
        == Rewards.from_settings(reward={"solved": {"weight": 1.0}}, on_failure=-1, required=["solved"]).version
    )


def test_the_version_is_the_same_in_another_process() -> None:
    code = (
        "import json; from headway.reward.compose import Rewards;"
        "print(json.dumps(Rewards.from_settings(reward={'b': 0.1, 'a': 'stars'}, range=(-1, 3)).version))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == Rewards.from_settings(reward={"a": "stars", "b": 0.1}, range=(-1, 3)).version


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"combine": "multiplicativ"}, "Did you mean 'multiplicative'?"),
        ({"range": (1, 1)}, "the lower one first"),
        ({"range": (0, math.inf)}, "two finite numbers"),
        ({"on_failure": -2.0}, "within the range [-1, 1]"),
        ({"on_failure": "skip"}, '"exclude" or a number'),
        ({"on_censored": math.nan}, '"exclude" or a number'),
        ({"reward_after_s": 0.0}, "seconds above 0"),
        ({"reward_after_s": math.nan}, "seconds above 0"),
        ({"reward": {}}, "at least one signal"),
        ({"reward": {"failed": -1.0}}, "on_failure says what that is worth"),
        ({"reward": {"safety_flag": -1.0}}, "it is a gate"),
        ({"reward": {"x": "star"}}, "Did you mean 'stars'?"),
        ({"reward": {"x": 2.0}, "combine": "multiplicative"}, "a weight from 0 to 1"),
        ({"reward": {"x": -0.1}, "combine": "multiplicative"}, "a weight from 0 to 1"),
        ({"reward": "reward_v3"}, "Did you mean 'reward_v"),
        ({"reward": "no such thing"}, '"module:function"'),
    ],
)
def test_an_invalid_definition_is_reported_with_the_expected_value(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Rewards.from_settings(**{"reward": {"solved": 1.0}, **change})
    assert says in str(caught.value)
    assert caught.value.code == "settings_bad_value"


def test_the_first_composite_reward_is_reproduced_exactly() -> None:
    rewards = Rewards.from_settings(reward="reward_v1", range=(-2, 2))
    assert rewarded(rewards, trajectory_reward=0.6, verification_passed=1.0) == pytest.approx(0.85)
    assert rewarded(rewards, trajectory_reward=0.6, verification_passed=0.0) == pytest.approx(0.45)
    assert rewarded(rewards, trajectory_reward=0.6) == pytest.approx(0.6)
    assert rewarded(rewards, timeout=1.0) == -1.0
    assert rewarded(rewards, trajectory_reward=0.5, retries=3.0) == pytest.approx(0.4)
    assert rewarded(rewards, terminal_failure=1.0, verification_passed=0.0) == pytest.approx(-0.35)
    assert rewarded(rewards, timeout=1.0, retries=30.0) == pytest.approx(-1.1)
    assert rewarded(rewards, trajectory_reward=-1.5, timeout=1.0) == -2.0
    assert rewarded(rewards, trajectory_reward=9.0) == 2.0
    assert rewards.outcome({"mood": 1.0}, age_s=0.0).status == "pending"


def test_the_second_composite_reward_also_prices_money_and_time() -> None:
    rewards = Rewards.from_settings(reward="reward_v2", range=(-2, 2))
    signals = {"trajectory_reward": 0.6, "verification_passed": 1.0, "cost_usd": 0.01, "latency_s": 10.0}
    assert rewarded(rewards, **signals) == pytest.approx(0.85 - 0.2 - 0.1)
