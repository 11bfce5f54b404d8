"""The losses: their gradients by finite differences, their bounds, and what has no gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from headway.kits.reply.learn import losses  # noqa: E402

ROWS, TOKENS = 3, 5


def _drawn(seed: int, *shape: int):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def logprobs():
    return (-_drawn(1, ROWS, TOKENS) * 3).requires_grad_()


MASK = torch.tensor([[1.0, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]], dtype=torch.float64)
WEIGHTS = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
DESIRABLE = torch.tensor([True, False, True])
BASE = -_drawn(2, ROWS, TOKENS) * 3
SIGNED = (_drawn(3, ROWS, TOKENS) * 2 - 1) * 1.5


def _kto(x):
    return losses.graded_kto(losses.shifts(x, BASE, MASK, 3.0), DESIRABLE, WEIGHTS, 0.3, 0.1)


def _pairs(x):
    shift = losses.shifts(x, BASE, MASK, 3.0)
    return losses.pairs(shift[:1], shift[1:2], WEIGHTS[:1], 0.1)


def _policy(x):
    return losses.policy_loss(x, BASE, losses.logger_weights(BASE, BASE - 0.2, MASK), SIGNED, MASK).loss


def _value(x):
    return losses.value_loss(x, BASE, SIGNED, MASK)


LOSSES: dict[str, Callable] = {
    "likelihood": lambda x: losses.likelihood(x, MASK, WEIGHTS),
    "kto": _kto,
    "pairs": _pairs,
    "policy": _policy,
    "value": _value,
    "anchor": lambda x: losses.anchor_kl(x, BASE.log_softmax(-1)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_agree_with_finite_differences(name: str, logprobs) -> None:
    assert torch.autograd.gradcheck(LOSSES[name], (logprobs,), eps=1e-6, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", ["likelihood", "kto", "policy", "value"])
def test_padding_has_no_gradient(name: str, logprobs) -> None:
    LOSSES[name](logprobs).backward()
    assert torch.equal(logprobs.grad * (1 - MASK), torch.zeros_like(MASK))


def test_kto_raises_good_replies_and_lowers_bad_ones_by_a_bounded_amount(logprobs) -> None:
    _kto(logprobs).backward()
    step = -logprobs.grad * MASK
    assert (step[0][MASK[0] > 0] > 0).all()
    assert (step[1][MASK[1] > 0] < 0).all()
    for far in (-1e4, -10.0, 0.0, 10.0, 1e4):  # however far a reply has been pushed, and however bad its rating
        shift = torch.full((ROWS,), far, dtype=torch.float64, requires_grad=True)
        loss = losses.graded_kto(shift, DESIRABLE, WEIGHTS, 0.0, 0.1)
        loss.backward()
        assert 0.0 <= loss.item() <= float(WEIGHTS.mean())
        assert (shift.grad.abs() <= 0.1 * WEIGHTS / 4 / ROWS + 1e-8).all()


def test_ppo_bounds_a_bad_reply_by_its_second_clip() -> None:
    mask, advantage = torch.ones(1, 1), torch.tensor([[-2.0]])
    for ratio in (1.0, 2.9, 10.0, 1e6):
        logprobs = torch.tensor([[ratio]]).log().requires_grad_()
        loss = losses.policy_loss(logprobs, torch.zeros(1, 1), mask, advantage, mask).loss
        loss.backward()
        assert loss.item() <= losses.DUAL_CLIP * 2.0 + 1e-5
        assert (float(logprobs.grad) == 0.0) == (ratio > losses.DUAL_CLIP)


def test_ppo_clips_a_good_reply_above_and_a_bad_one_below() -> None:
    mask = torch.ones(1, 4)
    ratios = torch.tensor([[1.27, 1.29, 0.81, 0.79]])
    logprobs = ratios.log().requires_grad_()
    advantage = torch.tensor([[1.0, 1.0, -1.0, -1.0]])
    result = losses.policy_loss(logprobs, torch.zeros(1, 4), mask, advantage, mask)
    result.loss.backward()
    assert (logprobs.grad != 0.0).tolist() == [[True, False, True, False]]
    assert float(result.clipped) == 0.5


def test_no_gradient_goes_through_weights_references_or_advantages() -> None:
    mask = torch.ones(2, 3)
    inputs = [torch.rand(2, 3).requires_grad_() for _ in range(5)]
    logprobs, proximal, logged, advantage, base = inputs
    weights = losses.logger_weights(proximal, logged, mask)
    losses.policy_loss(logprobs, proximal, weights, advantage, mask).loss.backward()
    losses.graded_kto(
        losses.shifts(logprobs, base, mask, 3.0), torch.tensor([True, False]), proximal[:, 0], logged.mean(), 0.1
    ).backward()
    losses.value_loss(logprobs, proximal, advantage, mask).backward()
    assert logprobs.grad is not None
    assert all(one.grad is None for one in inputs[1:])


def test_logger_weights_are_truncated_at_two() -> None:
    proximal = torch.tensor([[0.0, 0.0, 0.0]])
    logged = torch.tensor([[-5.0, 0.0, 1.0]])
    weights = losses.logger_weights(proximal, logged, torch.ones(1, 3))
    assert weights[0].tolist() == pytest.approx([2.0, 1.0, 0.36788], abs=1e-5)


def test_advantages_are_those_of_the_sum_over_later_steps() -> None:
    rewards, values = _drawn(5, 2, 4), _drawn(6, 2, 4)
    mask = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.float64)
    result = losses.advantages(rewards, values, mask, gamma=0.9, lam=0.8)
    for row, length in ((0, 4), (1, 2)):
        after = [*values[row, 1:length].tolist(), 0.0]
        steps = [float(rewards[row, t] + 0.9 * after[t] - values[row, t]) for t in range(length)]
        wanted = [sum(0.72 ** (u - t) * steps[u] for u in range(t, length)) for t in range(length)]
        assert result[row, :length].tolist() == pytest.approx(wanted)
    assert result[1, 2:].tolist() == [0.0, 0.0]


def test_the_reward_comes_at_the_last_token_and_leaving_the_base_costs_before_it() -> None:
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    rewards = losses.token_rewards(torch.tensor([[-1.0, -1.0, 0.0]]), torch.tensor([[-2.0, -2.0, 0.0]]), mask,
                                   torch.tensor([0.5]), 0.02)  # fmt: skip
    assert rewards[0].tolist() == pytest.approx([-0.02, 0.5, 0.0])


def test_with_few_ratings_a_value_is_the_mean_reward() -> None:
    values = torch.tensor([1.0])
    assert float(losses.shrunk_values(values, 0.2, 0)) == pytest.approx(0.2)
    assert float(losses.shrunk_values(values, 0.2, 20)) == pytest.approx(0.6)
