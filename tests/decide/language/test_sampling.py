"""The draw: its distribution, its log-probabilities, its edges."""

from __future__ import annotations

import math
from collections import Counter

import hypothesis
import hypothesis.strategies as some
import pytest
import torch

from headway.decide.language.sampling import Draw, draw_at, pick

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.06, 0.04]])) + 3.0
SIZES = st = some.floats(0, 1, exclude_max=True)


def acting(temperature: float, top_p: float) -> list[float]:
    """The distribution drawn from, computed the long way."""
    powered = [each ** (1 / temperature) for each in (0.5, 0.25, 0.15, 0.06, 0.04)]
    tempered = [each / sum(powered) for each in powered]
    kept, reached = [], 0.0
    for each in tempered:
        kept.append(each if reached < top_p else 0.0)
        reached += each
    return [each / sum(kept) for each in kept]


@pytest.mark.parametrize(("temperature", "top_p"), [(1, 1), (0.5, 1), (2.0, 0.9), (1.0, 0.6), (1.0, 0.01)])
def test_tokens_come_as_often_as_they_should(temperature: float, top_p: float) -> None:
    expected = acting(temperature, top_p)
    n = 4000
    drawn = pick(LOGITS.expand(n, -1), [Draw(temperature, top_p, draw_at(at, 0)) for at in range(n)])
    counts = Counter(each.token for each in drawn)
    for token, share in enumerate(expected):
        # six standard deviations: a false alarm once in 1e9
        assert abs(counts[token] / n - share) <= 6 * math.sqrt(share * (1 - share) / n)
    for each in drawn:
        assert each.logprob_acting == pytest.approx(math.log(expected[each.token]), abs=1e-5)
        model = (0.5, 0.25, 0.15, 0.06, 0.04)[each.token]
        assert each.logprob_model == pytest.approx(math.log(model), abs=1e-5)


def test_greedy_takes_the_best_with_certainty() -> None:
    (found,) = pick(LOGITS, [Draw(0, 1, 0.999)])
    assert (found.token, found.logprob_acting) == (0, 0.0)
    assert found.logprob_model == pytest.approx(math.log(0.5), abs=1e-6)


@hypothesis.given(u=st, temperature=some.floats(0.001, 100), top_p=some.floats(0.001, 1), seed=some.integers(0, 1000))
def test_a_token_of_no_probability_is_never_drawn(u: float, temperature: float, top_p: float, seed: int) -> None:
    logits = torch.randn(1, 600, generator=torch.Generator().manual_seed(seed)) * 5
    logits[:, ::2] = -torch.inf
    (found,) = pick(logits, [Draw(temperature, top_p, u)])
    assert found.token % 2 == 1
    assert -1000 < found.logprob_acting <= 0
    assert math.isfinite(found.logprob_model)


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("top_p", [0.5, 1.0])
def test_the_edges_of_the_draw_are_inside(u: float, top_p: float) -> None:
    logits = torch.full((1, 1000), -torch.inf)
    logits[0, 10], logits[0, 20] = 1.0, 0.9
    (found,) = pick(logits, [Draw(1.0, top_p, u)])
    assert found.token in (10, 20)


def test_a_flat_distribution_sorts_the_whole_vocabulary() -> None:
    logits = torch.zeros(1, 5000)
    logits[0, 4999] = 0.01
    drawn = pick(logits.expand(500, -1), [Draw(1.0, 0.9, draw_at(at, 1)) for at in range(500)])
    assert {round(each.logprob_acting, 2) for each in drawn} <= {round(-math.log(4500), 2), -8.4}


def test_rows_are_drawn_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(12, 300, generator=generator)
    draws = [Draw((0, 1, 0.7)[at % 3], (1, 0.8)[at % 2], draw_at(at, 5)) for at in range(12)]
    together = pick(logits, draws)
    for at, each in enumerate(together):
        (alone,) = pick(logits[at : at + 1], [draws[at]])
        assert alone.token == each.token
        assert alone.logprob_acting == pytest.approx(each.logprob_acting, abs=1e-6)


def test_draws_of_neighbouring_seeds_and_steps_differ() -> None:
    numbers = {draw_at(seed, step) for seed in range(100) for step in range(100)}
    assert len(numbers) == 10_000
    mean = sum(numbers) / 10_000
    assert abs(mean - 0.5) < 6 * math.sqrt(1 / 12 / 10_000)
