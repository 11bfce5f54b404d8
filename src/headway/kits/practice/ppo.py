"""The PPO core as pure functions of torch tensors of log-probabilities, of any shape.

    loss = surrogate(new, old, advantage, mask, clip=0.2)          # [B], [B, T] summed over factors, or [B, L] tokens
    loss = loss + 0.5 * value_loss(values, returns, old_values, mask, clip=0.2)
    loss = loss - entropy_bonus([logits_of_head, …], [0.01, …], mask)
    stop = divergence(new, old, mask) > 1.5 * target

`mask` has the shape of the log-probabilities (or None); its numbers are weights, and every mean is weighted by
them. Needs the extra `learn`. `objective.py` is the same in numpy with the gradient by hand, for small
networks; a test holds both to the same loss and gradient at 1e-6. It has the formulas and papers.

Not covered: the optimiser, and the advantages (`rollout.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """The mean weighted by the mask; 0 if all weights are 0."""
    if mask is None:
        return values.mean()
    weight = mask.to(values.dtype)
    return (weight * values).sum() / weight.sum().clamp_min(1e-12)


def surrogate(
    new: Tensor,
    old: Tensor,
    advantage: Tensor,
    mask: Tensor | None = None,
    *,
    clip: float = 0.2,
    dual_clip: float | None = None,
) -> Tensor:
    """−mean[min(r·A, clip(r, 1 ± ε)·A)], r = exp(new − old); with `dual_clip` c not below c·A where A < 0."""
    ratio = torch.exp(new - old)
    least = torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)
    if dual_clip is not None:
        least = torch.where(advantage < 0.0, torch.maximum(least, dual_clip * advantage), least)
    return -masked_mean(least, mask)


def value_loss(
    values: Tensor, returns: Tensor, old: Tensor | None = None, mask: Tensor | None = None, *, clip: float | None = None
) -> Tensor:
    """½·mean[max((v − R)², (v_old + clip(v − v_old, ±ε) − R)²)]; without `clip` plain squared error."""
    error = (values - returns).square()
    if clip is not None and old is not None:
        held = old + (values - old).clamp(-clip, clip)
        error = torch.maximum(error, (held - returns).square())
    return 0.5 * masked_mean(error, mask)


def divergence(new: Tensor, old: Tensor, mask: Tensor | None = None) -> Tensor:
    """mean[(r − 1) − log r], an estimate of KL(old ‖ new) whose terms cannot be negative."""
    log = new - old
    return masked_mean(torch.exp(log) - 1.0 - log, mask)


def clip_fraction(new: Tensor, old: Tensor, mask: Tensor | None = None, *, clip: float = 0.2) -> Tensor:
    """The share of ratios outside the clip range."""
    return masked_mean(((torch.exp(new - old) - 1.0).abs() > clip).to(new.dtype), mask)


def categorical(logits: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Log-probabilities over the last axis; an action that is not allowed is practically impossible, and finite."""
    if allowed is not None:
        logits = torch.where(allowed, logits, torch.full_like(logits, -1e9))
    return torch.log_softmax(logits, dim=-1)


def entropy_of(log: Tensor) -> Tensor:
    """−Σ p·log p over the last axis of log-probabilities."""
    return -(log.exp() * log).sum(dim=-1)


def entropy_bonus(logs: Sequence[Tensor], weights: Sequence[float], mask: Tensor | None = None) -> Tensor:
    """Σ_head weight · mean entropy, from each head's log-probabilities [B, …, choice]."""
    parts = [weight * masked_mean(entropy_of(log), mask) for log, weight in zip(logs, weights, strict=True)]
    return torch.stack(parts).sum()


def gaussian(means: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """The log density of an action, summed over its numbers: [B, …] of [B, …, number]."""
    z = (action - means) * torch.exp(-log_std)
    return -0.5 * z.square().sum(dim=-1) - log_std.sum(dim=-1) - 0.5 * math.log(2.0 * math.pi) * means.shape[-1]
