"""Several raters: the consensus against closed forms, and against panels of known quality."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, strategies as some

from headway.reward.raters import OTHERS, Agreed, Rating, consensus
from headway.reward.raters_model import _expect, _pairs, _Parameters, _Ratings

Ratings = list[Rating[int]]


def panel(seed: int, *, items: int = 60, reversed: int = 1, raters: int = 6) -> tuple[np.ndarray, Ratings]:
    rng = np.random.default_rng(seed)
    quality = 3.0 + 0.8 * rng.standard_normal(items)
    bias, noise = 0.5 * rng.standard_normal(raters), rng.uniform(0.2, 1.0, raters)
    sign = np.where(np.arange(raters) < reversed, -1.0, 1.0)
    rows = []
    for item in range(items):
        for rater in rng.choice(raters, 3, replace=False).tolist():
            value = 3.0 + bias[rater] + sign[rater] * (quality[item] - 3.0) + noise[rater] * rng.standard_normal()
            rows.append(Rating(item, f"r{rater}", float(value)))
    return quality, rows


def means(agreed: Agreed[int]) -> np.ndarray:
    return np.array([agreed.items[item].mean for item in sorted(agreed.items)])


def test_consensus_beats_the_mean_and_its_intervals_have_nominal_coverage() -> None:
    inside, better, panels = [], 0, 25
    for seed in range(panels):
        quality, rows = panel(seed)
        agreed = consensus(rows)
        plain = np.array([np.mean([row.value for row in rows if row.item == item]) for item in range(len(quality))])
        better += float(np.mean((means(agreed) - quality) ** 2)) < float(np.mean((plain - quality) ** 2))
        for item, true in enumerate(quality):
            low, high = agreed.items[item].interval()
            inside.append(low <= true <= high)
    assert better == panels
    assert 0.75 <= np.mean(inside) <= 0.85


def test_only_the_reversed_rater_is_detected_as_reversed() -> None:
    for seed in range(10):
        agreed = consensus(panel(seed)[1])
        assert agreed.raters["r0"].reversed > 0.99
        assert agreed.raters["r0"].scale < 0.0
        assert all(rater.reversed < 0.5 for name, rater in agreed.raters.items() if name != "r0")


def test_without_a_reversed_rater_none_is_detected() -> None:
    for seed in range(10):
        assert all(rater.reversed < 0.5 for rater in consensus(panel(seed, reversed=0)[1]).raters.values())


def test_the_e_step_is_the_posterior_of_the_whole_linear_system() -> None:
    rng = np.random.default_rng(3)
    item, rater = rng.integers(0, 7, 30), rng.integers(0, 3, 30)
    item[:7], rater[:3] = np.arange(7), np.arange(3)
    value = rng.standard_normal(30)
    ratings = _Ratings(item, rater, value, 7, 3, *_pairs(item))
    parameters = _Parameters(
        scale=np.array([1.2, -0.7, 0.9]),
        noise=np.array([0.3, 0.5, 1.1]),
        spread=0.8,
        bias_spread=0.4,
        scale_spread=0.1,
        sign=np.ones(3),
    )
    posterior = _expect(ratings, parameters)
    # Every unknown written out: μ, three biases, seven items.
    design = np.zeros((30, 11))
    design[:, 0] = 1.0
    design[np.arange(30), 1 + rater] = 1.0
    design[np.arange(30), 4 + item] = parameters.scale[rater]
    precision = design.T @ (design / parameters.noise[rater][:, None])
    precision += np.diag([1e-6, *[1 / 0.4] * 3, *[1 / 0.8] * 7])
    covariance = np.linalg.inv(precision)
    best = covariance @ (design.T @ (value / parameters.noise[rater]))
    assert posterior.mean == pytest.approx(best[0])
    np.testing.assert_allclose(posterior.bias, best[1:4])
    np.testing.assert_allclose(posterior.u, best[4:])
    np.testing.assert_allclose(posterior.u_variance, np.diag(covariance)[4:])
    residual = (value - design @ best) ** 2 + np.einsum("rp,pq,rq->r", design, covariance, design)
    np.testing.assert_allclose(posterior.residual, residual)


def test_the_order_of_arrival_does_not_matter_to_the_last_bit() -> None:
    _, rows = panel(4)
    shuffled = rows[:]
    random.Random(1).shuffle(shuffled)
    assert consensus(rows) == consensus(shuffled)


def test_a_withdrawn_rating_leaves_no_trace() -> None:
    _, rows = panel(5)
    without = rows[:40] + rows[41:]
    assert consensus(without) != consensus(rows)
    assert consensus([row for row in rows if row is not rows[40]]) == consensus(without)


def test_the_consensus_of_no_ratings_is_empty() -> None:
    agreed = consensus([])
    assert not agreed.items
    assert not agreed.raters


def test_the_ratings_of_a_single_rater_are_unchanged() -> None:
    agreed = consensus([Rating(item, "ann", float(item)) for item in range(5)])
    assert [agreed.items[item].mean for item in range(5)] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert all(item.variance == 0.0 and item.reliability == 1.0 for item in agreed.items.values())
    assert not agreed.compared


def test_raters_with_equal_ratings_agree() -> None:
    rows = [Rating(item, rater, 4.0) for item, rater in itertools.product(range(5), ("ann", "bob", "eve"))]
    assert {item.mean for item in consensus(rows).items.values()} == {4.0}


def test_a_rater_with_constant_ratings_is_not_informative() -> None:
    quality, rows = panel(6, reversed=0)
    bored = [*rows, *(Rating(item, "bored", 3.0) for item in range(len(quality)))]
    agreed = consensus(bored)
    assert agreed.raters["bored"].information < 0.05 * min(
        rater.information for name, rater in agreed.raters.items() if name != "bored"
    )
    np.testing.assert_allclose(means(agreed), means(consensus(rows)), atol=0.15)


def test_two_raters_can_rate_a_single_item() -> None:
    agreed = consensus([Rating(1, "ann", 2.0), Rating(1, "bob", 4.0)])
    assert agreed.items[1].mean == pytest.approx(3.0)
    assert agreed.items[1].variance > 0.0


def test_the_consensus_follows_shifts_and_scales_of_the_ratings() -> None:
    _, rows = panel(7)
    moved = [Rating(row.item, row.rater, 1000.0 + 0.001 * row.value) for row in rows]
    np.testing.assert_allclose(means(consensus(moved)), 1000.0 + 0.001 * means(consensus(rows)), rtol=1e-9)


@pytest.mark.kits("raters")
def test_rare_raters_of_a_large_group_are_treated_as_one() -> None:
    rng = np.random.default_rng(8)
    rows = [Rating(item, f"r{rng.integers(230)}", float(rng.normal())) for item in range(250) for _ in range(3)]
    agreed = consensus(rows)
    assert OTHERS in agreed.raters
    assert len(agreed.items) == 250


def test_more_ratings_of_an_item_make_it_more_certain() -> None:
    _, rows = panel(9, reversed=0)
    more = [*rows, Rating(0, "r1", 3.0), Rating(0, "r2", 3.0), Rating(0, "r3", 3.0)]
    assert consensus(more).items[0].reliability > consensus(rows).items[0].reliability


@given(
    some.lists(
        some.tuples(some.integers(0, 6), some.sampled_from("abcd"), some.integers(1, 5)), min_size=1, max_size=40
    )
)
def test_the_consensus_is_always_finite_and_near_the_ratings(given_ratings: list[tuple[int, str, int]]) -> None:
    agreed = consensus([Rating(item, rater, float(value)) for item, rater, value in given_ratings])
    for quality in agreed.items.values():
        assert 0.0 <= quality.mean <= 6.0
        assert 0.0 <= quality.variance < 10.0
        assert 0.0 <= quality.reliability <= 1.0


def test_the_one_who_disagrees_with_two_exact_raters_is_reversed() -> None:
    """Without any noise every sign fits; most raters understood the scale."""
    rows = [
        Rating(item, rater, value)
        for item, good in enumerate([2] * 6 + [3] * 5 + [4] * 3)
        for rater, value in (("ann", good + 1.0), ("bob", float(good)), ("eve", 6.0 - good))
    ]
    raters = consensus(rows).raters
    assert raters["eve"].reversed > 0.99
    assert max(raters["ann"].reversed, raters["bob"].reversed) < 0.01
