"""Sampling: the distribution, the log-probabilities, edge cases."""

from __future__ import annotations

import math
from collections import Counter

import hypothesis
import hypothesis.strategies as some
import pytest
import torch

from headway.kits.reply.sampling import TokenDraw, noise, pick

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.06, 0.04]])) + 3.0


def acting(temperature: float, top_p: float) -> list[float]:
    """The sampling distribution, computed directly."""
    powered = [probability ** (1 / temperature) for probability in (0.5, 0.25, 0.15, 0.06, 0.04)]
    tempered = [weight / sum(powered) for weight in powered]
    kept, reached = [], 0.0
    for probability in tempered:
        kept.append(probability if reached < top_p else 0.0)
        reached += probability
    return [weight / sum(kept) for weight in kept]


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "top_p"), [(1, 1), (0.5, 1), (2.0, 0.9), (1.0, 0.6), (1.0, 0.01)])
def test_token_frequencies_match_their_probabilities(temperature: float, top_p: float) -> None:
    expected = acting(temperature, top_p)
    n = 4000
    drawn = pick(LOGITS.expand(n, -1), [TokenDraw(temperature, top_p, at, 0) for at in range(n)])
    counts = Counter(draw.token for draw in drawn)
    for token, share in enumerate(expected):
        # six standard deviations: a false alarm once in 1e9
        assert abs(counts[token] / n - share) <= 6 * math.sqrt(share * (1 - share) / n)
    for draw in drawn:
        assert draw.logprob_acting == pytest.approx(math.log(expected[draw.token]), abs=1e-5)
        model = (0.5, 0.25, 0.15, 0.06, 0.04)[draw.token]
        assert draw.logprob_model == pytest.approx(math.log(model), abs=1e-5)


def test_greedy_takes_the_best_with_certainty() -> None:
    (draw,) = pick(LOGITS, [TokenDraw(0, 1, 7, 0)])
    assert (draw.token, draw.logprob_acting) == (0, 0.0)
    assert draw.logprob_model == pytest.approx(math.log(0.5), abs=1e-6)


@hypothesis.given(temperature=some.floats(0.001, 100), top_p=some.floats(0.001, 1), seed=some.integers(0, 2**63 - 1))
def test_a_token_of_no_probability_is_never_drawn(temperature: float, top_p: float, seed: int) -> None:
    logits = torch.randn(1, 600, generator=torch.Generator().manual_seed(seed % 1000)) * 5
    logits[:, ::2] = -torch.inf
    (draw,) = pick(logits, [TokenDraw(temperature, top_p, seed, 3)])
    assert draw.token % 2 == 1
    assert -1000 < draw.logprob_acting <= 0
    assert math.isfinite(draw.logprob_model)


def test_a_flat_distribution_sorts_the_whole_vocabulary() -> None:
    logits = torch.zeros(1, 5000)
    logits[0, 4999] = 0.01
    drawn = pick(logits.expand(500, -1), [TokenDraw(1.0, 0.9, at, 1) for at in range(500)])
    assert {round(draw.logprob_acting, 2) for draw in drawn} <= {round(-math.log(4500), 2), -8.4}


def test_rows_are_drawn_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(12, 300, generator=generator)
    draws = [TokenDraw((0, 1, 0.7)[at % 3], (1, 0.8)[at % 2], at, 5) for at in range(12)]
    together = pick(logits, draws)
    for at, draw in enumerate(together):
        (alone,) = pick(logits[at : at + 1], [draws[at]])
        assert alone.token == draw.token
        assert alone.logprob_acting == pytest.approx(draw.logprob_acting, abs=1e-6)


@pytest.mark.slow
def test_a_rounding_error_hardly_ever_changes_a_draw() -> None:
    logits = torch.zeros(2000, 5000)  # flat: from the cumulative distribution most draws would move
    draws = [TokenDraw(1.0, 1.0, at, 0) for at in range(2000)]
    moved = logits + 1e-5 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))
    changed = sum(one.token != other.token for one, other in zip(pick(logits, draws), pick(moved, draws), strict=True))
    assert changed <= 3


def test_noise_is_gumbels_and_differs_by_seed_step_and_token() -> None:
    ids = torch.arange(2000).expand(40, -1)
    gumbel = noise([TokenDraw(1, 1, at // 8, at % 8) for at in range(40)], ids).double()
    assert len(set(gumbel.flatten().tolist())) > 79_000
    n = gumbel.numel()
    # mean γ, variance π²/6; six standard deviations of each, with the variance's own from the fourth moment
    assert abs(float(gumbel.mean()) - 0.5772156649) < 6 * math.sqrt(math.pi**2 / 6 / n)
    assert abs(float(gumbel.var()) - math.pi**2 / 6) < 6 * math.sqrt(4.4 * (math.pi**2 / 6) ** 2 / n)
    together = torch.corrcoef(gumbel)
    off = together[~torch.eye(40, dtype=torch.bool)].abs().max()
    assert float(off) < 6.5 / math.sqrt(2000), "rows are independent"


def test_noise_is_the_same_for_a_token_at_any_position() -> None:
    draws = [TokenDraw(1, 1, 5, 9)]
    whole = noise(draws, torch.arange(1000)[None])
    some_ids = torch.tensor([[999, 0, 17]])
    assert noise(draws, some_ids).tolist() == whole[:, some_ids[0]].tolist()
