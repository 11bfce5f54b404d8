"""The detector of changes: its statistic, what it finds and how fast, and what it does not take for a change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.prove.change import Change, find_change, limit, strengths

LEAST = limit(0.0125)


def coins(seed, *parts):
    """Successes and failures: (rows, probability) one after the other."""
    rng = np.random.default_rng(seed)
    return np.concatenate([(rng.random(rows) < chance).astype(float) for rows, chance in parts])


def first_found(values, start, step=10):
    for n in range(start, values.size + 1, step):
        change = find_change(values[:n], LEAST)
        if change is not None:
            return n, change
    return None


def test_the_statistic_of_coin_flips_is_their_likelihood_ratio():
    values = coins(0, (40, 0.8), (60, 0.5))
    sums = np.concatenate([[0.0], np.cumsum(values)])

    def likelihood(part):
        p = part.mean()
        return part.size * (p * math.log(p) + (1 - p) * math.log(1 - p))

    expected = likelihood(values[:40]) + likelihood(values[40:]) - likelihood(values)
    assert strengths(sums, sums, np.array([40]))[0] == pytest.approx(expected)


def test_a_change_has_its_place_and_its_means():
    change = find_change(np.repeat([1.0, 0.0], [400, 50]), LEAST)
    assert isinstance(change, Change)
    assert (change.split, change.before, change.after, change.rows, change.fall) == (400, 1.0, 0.0, (400, 50), True)
    rise = find_change(np.repeat([0.0, 1.0], [400, 50]), LEAST)
    assert rise is not None
    assert not rise.fall


def test_too_few_rows_and_equal_values_show_nothing():
    assert find_change(np.repeat([1.0, 0.0], [50, 9]), LEAST) is None
    assert find_change(np.full(1000, 0.3), LEAST) is None
    assert find_change(np.empty(0), LEAST) is None


def test_the_scale_of_the_values_does_not_matter():
    values = coins(1, (500, 0.75), (60, 0.35))
    one, other = find_change(values, LEAST), find_change(20.0 * values - 7.0, LEAST)
    assert one is not None
    assert other is not None
    assert (other.split, other.strength) == (one.split, pytest.approx(one.strength))
    assert other.before == pytest.approx(20.0 * one.before - 7.0)


def test_a_collapse_is_found_within_two_hundred_rows_and_located():
    delays, errors = [], []
    for seed in range(20):
        found = first_found(coins(seed, (1000, 0.75), (400, 0.35)), 1000)
        assert found is not None
        delays.append(found[0] - 1000)
        errors.append(abs(found[1].split - 1000))
    assert np.median(delays) <= 60
    assert max(delays) <= 200
    assert np.median(errors) <= 5


def test_a_slow_decline_is_found_within_two_thousand_rows():
    delays = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        chance = 0.75 - 0.1 * np.clip((np.arange(9000) - 5000) / 1000, 0.0, 1.0)
        found = first_found((rng.random(9000) < chance).astype(float), 5000, 50)
        delays.append(found[0] - 5000 if found else 4000)
    assert np.median(delays) <= 1500


def test_a_small_fall_of_values_that_vary_little_is_found_as_fast_as_a_large_one():
    rng = np.random.default_rng(3)
    values = np.where(np.arange(1200) < 1000, 0.80, 0.75) + 0.05 * rng.standard_normal(1200)
    found = first_found(values, 1000)
    assert found is not None
    assert found[0] <= 1060


WORLDS = {
    "half": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "mostly right": lambda rng, n: (rng.random(n) < 0.97).astype(float),
    "clicks": lambda rng, n: (rng.random(n) < 0.03).astype(float),
    "even": lambda rng, n: rng.random(n),
    "rare disasters": lambda rng, n: np.where(rng.random(n) < 0.001, -5.0, 0.8 + 0.02 * rng.standard_normal(n)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_nothing_is_found_where_nothing_changed(world):
    """One alarm in 40,000 rows would have a probability of .005; the seeds are fixed. Rates: benchmarks."""
    for seed in range(4):
        values = WORLDS[world](np.random.default_rng(seed), 10_000)
        assert first_found(values, 100, 100) is None
