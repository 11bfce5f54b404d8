from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.prove import sequential


def test_challengers_share_one_error_budget() -> None:
    assert sequential.challenger_alpha(0.04, 1) == 0.04
    assert sequential.challenger_alpha(0.04, 3) == pytest.approx(0.04 / 24)
    assert sum(sequential.challenger_alpha(0.04, k) for k in range(1, 10_000)) <= 0.05


def test_the_horizon_threshold_equals_the_published_value() -> None:
    assert sequential.horizon_threshold(2.0, 20_000, 0.04) == pytest.approx(2.0537489 * math.sqrt(40_000), rel=1e-6)


def test_the_confidence_sequence_is_tightest_near_where_it_is_tuned() -> None:
    alpha = 0.04

    def width(tuned_at: int) -> float:
        return sequential.sequence_threshold(1.0, 5_000, alpha, tuned_at)

    at = [width(number) for number in (500, 2_000, 5_000, 12_000, 50_000)]
    assert min(at) == pytest.approx(at[2], rel=0.01)


def test_no_horizon_costs_more_than_a_horizon() -> None:
    assert sequential.sequence_threshold(1.0, 5_000, 0.02) > sequential.horizon_threshold(1.0, 5_000, 0.02)


@pytest.mark.parametrize("rule", ["horizon", "sequence"])
def test_a_random_walk_without_drift_rarely_crosses(rule: str) -> None:
    """2,000 walks of 2,000 steps looked at after every step: at most alpha, within six standard errors."""
    alpha, walks, steps = 0.1, 2_000, 2_000
    rng = np.random.default_rng(3)
    path = np.cumsum(rng.normal(size=(walks, steps)), axis=1)
    if rule == "horizon":
        line = np.full(steps, sequential.horizon_threshold(1.0, steps, alpha))
    else:
        line = np.array([sequential.sequence_threshold(1.0, n, alpha, 500) for n in range(1, steps + 1)])
    crossed = float((path[:, 20:] > line[20:]).any(axis=1).mean())
    assert crossed < alpha + 6 * math.sqrt(alpha * (1 - alpha) / walks)
    fixed = float((path[:, 49::50] > 1.2816 * np.sqrt(np.arange(50, steps + 1, 50))).any(axis=1).mean())
    assert fixed > 2 * alpha  # what a bound for one look does when it is looked at 40 times


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_e_process_is_the_integral_in_exact_arithmetic(wins: int, losses: int) -> None:
    n = wins + losses
    half = Fraction(1, 2)
    integral = Fraction(0)
    for j in range(losses + 1):  # (1−p)^l expanded
        power = wins + j + 1
        integral += Fraction((-1) ** j * math.comb(losses, j), power) * (1 - half**power)
    exact = float(integral * 2 ** (n + 1))
    assert sequential.e_process(wins, losses) == pytest.approx(math.log(exact), abs=1e-9)


def test_the_e_process_starts_at_one_and_is_a_martingale_under_a_fair_coin() -> None:
    assert sequential.e_process(0, 0) == pytest.approx(0.0, abs=1e-12)
    for wins, losses in ((3, 1), (10, 12), (200, 180)):
        now = math.exp(sequential.e_process(wins, losses))
        later = [math.exp(sequential.e_process(wins + 1, losses)), math.exp(sequential.e_process(wins, losses + 1))]
        assert sum(later) / 2 == pytest.approx(now, rel=1e-9)


def test_the_e_process_is_finite_for_very_many_votes() -> None:
    assert 0 < sequential.e_process(600_000, 590_000) < 1e6
    assert sequential.e_process(1_000, 100_000) < 0
