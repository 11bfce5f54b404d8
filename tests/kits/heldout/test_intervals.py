from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.kits.heldout import intervals


def test_a_normal_interval_is_the_textbook_one() -> None:
    low, high = intervals.normal(np.array([1.0, 2.0, 3.0, 4.0]))
    wide = 1.959963984540054 * np.std([1, 2, 3, 4], ddof=1) / 2
    assert (low, high) == pytest.approx((2.5 - wide, 2.5 + wide))


def test_the_bootstrap_agrees_with_the_normal_interval_on_tame_rows() -> None:
    rows = np.random.default_rng(0).normal(2.0, 1.0, 3_000)
    assert intervals.bootstrap(rows) == pytest.approx(intervals.normal(rows), abs=0.01)


def test_bins_of_neighbours_give_the_interval_of_single_rows() -> None:
    """Skewed rows just above the limit: the binned bootstrap against the exact one, up to Monte Carlo error."""
    rng = np.random.default_rng(1)
    rows = np.where(rng.random(20_000) < 0.01, rng.exponential(50.0, 20_000), rng.normal(0.0, 0.3, 20_000))
    centred = rows - rows.mean()
    exact = intervals._drawn_rows(centred, 1_000, np.random.default_rng(2))
    binned = intervals._drawn_bins(centred, 1_000, np.random.default_rng(3))
    for one, other in zip(exact[1:], binned[1:], strict=True):
        assert other.std() == pytest.approx(one.std(), rel=0.2)
        assert abs(other.mean() - one.mean()) < 6 * one.std() / 1_000**0.5
    assert np.quantile(binned[1], [0.025, 0.975]) == pytest.approx(np.quantile(exact[1], [0.025, 0.975]), rel=0.2)


def test_the_same_seed_gives_the_same_interval() -> None:
    rows = np.random.default_rng(4).exponential(1.0, 9_000)
    assert intervals.bootstrap(rows, seed=5) == intervals.bootstrap(rows, seed=5)
    assert intervals.bootstrap(rows, seed=5) != intervals.bootstrap(rows, seed=6)


def test_studentising_leans_the_interval_towards_the_long_tail() -> None:
    rows = np.random.default_rng(7).exponential(1.0, 200) ** 2
    low, high = intervals.bootstrap(rows)
    mean = float(rows.mean())
    assert high - mean > mean - low


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50), st.integers(0, 100))
def test_an_interval_holds_its_mean(values: list[float], seed: int) -> None:
    rows = np.array(values)
    low, high = intervals.bootstrap(rows, resamples=200, seed=seed)
    slack = 1e-6 * (1.0 + np.abs(rows).max())
    assert low <= high
    assert intervals.normal(rows)[0] <= rows.mean() + slack


def test_rows_that_never_vary_have_no_width() -> None:
    assert intervals.bootstrap(np.full(100, 0.7)) == pytest.approx((0.7, 0.7))
