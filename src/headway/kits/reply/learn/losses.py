"""The losses, as pure functions of log-probabilities.

Symbols: μ is the policy that wrote a reply (stored log-probabilities), π_k the proximal policy (refreshed every epoch),
π the current one, π_0 the base. A row is a reply; `mask` is 1 on its tokens, [row, token]. Weights, ratios to the
logger, references and advantages are constants: no gradient goes through them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

CLIP = (0.8, 1.28)
DUAL_CLIP = 3.0
_MOST_ADVANTAGE = 2.0
_MOST_WEIGHT = 2.0


def likelihood(logprobs: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """The negative log-likelihood per token of replies, weighted by row; 0 if no row has a weight."""
    per_row = -(logprobs * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
    return (per_row * weights.detach()).sum() / len(per_row)


def shifts(logprobs: Tensor, base: Tensor, mask: Tensor, mean_length: float) -> Tensor:
    """s per row: Σ(log π − log π_0), scaled by √(mean length / length), so that length alone is no reason."""
    length = mask.sum(-1).clamp(min=1.0)
    return ((logprobs - base.detach()) * mask).sum(-1) * (mean_length / length).sqrt()


def graded_kto(shift: Tensor, desirable: Tensor, weights: Tensor, reference: float | Tensor, beta: float) -> Tensor:
    """Desirable replies above the reference z, others below it; saturates on both sides, so it is bounded by weight.

    `desirable` is bool per row. The gradient by s is at most β·weight/4.
    """
    reference = torch.as_tensor(reference, dtype=shift.dtype, device=shift.device).detach()
    sign = torch.where(desirable, 1.0, -1.0)
    return (weights.detach() * (1.0 - torch.sigmoid(beta * sign * (shift - reference)))).mean()


def pairs(better: Tensor, worse: Tensor, weights: Tensor, beta: float) -> Tensor:
    """Two replies to one prompt, rated apart: −log σ(β(s_better − s_worse))."""
    return (weights.detach() * -functional.logsigmoid(beta * (better - worse))).mean()


def anchor_kl(logits: Tensor, base_logprobs: Tensor) -> Tensor:
    """KL(π_0 ‖ π) in nats per token over the whole vocabulary, [position, vocabulary]."""
    base = base_logprobs.detach().to(logits.dtype)
    return (base.exp() * (base - logits.log_softmax(-1))).sum(-1).mean()


# -- PPO on logged replies


def token_rewards(proximal: Tensor, base: Tensor, mask: Tensor, rewards: Tensor, penalty: float) -> Tensor:
    """−b·(log π_k − log π_0) before the last token, and the reward of the reply at it, [row, token]."""
    last = mask * (mask.flip(-1).cumsum(-1).flip(-1) == 1.0)
    drift = -penalty * (proximal - base) * mask * (1.0 - last)
    return (drift + last * rewards[:, None]).detach()


def shrunk_values(values: Tensor, mean: float, ratings: int) -> Tensor:
    """(N·V + 20·m)/(N + 20): with few ratings the value is the mean reward."""
    return (ratings * values + 20.0 * mean) / (ratings + 20.0)


def advantages(rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 0.95) -> Tensor:
    """GAE, [row, token]; not scaled. Padding has 0."""
    rewards, values = rewards.detach() * mask, values.detach() * mask
    following = torch.zeros_like(values[:, 0])
    total = torch.zeros_like(following)
    columns = []
    for place in range(values.shape[1] - 1, -1, -1):
        inside = mask[:, place]
        step = rewards[:, place] + gamma * following - values[:, place]
        total = (step + gamma * lam * total) * inside
        following = torch.where(inside > 0, values[:, place], following)
        columns.append(total)
    return torch.stack(columns[::-1], 1)


def scaled(raw: Tensor, deviation: float) -> Tensor:
    """Advantages over the deviation of the whole data set, at most ±2."""
    return (raw / max(deviation, 1e-6)).clamp(-_MOST_ADVANTAGE, _MOST_ADVANTAGE)


def logger_weights(proximal: Tensor, logged: Tensor, mask: Tensor) -> Tensor:
    """min(2, π_k/μ) per token, without a gradient."""
    return ((proximal - logged).detach().exp().clamp(max=_MOST_WEIGHT)) * mask


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """The policy's loss, and what its clipping did."""

    loss: Tensor
    ratio: Tensor  # π/π_k, [row, token]
    clipped: Tensor  # the share of tokens without a gradient


def policy_loss(
    logprobs: Tensor,
    proximal: Tensor,
    weights: Tensor,
    advantage: Tensor,
    mask: Tensor,
    clip: tuple[float, float] = CLIP,
) -> PolicyLoss:
    """PPO with an asymmetric clip, and a second one at 3 for negative advantages, so that a bad reply is bounded."""
    advantage, weights = advantage.detach(), weights.detach()
    ratio = (logprobs - proximal.detach()).exp()
    plain, cut = ratio * advantage, ratio.clamp(*clip) * advantage
    gain = torch.minimum(plain, cut)
    gain = torch.where(advantage < 0.0, torch.maximum(gain, DUAL_CLIP * advantage), gain)
    tokens = mask.sum().clamp(min=1.0)
    still = ((gain.detach() != plain.detach()) * mask).sum() / tokens
    return PolicyLoss(-(gain * weights * mask).sum() / tokens, ratio.detach(), still)


def value_loss(values: Tensor, before: Tensor, returns: Tensor, mask: Tensor, clip: float = 0.2) -> Tensor:
    """Half the squared error, by the worse of the value and the value that moved at most `clip`."""
    returns, before = returns.detach(), before.detach()
    near = before + (values - before).clamp(-clip, clip)
    error = torch.maximum((values - returns).square(), (near - returns).square())
    return 0.5 * (error * mask).sum() / mask.sum().clamp(min=1.0)
