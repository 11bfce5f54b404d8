"""The escalation generator: exact values, logged propensities, and a variant with something to learn."""

from __future__ import annotations

import numpy as np
import pytest

from headway.kits.demo.escalation import ACTIONS, FAILURES, PRICE, ROLES, Escalation
from headway.nouns.errors import InvalidInput
from headway.reward.compose import Rewards

KNOWN = {
    "always_primary": 0.484,
    "behaviour": 0.834,
    "role_rules": 0.884,
    "rules": 0.918,
    "always_fallback": 0.990,
}


@pytest.mark.parametrize("name", list(KNOWN))
def test_exact_values_are_the_known_ones(name: str) -> None:
    world = Escalation()
    assert round(world.value(getattr(world, name)), 3) == KNOWN[name]


@pytest.mark.parametrize("price", [0.0, PRICE])
def test_exact_means_agree_with_a_large_log(price: float) -> None:
    world = Escalation(price)
    rows = world.log(400_000, np.random.default_rng(5))
    error = rows.reward.std() / np.sqrt(len(rows))
    assert abs(rows.reward.mean() - world.value(world.behaviour)) < 5 * error  # false alarm < 1e-6
    residual = rows.reward - world.expected(rows.complexity, rows.failures, rows.action)
    assert abs(residual.mean()) < 5 * residual.std() / np.sqrt(len(rows))


def test_weighting_by_the_logged_propensity_recovers_a_value_and_a_matched_mean_does_not() -> None:
    world = Escalation()
    rows = world.log(400_000, np.random.default_rng(6))
    primary = rows.action == 0
    weighted = np.where(primary, rows.reward / rows.propensity, 0.0)
    truth = world.value(world.always_primary)
    assert abs(weighted.mean() - truth) < 5 * weighted.std() / np.sqrt(len(rows))
    assert rows.reward[primary].mean() > truth + 0.1


def test_a_log_matches_the_description_of_the_generator() -> None:
    world = Escalation()
    rows = world.log(50_000, np.random.default_rng(7))
    assert set(rows.role.tolist()) == set(range(len(ROLES)))
    assert set(rows.failures.tolist()) == set(range(FAILURES))
    assert set(rows.action.tolist()) == {ACTIONS.index("primary"), ACTIONS.index("fallback")}
    assert 0.0 <= rows.complexity.min() < rows.complexity.max() < 1.0
    assert 0.05 <= rows.fallback.min() < rows.fallback.max() <= 0.95
    assert np.array_equal(rows.propensity, np.where(rows.action == 1, rows.fallback, 1 - rows.fallback))
    assert np.array_equal(rows.passed, rows.trajectory >= 0.5)
    assert rows.trajectory.min() >= 0.0
    assert abs(rows.action.mean() - rows.fallback.mean()) < 5 * 0.5 / np.sqrt(len(rows))


def test_the_reward_of_a_log_is_the_first_composite_reward() -> None:
    rows = Escalation().log(200, np.random.default_rng(8))
    rewards = Rewards.from_settings(reward="reward_v1", range=(-2, 2))
    for trajectory, passed, reward in zip(rows.trajectory, rows.passed, rows.reward, strict=True):
        signals = {"trajectory_reward": float(trajectory), "verification_passed": float(passed)}
        assert rewards.outcome(signals, age_s=0.0).reward == pytest.approx(float(reward), abs=1e-12)


def test_the_same_seed_gives_the_same_log_and_another_policy_may_log() -> None:
    world = Escalation()
    one, two = (world.log(100, np.random.default_rng(9)) for _ in range(2))
    assert np.array_equal(one.reward, two.reward)
    even = world.log(1000, np.random.default_rng(9), behaviour=lambda role, c, f: np.full(len(c), 0.5))
    assert np.all(even.propensity == 0.5)


def test_without_a_price_a_constant_action_is_best_and_with_a_price_none_is() -> None:
    free, priced = Escalation(), Escalation(PRICE)
    assert free.optimum() == pytest.approx(free.value(free.always_fallback))
    constants = [priced.value(priced.always_primary), priced.value(priced.always_fallback)]
    assert priced.optimum() > max(constants) + 0.05
    assert priced.optimum() > priced.value(priced.rules) + 0.02
    assert round(priced.optimum(), 3) == 0.744


def test_an_invalid_price_is_refused() -> None:
    for price in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidInput, match="price"):
            Escalation(price)
