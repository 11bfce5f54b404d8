"""The sample world has its documented properties."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys

import numpy as np
import pytest

import headway
from headway.encode.hashing import HashingEncoder
from headway.kits.demo.routing import (
    GRADES,
    KINDS,
    LARGE,
    REQUIREMENTS,
    SETTING,
    SMALL,
    RoutingArm,
    RoutingPrompt,
    RoutingWorld,
    two_arms,
    value,
    wide,
)
from headway.nouns.errors import InvalidInput, UnknownName
from headway.nouns.kit import catalogue, load


def test_the_same_seed_gives_the_same_prompts_and_a_longer_sample_begins_with_the_shorter_one() -> None:
    first = list(headway.sample("route", n=200, seed=7))
    assert first == list(headway.sample("route", n=200, seed=7))
    assert first[:50] == list(headway.sample("route", n=50, seed=7))
    assert first != list(headway.sample("route", n=200, seed=8))


def test_the_sample_is_the_same_in_every_process_and_needs_no_numpy() -> None:
    code = (
        "import sys; from headway import sample;"
        "print(*[(a.text, a.rewards) for a in sample('route', n=20, seed=3)], sep='\\n');"
        "assert 'numpy' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [str((a.text, a.rewards)) for a in headway.sample("route", n=20, seed=3)]


def test_shares_sum_to_one_and_every_blank_can_be_filled() -> None:
    assert math.isclose(sum(kind.share for kind in KINDS), 1.0)
    for kind in KINDS:
        assert math.isclose(sum(kind.grades), 1.0)
        for opening in kind.openings:
            assert "{work}" in opening
            opening.format(**dict.fromkeys(SETTING, "x"), work="x")
    graded = [*(kind.work for kind in KINDS), REQUIREMENTS]
    for grade in graded:
        assert len(grade) == len(GRADES)
        assert not set(grade[0]) & set(grade[1]) | set(grade[1]) & set(grade[2]) | set(grade[0]) & set(grade[2])


def test_prompts_read_like_prompts_and_hardly_repeat() -> None:
    asks = list(headway.sample("route", n=2000, seed=1))
    texts = [ask.text for ask in asks]
    assert len(set(texts)) > 1900
    for text in texts:
        assert text[0].isupper()
        assert text[-1] == "."
        assert "{" not in text
        assert "  " not in text
        assert 20 < len(text) < 300


def test_an_outcome_is_solved_minus_cost_and_never_changes() -> None:
    for ask in headway.sample("route", n=500, seed=2):
        assert ask.outcome("small") in (1.0 - SMALL.cost, 0.0 - SMALL.cost)
        assert ask.outcome("large") in (1.0 - LARGE.cost, 0.0 - LARGE.cost)
        assert ask.outcome("small") == ask.outcome("small")
        assert all(-1.0 <= reward <= 1.0 for reward in ask.rewards)
        assert 0.0 <= float(str(ask.state["task_complexity_score"])) <= 1.0


def test_expected_rewards_follow_the_stated_formula() -> None:
    for ask in headway.sample("route", n=200, seed=3):
        kind = next(kind for kind in KINDS if kind.name == ask.kind)
        difficulty = kind.difficulty + GRADES[ask.grade]
        assert ask.expected("small") == pytest.approx(1 / (1 + math.exp(-(1.0 - 1.5 * difficulty))) - 0.02)
        assert ask.expected("large") == pytest.approx(1 / (1 + math.exp(-(2.5 - 0.6 * difficulty))) - 0.25)
        assert ask.expected(ask.best) == max(ask.means)


def test_the_exact_values_are_the_documented_ones() -> None:
    world = two_arms()
    assert round(world.constant("small"), 3) == 0.676
    assert round(world.constant("large"), 3) == 0.666
    assert round(world.uniform(), 3) == 0.671
    assert round(world.optimum(), 3) == 0.785


@pytest.mark.parametrize("world", [two_arms(), wide()], ids=["two", "wide"])
def test_the_best_constant_arm_is_at_least_eight_points_below_the_optimum(world: RoutingWorld) -> None:
    assert world.optimum() - max(world.constant(name) for name in world.names) >= 0.08


@pytest.mark.parametrize("world", [two_arms(), wide()], ids=["two", "wide"])
def test_sampled_means_agree_with_exact_values(world: RoutingWorld) -> None:
    asks = list(world.sample(20_000, seed=11))
    for name in world.names:
        rewards = [ask.outcome(name) for ask in asks]
        error = statistics.stdev(rewards) / math.sqrt(len(rewards))
        assert abs(statistics.fmean(rewards) - world.constant(name)) < 5 * error  # false alarm < 1e-6
    best = [ask.outcome(ask.best) for ask in asks]
    assert abs(statistics.fmean(best) - world.optimum()) < 5 * statistics.stdev(best) / math.sqrt(len(best))


def test_the_value_of_a_policy_has_no_outcome_noise() -> None:
    world = two_arms()
    asks = list(world.sample(3000, seed=5))
    even = value(asks, lambda ask: {"small": 0.5, "large": 0.5})
    assert even == pytest.approx((value(asks, always("small")) + value(asks, always("large"))) / 2)
    assert abs(world.value(lambda ask: {ask.best: 1.0}) - world.optimum()) < 0.01


def always(name: str):  # type: ignore[no-untyped-def]  # a policy that ignores its ask
    return lambda ask: {name: 1.0}


def test_a_policy_must_give_probabilities() -> None:
    with pytest.raises(InvalidInput, match="sum to one"):
        two_arms().value(lambda ask: {"small": 0.5}, n=5)
    with pytest.raises(UnknownName, match="Did you mean 'small'"):
        two_arms().value(lambda ask: {"smal": 1.0}, n=5)
    with pytest.raises(InvalidInput, match="zero prompts"):
        value([], always("small"))


def ridge_value(asks: list[RoutingPrompt], fresh: list[RoutingPrompt], seed: int) -> float:
    """The true value of a linear model per arm, fitted to uniformly explored outcomes of hashed words."""
    encoder = HashingEncoder(128)
    words = encoder.encode([ask.text for ask in asks])
    rng = np.random.default_rng(seed)
    chosen = rng.integers(2, size=len(asks))
    rewards = np.array([ask.rewards[arm] for ask, arm in zip(asks, chosen, strict=True)])
    features = np.hstack([words, np.ones((len(words), 1))])
    weights = [
        np.linalg.solve(
            features[chosen == arm].T @ features[chosen == arm] + np.eye(features.shape[1]),
            features[chosen == arm].T @ rewards[chosen == arm],
        )
        for arm in range(2)
    ]
    new = np.hstack([encoder.encode([ask.text for ask in fresh]), np.ones((len(fresh), 1))])
    picks = (new @ np.array(weights).T).argmax(axis=1)
    return float(np.mean([ask.means[pick] for ask, pick in zip(fresh, picks, strict=True)]))


def test_a_linear_model_of_the_words_comes_close_to_the_optimum() -> None:
    world = two_arms()
    learned = ridge_value(list(world.sample(4000, seed=7)), list(world.sample(4000, seed=99)), seed=0)
    assert learned > world.optimum() - 0.035
    assert learned > max(world.constant("small"), world.constant("large")) + 0.07


def test_unknown_names_and_counts_are_errors() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'large'") as caught:
        next(headway.sample("route", n=1)).outcome("larg")
    assert caught.value.code == "unknown_arm"
    with pytest.raises(UnknownName, match="Did you mean 'small'"):
        two_arms().constant("smal")
    with pytest.raises(UnknownName, match="Did you mean 'route'") as caught:
        headway.sample("rout", n=1)
    assert caught.value.code == "unknown_world"
    with pytest.raises(InvalidInput, match="expected 0 or more"):
        headway.sample("route", n=-1)
    assert list(headway.sample("route", n=0)) == []


def test_a_world_needs_different_arms_with_valid_costs() -> None:
    with pytest.raises(InvalidInput, match="different names"):
        RoutingWorld((SMALL, SMALL))
    with pytest.raises(InvalidInput, match="different names"):
        RoutingWorld(())
    with pytest.raises(InvalidInput, match="cost of an arm is outside"):
        RoutingWorld((RoutingArm(name="gold", skill=1, slope=1, cost=2),))


def test_worlds_are_found_by_name() -> None:
    samples = catalogue().all("samples")
    assert set(samples) == {"route", "route-wide", "escalation", "escalation-priced", "projects"}
    assert load(samples["route"])() == two_arms()
    with pytest.raises(UnknownName, match="Did you mean 'escalation'"):
        headway.sample("escalations")
