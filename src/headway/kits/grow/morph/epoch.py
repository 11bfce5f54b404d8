"""One epoch of many hosts: a few minibatches, Adam for trunks and seeds, every row of numbers on its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.kits.grow.morph.data import Split
from headway.kits.grow.morph.host import Graft, Group, cross_entropy, logits

__all__ = ["EpochResult", "Moments", "learn"]

_BETA1, _BETA2, _TINY = 0.9, 0.99, 1e-8


@dataclass(slots=True)
class Moments:
    """Adam's memory of one block of rows: [row, number] twice, and how many updates each row has had."""

    mean: Tensor
    square: Tensor
    updates: Tensor


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What an epoch showed: mean loss and accuracy per host, and norms of the last gradients of each group."""

    loss: Tensor
    accuracy: Tensor
    norms: list[Tensor]


@torch.enable_grad()  # a caller may act without gradients
def learn(
    trunk: Tensor,
    trunk_moments: Moments,
    seeds: list[Group],
    moments: list[Moments],
    split: Split,
    tasks: Tensor,
    batches: Tensor,
    *,
    rate: float,
    graft: Graft = "residual",
) -> EpochResult:
    """Train trunks and seeds in place on minibatches `batches` [batch, host, sample] of images."""
    rows = [group.row for group in seeds]
    blocks, memory = [trunk, *rows], [trunk_moments, *moments]
    losses, right = [], []
    grads: tuple[Tensor, ...] = ()
    for batch in batches:
        for block in blocks:
            block.requires_grad_(True)
        scores = logits(trunk, split.images[batch], seeds, rows, graft)
        labels = split.labels[tasks[:, None], batch]
        loss = cross_entropy(scores, labels)
        grads = torch.autograd.grad(loss.sum(), blocks)
        losses.append(loss.detach())
        right.append((scores.detach().argmax(dim=2) == labels).float().mean(dim=1))
        for block in blocks:
            block.requires_grad_(False)
        _adam(blocks, list(grads), memory, rate)
    norms = [grad.norm(dim=1) for grad in grads[1:]]
    return EpochResult(torch.stack(losses).mean(dim=0), torch.stack(right).mean(dim=0), norms)


def _adam(blocks: list[Tensor], grads: list[Tensor], memory: list[Moments], rate: float) -> None:
    """Kingma and Ba (2015), with bias correction by each row's own number of updates."""
    means, squares = [one.mean for one in memory], [one.square for one in memory]
    torch._foreach_lerp_(means, grads, 1 - _BETA1)
    torch._foreach_mul_(squares, _BETA2)
    torch._foreach_addcmul_(squares, grads, grads, 1 - _BETA2)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, _TINY)
    updates = [one.updates for one in memory]
    torch._foreach_add_(updates, 1)
    together = torch.cat(updates)
    steps = -rate * torch.sqrt(1 - _BETA2**together) / (1 - _BETA1**together)
    sizes = torch.split(steps[:, None], [len(one) for one in updates])
    torch._foreach_addcdiv_(blocks, torch._foreach_mul(means, sizes), roots)
