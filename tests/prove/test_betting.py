"""The bet on bounded scores: exact sums, valid at every look in skewed worlds, and planned with the right power."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.prove.betting import MOST, Bets, stakes
from headway.prove.power import decisions_needed, registered_power, sequence_needed

ALPHA = 0.04
LIMIT = math.log(1.0 / ALPHA)


def scores(n: int, seed: int, *, mean: float = 0.0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Skewed scores in [−9, 1]: a loss of 9 in one of ten rows balances gains of 1."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.1, -9.0, 1.0) + mean


def lowest(n: int, low: float = -9.0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.full(n, low)


def test_the_wealth_is_the_product_of_all_bets() -> None:
    x = scores(500, 1)
    bets = Bets(ALPHA)
    bets.add(x, lowest(500), 9.0)
    rate = np.minimum(bets.stakes / 3.0, MOST / 9.0)
    factors = 1.0 + rate[:, None] * x
    assert bets.log_wealth() == pytest.approx(math.log(np.prod(factors, axis=1).mean()), rel=1e-12)


@pytest.mark.parametrize("mean", [0.001, 0.02, -0.02, 0.3])
def test_the_wealth_at_another_mean_never_exceeds_the_exact_one_and_is_close(mean: float) -> None:
    x = scores(2_000, 2, mean=0.05)
    bets = Bets(ALPHA)
    bets.add(x, lowest(2_000, -8.95), 9.0)
    rate = np.minimum(bets.stakes / 3.0, MOST / 8.95)
    exact = np.log(np.exp(np.log1p(rate[:, None] * (x - mean)).sum(axis=1)).mean())
    assert bets.log_wealth(mean) <= exact + 1e-9
    assert bets.log_wealth(mean) == pytest.approx(exact, abs=0.1 + 0.05 * abs(exact))


def test_the_sums_do_not_depend_on_the_chunks() -> None:
    x, low = scores(1_000, 3), -9.0 - np.arange(1_000) / 1_000
    whole, parts = Bets(ALPHA), Bets(ALPHA)
    whole.add(x, low, 9.0)
    for start in range(0, 1_000, 130):
        parts.add(x[start : start + 130], low[start : start + 130], 9.0)
    assert parts.log_wealth(0.01) == pytest.approx(whole.log_wealth(0.01), rel=1e-12)
    assert parts.lower_bound(-9.0) == pytest.approx(whole.lower_bound(-9.0), rel=1e-9)


def test_no_row_can_take_more_than_the_allowed_share_of_the_wealth() -> None:
    bets = Bets(ALPHA)
    bets.add(np.array([-50.0]), np.array([-50.0]), 1e-9)  # a variance that is far too small
    assert np.isfinite(bets.wealth).all()
    assert bets.wealth.min() >= math.log(1.0 - MOST) - 1e-12


@pytest.mark.parametrize("horizon", [None, 400])
def test_skewed_scores_without_an_effect_rarely_pass_at_any_look(horizon: int | None) -> None:
    """2,000 replications with a look at every row: at most α, with six standard errors of room."""
    replications, n = 2_000, 400
    rng = np.random.default_rng(5)
    x = np.where(rng.random((replications, n)) < 0.01, -9.9, 0.1)  # a disaster in one of a hundred rows
    each, shares = stakes(ALPHA, horizon)
    # 0.01 is the variance before the first disaster: far too small, as in a pilot that saw none
    rate = np.minimum(each / math.sqrt(0.01), MOST / 9.9)
    path = np.zeros((replications, n))
    for stake, share in zip(rate, np.exp(shares), strict=True):
        path += share * np.exp(np.cumsum(np.log1p(stake * x), axis=1))
    crossed = float((path >= 1.0 / ALPHA).any(axis=1).mean())
    assert crossed <= ALPHA + 6 * math.sqrt(ALPHA * (1 - ALPHA) / replications)


def test_the_lower_bound_is_below_the_true_mean_and_gets_close() -> None:
    truth = 0.05
    below, near = 0, 0
    for seed in range(100):
        x = scores(20_000, 100 + seed, mean=truth)
        bets = Bets(ALPHA)
        bets.add(x, lowest(20_000, -8.95), 9.0)
        below += bets.lower_bound(-9.0) <= truth
        near += bets.lower_bound(-9.0) > truth - 0.12
    assert below >= 88  # 96 expected, six standard errors below
    assert near >= 75


def test_planned_power_matches_simulated_bets() -> None:
    rng = np.random.default_rng(6)
    n, uplift, walks = 600, 0.11, 200
    won = ending_tests_won(rng.normal(uplift, 1.0, (walks, n)).clip(-4.0, 4.0 + 2 * uplift))
    assert won == pytest.approx(registered_power(n, 1.0, uplift, ALPHA, lowest=-4.0), abs=0.1)


def ending_tests_won(walks: np.ndarray[tuple[int, int], np.dtype[np.float64]], margin: float = 0.0) -> float:
    """The share of tests with the horizon that pass at a look after every 20 rows."""
    won = 0
    for x in walks:
        bets = Bets(ALPHA, x.size, ends=True, margin=margin)
        for start in range(0, x.size, 20):
            bets.add(x[start : start + 20], lowest(20, -4.0), 1.0)
            if bets.log_wealth(margin) > LIMIT:
                won += 1
                break
    return won / len(walks)


def registered_power_of_one_stake(walks: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """The same share if the stakes are chosen once, for the whole horizon."""
    bets = Bets(ALPHA, walks.shape[1])
    path = np.zeros(walks.shape)
    for stake, share in zip(bets.stakes, np.exp(bets.shares), strict=True):
        path += share * np.exp(np.cumsum(np.log1p(stake * walks), axis=1))
    return float((path[:, 19::20] >= 1.0 / ALPHA).any(axis=1).mean())


def test_tests_that_end_rarely_pass_without_an_effect() -> None:
    rng = np.random.default_rng(7)
    for margin in (0.0, 0.1):
        x = rng.choice([-1.0 + margin, 1.0 + margin], (300, 400))
        assert ending_tests_won(x, margin) <= 0.09  # 12 of 300 expected at most, four standard errors of room


def test_a_test_that_ends_shows_more_with_the_same_rows_and_bounds_its_mean() -> None:
    rng = np.random.default_rng(8)
    x = rng.choice([-1.0, 1.0], (150, 500), p=[0.44, 0.56])  # a mean of .12
    assert ending_tests_won(x) >= registered_power_of_one_stake(x) + 0.05
    below = []
    for row in x:
        whole, parts = Bets(ALPHA, 500, ends=True), Bets(ALPHA, 500, ends=True)
        whole.add(row, lowest(500, -1.0), 1.0)
        for start in range(0, 500, 37):
            parts.add(row[start : start + 37], lowest(row[start : start + 37].size, -1.0), 1.0)
        assert parts.log_wealth(0.01) == pytest.approx(whole.log_wealth(0.01), rel=1e-9)
        bound = whole.lower_bound(-1.0)
        assert bound <= row.mean()
        below.append(bound <= 0.12)
    assert sum(below) >= 137  # 144 expected


def test_planned_decisions_grow_with_variance_and_shrink_with_uplift() -> None:
    base = decisions_needed(2.0, 0.025, 0.02)
    assert base is not None
    assert decisions_needed(4.0, 0.025, 0.02) == pytest.approx(2 * base, rel=1e-3)
    assert decisions_needed(2.0, 0.05, 0.02) == pytest.approx(base / 4, rel=1e-3)
    assert decisions_needed(2.0, 0.0, 0.02) is None
    assert registered_power(base, 2.0, 0.025, 0.02) == pytest.approx(0.8, abs=1e-3)
    heavy = decisions_needed(2.0, 0.025, 0.02, lowest=-300.0)
    assert heavy is not None
    assert heavy > base  # a low possible score limits the stakes
    endless = sequence_needed(2.0, 0.025, 0.02)
    assert endless is not None
    assert endless > base
