from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from headway.kits.heldout import intervals
from headway.nouns.evidence import Estimate
from headway.prove import display
from headway.prove.about import About
from headway.prove.display import LEAST, Display, ScoreSpread, possible, student
from headway.prove.evidence import from_log
from headway.prove.log import PENDING, Log

MEANS = np.array([0.5, 0.55, 0.6, 0.65, 0.7])
ABOUT = About(task="route", candidate="bandit@4f2a", against="rules@0", reward_range=(0.0, 1.0))


def five_arms(n: int, seed: int, *, means: np.ndarray = MEANS, epsilon: float = 0.1) -> Log:
    """A log of arm 0 that tries each arm with probability ε/5; the candidate always takes arm 4."""
    rng = np.random.default_rng([16, seed])
    logged = np.tile((1.0 - epsilon) * np.eye(5)[0] + epsilon / 5, (n, 1))
    action = np.where(rng.random(n) < epsilon, rng.integers(0, 5, n), 0)
    return Log.of(
        reward=(rng.random(n) < means[action]) * 1.0,
        action=action,
        logged=logged,
        target=np.tile(np.eye(5)[4], (n, 1)),
        baseline=np.tile(np.eye(5)[0], (n, 1)),
    )


def _paired(log: Log) -> Estimate:
    q = display.cross_fitted(log)
    return display.paired(log, q, ScoreSpread(log, q))


@pytest.mark.parametrize("means", [MEANS, np.full(5, 0.97), np.full(5, 0.03), np.full(5, 0.99)])
def test_displayed_intervals_hold_the_truth_where_four_rows_say_everything(means: np.ndarray) -> None:
    """150 logs of 200 rows. At 95% fewer than 120 hits have a probability below 1e-10; a bootstrap hits about 105."""
    hits = dict.fromkeys(("difference", "candidate", "current", "behaviour", "always arm 4"), 0)
    truth = {
        "difference": means[4] - means[0],
        "candidate": means[4],
        "current": means[0],
        "behaviour": 0.9 * means[0] + 0.1 * means.mean(),
        "always arm 4": means[4],
    }
    for seed in range(150):
        log = five_arms(200, seed, means=means)
        shown = Display(reward_range=(0.0, 1.0))
        shown.add(log)
        nothing = Estimate(value=0.0, low=0.0, high=0.0, n=2, ess=0.0, method="dr")
        difference, values = shown.estimates(nothing, {})
        for name, estimate in {"difference": difference, **values}.items():
            if name in hits:
                hits[name] += estimate.low <= truth[name] <= estimate.high
    assert min(hits.values()) >= 120


def test_rewards_that_never_vary_leave_room_for_a_surprise() -> None:
    """200 successes and no failure: a failure rate of 1% is still likely enough."""
    log = five_arms(200, 1, means=np.ones(5))
    low, high = ScoreSpread(log, np.ones((200, 5)), (0.0, 1.0)).interval(log.reward, log.logged)
    assert low < 0.99
    assert high == 1.0


def test_a_heavy_weight_that_has_not_occurred_yet_is_in_the_interval() -> None:
    log = five_arms(100, 2, epsilon=0.005)
    assert not (log.action == 4).any()
    known = _paired(log)
    low, high = intervals.bootstrap(display.difference(log, display.cross_fitted(log))[0])
    assert known.low < MEANS[4] - MEANS[0] < known.high
    assert known.high - known.low > 10 * (high - low)


def test_intervals_narrow_with_the_root_of_the_rows() -> None:
    small, large = (_paired(five_arms(n, 3, epsilon=0.5)) for n in (5_000, 80_000))
    assert (large.high - large.low) / (small.high - small.low) == pytest.approx(0.25, rel=0.1)


def test_intervals_of_large_logs_are_the_normal_ones() -> None:
    log = five_arms(80_000, 4, epsilon=0.5)
    low, high = intervals.normal(display.difference(log, display.cross_fitted(log))[0])
    known = _paired(log)
    assert (known.high - known.low) / (high - low) == pytest.approx(1.0, abs=0.02)


def test_a_policy_against_itself_has_no_width() -> None:
    log = five_arms(200, 5)
    same = _paired(replace(log, target=log.baseline))
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_a_handful_of_rows_shows_all_that_is_possible() -> None:
    evidence = from_log([five_arms(LEAST - 1, 6)], ABOUT)
    assert (evidence.difference.low, evidence.difference.high) == (-1.0, 1.0)
    assert (evidence.values["candidate"].low, evidence.values["candidate"].high) == (0.0, 1.0)


def test_a_declared_range_cuts_the_interval_and_an_observed_one_does_not() -> None:
    log = five_arms(200, 7)
    declared, observed = from_log([log], ABOUT), from_log([log], replace(ABOUT, reward_range=None))
    assert declared.values["candidate"].high == max(1.0, declared.values["candidate"].value)
    assert observed.values["candidate"].high > 1.0
    assert declared.values["candidate"].low == max(0.0, observed.values["candidate"].low)


def test_outcomes_that_count_at_their_worst_widen_the_interval_on_both_sides() -> None:
    log = five_arms(2_000, 8, epsilon=0.5)
    gone = np.arange(2_000) % 50 == 0
    reward, status = np.where(gone, np.nan, log.reward), np.where(gone, PENDING, 0)
    omitted = from_log([replace(log, reward=reward, status=status)], ABOUT).difference
    worst = from_log([replace(log, reward=reward, status=status, worst=gone)], ABOUT).difference
    assert worst.value == omitted.value
    assert worst.low < omitted.low
    assert worst.high > omitted.high


def test_the_quantile_is_that_of_a_table() -> None:
    for rows, expected in ((2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (1e9, 1.960)):
        assert student(0.95, rows) == pytest.approx(expected, rel=0.04)


def test_the_range_is_declared_or_that_of_the_rows_and_0_to_1() -> None:
    assert possible(np.array([0.2, np.nan]), (-2.0, 2.0)) == (-2.0, 2.0)
    assert possible(np.array([0.2, np.nan, 3.0]), None) == (0.0, 3.0)
    assert possible(np.array([np.nan]), None) == (0.0, 1.0)


@settings(max_examples=30)
@given(st.integers(0, 1_000), st.integers(LEAST, 60), st.booleans())
def test_an_interval_holds_its_estimate(seed: int, n: int, declared: bool) -> None:
    log = five_arms(n, seed)
    q = display.cross_fitted(log)
    spread = ScoreSpread(log, q, (0.0, 1.0) if declared else None)
    for estimate in (display.paired(log, q, spread), display.value(log, log.target, q, spread)):
        assert estimate.low <= estimate.value <= estimate.high
