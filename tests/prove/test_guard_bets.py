"""The guard's bets: they start again, stay within one budget, and find harm that begins late."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.prove.betting import RESTARTS, Bets

ALPHA = 0.05
LIMIT = math.log(1.0 / ALPHA)


def scores(n: int, seed: int, mean: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Scores of −1 and 1."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.5 + mean / 2.0, 1.0, -1.0)


def first_crossing(bets: Bets, x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int | None:
    """The row after which the wealth is above its limit, looked at after every row."""
    won = np.cumsum(bets.add(x, np.full(x.size, -1.0), 1.0), axis=1) + bets.shares[:, None]
    top = won.max(axis=0)
    wealth = top + np.log(np.exp(won - top).sum(axis=0))
    above = np.flatnonzero(wealth > LIMIT)
    return int(above[0]) + 1 if above.size else None


def test_all_gamblers_together_start_with_at_most_one() -> None:
    total = float(np.exp(Bets(ALPHA, guard=True).shares).sum())
    assert 0.95 < total <= 1.0


def test_a_gambler_bets_nothing_before_it_starts() -> None:
    bets = Bets(ALPHA, guard=True)
    x = scores(600, 1, 0.0)
    for start in range(0, 600, 130):  # in chunks that do not end where gamblers start
        bets.add(x[start : start + 130], np.full(len(x[start : start + 130]), -1.0), 1.0)
    for place, start in enumerate(bets.starts.astype(int).tolist()):
        rate = min(float(bets.stakes[place]), 0.8)
        assert bets.wealth[place] == pytest.approx(np.log1p(rate * x[start:]).sum(), abs=1e-9)
    assert not bets.wealth[bets.starts > 600].any()


def test_harm_that_begins_after_3000_good_rows_is_found_soon() -> None:
    x = np.concatenate([scores(3000, 2, -0.3), scores(3000, 3, 0.3)])  # the bet is on "worse"
    found = first_crossing(Bets(ALPHA, guard=True), x)
    plain = first_crossing(Bets(ALPHA), x)
    late = min(start for start in RESTARTS if start >= 3000)
    assert found is not None
    assert found <= late + 200
    assert plain is None or plain > found + 500


def test_harm_from_the_start_is_found_as_soon_as_with_one_bet() -> None:
    found = [first_crossing(Bets(ALPHA, guard=True), scores(1000, seed, 0.3)) or 1000 for seed in range(20)]
    assert np.median(found) < 120


def test_bets_on_equal_policies_rarely_cross() -> None:
    runs = 150
    crossed = sum(
        first_crossing(Bets(ALPHA, guard=True), scores(1500, 100 + seed, 0.0)) is not None for seed in range(runs)
    )
    assert crossed <= 24  # of Binomial(150, 0.05), more than 24 has a probability below 1e-6
