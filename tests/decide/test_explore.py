"""Exploration: closed forms, sums, masks, draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from headway.decide import explore
from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Floats


@st.composite
def tables(draw: st.DrawFn) -> tuple[Floats, Floats, NDArray[np.bool_], list[int]]:
    """Scores, deviations, a mask with at least one candidate, and seeds, for the same rows."""
    rows, count = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    value = st.floats(-5, 5).map(lambda x: round(x, 3))
    scores = draw(st.lists(st.lists(value, min_size=count, max_size=count), min_size=rows, max_size=rows))
    spread = draw(st.lists(st.lists(st.floats(0, 3), min_size=count, max_size=count), min_size=rows, max_size=rows))
    mask = np.array(
        draw(st.lists(st.lists(st.booleans(), min_size=count, max_size=count), min_size=rows, max_size=rows))
    )
    mask[np.arange(rows), draw(st.integers(0, count - 1))] = True
    seeds = draw(st.lists(st.integers(0, 2**63 - 1), min_size=rows, max_size=rows))
    return np.array(scores), np.array(spread), mask, seeds


def _all_ways(scores: Floats, std: Floats, seeds: list[int], mask: NDArray[np.bool_] | None) -> dict[str, Floats]:
    greedy = explore.greedy(scores, mask)
    return {
        "greedy": greedy,
        "epsilon": explore.epsilon(greedy, 0.3, mask),
        "floor": explore.with_floor(greedy, 0.02, mask),
        "softmax": explore.softmax(scores, 0.2, mask),
        "squarecb": explore.squarecb(scores, 17.0, mask),
        "thompson": explore.thompson(scores, std, seeds, mask),
    }


@given(tables())
def test_rows_sum_to_one_masked_candidates_get_zero_and_rows_are_independent(
    table: tuple[Floats, Floats, NDArray[np.bool_], list[int]],
) -> None:
    scores, std, mask, seeds = table
    for allowed in (None, mask):
        for name, result in _all_ways(scores, std, seeds, allowed).items():
            assert result.shape == scores.shape, name
            assert (result >= 0.0).all(), name
            assert np.abs(result.sum(axis=1) - 1.0).max() <= 1e-12, name
            if allowed is not None:
                assert (result[~allowed] == 0.0).all(), name
        for row in range(len(scores)):
            part = slice(row, row + 1)
            alone = _all_ways(scores[part], std[part], seeds[part], None if allowed is None else allowed[part])
            for name, result in _all_ways(scores, std, seeds, allowed).items():
                assert np.array_equal(result[part], alone[name]), name


@given(tables())
def test_a_mask_equals_omitting_the_candidates(
    table: tuple[Floats, Floats, NDArray[np.bool_], list[int]],
) -> None:
    scores, _, mask, _ = table
    for row, (score, allowed) in enumerate(zip(scores, mask, strict=True)):
        part = slice(row, row + 1)
        few = score[allowed][None, :]
        assert np.allclose(explore.squarecb(scores[part], 9.0, mask[part])[0, allowed], explore.squarecb(few, 9.0)[0])
        assert np.allclose(explore.softmax(scores[part], 0.5, mask[part])[0, allowed], explore.softmax(few, 0.5)[0])


def test_closed_forms() -> None:
    scores = np.array([[1.0, 0.5, 0.0]])
    squarecb = explore.squarecb(scores, 10.0)[0]
    assert squarecb == pytest.approx([1 - 1 / 8 - 1 / 13, 1 / 8, 1 / 13], abs=1e-15)
    weights = [math.exp(0.0), math.exp(-1.0), math.exp(-2.0)]
    assert explore.softmax(scores, 0.5)[0] == pytest.approx([weight / sum(weights) for weight in weights], abs=1e-15)
    assert explore.greedy(np.array([[2.0, 1.0, 2.0]]))[0].tolist() == [0.5, 0.0, 0.5]
    assert explore.epsilon(np.array([[1.0, 0.0]]), 0.1)[0] == pytest.approx([0.95, 0.05])
    # The floor is a total: each of the k allowed candidates gets at least floor/k.
    assert explore.with_floor(np.array([[1.0, 0.0, 0.0, 0.0]]), 0.02)[0] == pytest.approx([0.985, 0.005, 0.005, 0.005])
    assert explore.mixture(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.2).tolist() == [0.8, 0.2]


def test_the_memory_layout_of_scores_does_not_change_a_bit() -> None:
    scores, seeds = np.random.default_rng(3).normal(size=(20, 11)), list(range(20))
    turned = np.asfortranarray(scores)
    rows = [explore.softmax(scores[row : row + 1], 0.3)[0] for row in range(20)]
    assert np.array_equal(explore.softmax(turned, 0.3), np.stack(rows))
    plain, other = _all_ways(scores, scores**2, seeds, None), _all_ways(turned, turned**2, seeds, None)
    for name, probabilities in plain.items():
        assert np.array_equal(probabilities, other[name]), name


def test_squarecb_of_equal_scores_is_uniform() -> None:
    assert explore.squarecb(np.zeros((1, 5)), 1000.0)[0] == pytest.approx([0.2] * 5, abs=1e-15)


def test_thompson_frequencies_come_close_to_the_true_probability_of_winning() -> None:
    # Two arms a standard normal apart: P(first wins) = Φ(1/√2). Over 400 seeds, 51,200 draws: six deviations = .012.
    mean, std = np.tile([1.0, 0.0], (400, 1)), np.ones((400, 2))
    draws = explore.thompson(mean, std, range(400))
    truth = 0.5 * (1 + math.erf(1 / math.sqrt(2) / math.sqrt(2)))
    assert abs(float(draws[:, 0].mean()) - truth) < 0.012
    assert len({float(draw) for draw in draws[:, 0]}) > 10  # seeds differ
    assert ((draws * explore.DRAWS) % 1 == 0).all()


def test_thompson_with_zero_deviations_is_greedy() -> None:
    assert explore.thompson(np.array([[0.1, 0.2]]), np.zeros((1, 2)), [5])[0].tolist() == [0.0, 1.0]


def test_the_pool_of_normals_is_standard_and_never_changes() -> None:
    pool = explore.normals(0, 64).ravel()
    assert abs(float(pool.mean())) < 0.06
    assert float(pool.std()) == pytest.approx(1.0, abs=0.04)
    assert explore.normals(12345, 2)[0].round(6).tolist() == [-1.483746, -1.163079]
    many = explore.normals(3, 100)
    assert many.shape == (128, 100)
    assert abs(float(np.corrcoef(many[:, 0], many[:, 1])[0, 1])) < 0.55


def test_uniform_is_splitmix64_and_does_not_change() -> None:
    # The reference implementation's first outputs for seed 0 (Vigna, splitmix64.c).
    assert explore.splitmix64(0) == 0xE220A8397B1DCDAF
    assert explore.splitmix64(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4
    values = [explore.uniform(seed) for seed in range(20_000)]
    assert all(0.0 <= value < 1.0 for value in values)
    assert abs(sum(values) / len(values) - 0.5) < 0.011  # 5.4 standard deviations


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10), st.floats(0, 1, exclude_max=True))
def test_a_candidate_without_probability_is_never_drawn(weights: list[float], u: float) -> None:
    total = sum(weights)
    if total < 1e-6:
        with pytest.raises(InvalidInput) as error:
            explore.draw(np.zeros(len(weights)), u)
        assert error.value.code == "no_candidate"
        return
    probabilities = np.array(weights) / total
    assert probabilities[explore.draw(probabilities, u)] > 0.0


def test_draws_follow_the_distribution() -> None:
    probabilities = np.array([0.5, 0.0, 0.3, 0.2])
    counts = np.bincount([explore.draw(probabilities, explore.uniform(seed)) for seed in range(20_000)], minlength=4)
    assert counts[1] == 0
    # Five and a half standard deviations of a share of 20,000.
    assert (
        np.abs(counts / 20_000 - probabilities) <= 5.5 * np.sqrt(probabilities * (1 - probabilities) / 20_000)
    ).all()


def test_an_empty_mask_is_refused() -> None:
    mask = np.zeros((1, 2), dtype=bool)
    scores = np.zeros((1, 2))
    for ask in (
        lambda: explore.greedy(scores, mask),
        lambda: explore.squarecb(scores, 1.0, mask),
        lambda: explore.softmax(scores, 1.0, mask),
        lambda: explore.thompson(scores, scores, [1], mask),
        lambda: explore.with_floor(scores, 0.1, mask),
    ):
        with pytest.raises(InvalidInput) as error:
            ask()
        assert error.value.code == "no_candidate"
