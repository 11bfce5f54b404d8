"""One epoch of many hosts: a few minibatches, Adam for trunks and seeds, every row of numbers on its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.kits.grow.morph.blueprints import Kernel
from headway.kits.grow.morph.data import Split
from headway.kits.grow.morph.host import Graft, Group, cross_entropy, logits, of_seeds
from headway.kits.grow.morph.recording import recorded
from headway.kits.grow.morph.state import HostRows

__all__ = ["EpochResult", "Moments", "learn", "put_back", "seed_moments", "trunk_moments"]

_BETA1, _BETA2, _TINY = 0.9, 0.99, 1e-8


@dataclass(slots=True)
class Moments:
    """Adam's memory of one block of rows: [row, number] twice, and how many updates each row has had."""

    mean: Tensor
    square: Tensor
    updates: Tensor


def trunk_moments(hosts: HostRows) -> Moments:
    """Adam's memory of trunks."""
    return Moments(hosts.trunk_mean, hosts.trunk_square, hosts.trunk_updates)


def seed_moments(hosts: HostRows, seeds: list[Group]) -> list[Moments]:
    """Adam's memory of every group of seeds: copies."""
    if not seeds:
        return []
    places = torch.cat([group.places for group in seeds])
    chosen = hosts.seeds_updates.view(-1).index_select(0, places)
    updates = torch.split(chosen, [len(group.places) for group in seeds])
    return [
        Moments(
            of_seeds(hosts.seeds_mean, group.kernel).index_select(0, group.places),
            of_seeds(hosts.seeds_square, group.kernel).index_select(0, group.places),
            done,
        )
        for group, done in zip(seeds, updates, strict=True)
    ]


def put_back(hosts: HostRows, seeds: list[Group], moments: list[Moments]) -> None:
    """What seeds learned, in its place."""
    for group, memory in zip(seeds, moments, strict=True):
        of_seeds(hosts.seeds, group.kernel).index_copy_(0, group.places, group.row)
        of_seeds(hosts.seeds_mean, group.kernel).index_copy_(0, group.places, memory.mean)
        of_seeds(hosts.seeds_square, group.kernel).index_copy_(0, group.places, memory.square)
    places = torch.cat([group.places for group in seeds])
    hosts.seeds_updates.view(-1).index_copy_(0, places, torch.cat([memory.updates for memory in moments]))


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What an epoch showed: mean loss and accuracy per host, and norms of the last gradients of each group's seeds."""

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
    """Train trunks and seeds in place on minibatches `batches` [batch, host, sample] of images.

    On a GPU the minibatches after the first are replays of one recording: hundreds of small operations each, which the
    CPU could not issue fast enough.
    """
    rows = [group.row for group in seeds]
    blocks, memory = [trunk, *rows], [trunk_moments, *moments]
    batch, totals = batches[0].clone(), torch.zeros(2, len(trunk), device=trunk.device)
    sizes = [len(row) for row in rows]
    norms = list(torch.split(torch.zeros(sum(sizes), device=trunk.device), sizes))

    def once() -> None:
        for block in blocks:
            block.requires_grad_(True)
        scores = logits(trunk, split.images[batch], seeds, rows, graft)
        labels = split.labels[tasks[:, None], batch]
        loss = cross_entropy(scores, labels)
        grads = torch.autograd.grad(loss.sum(), blocks)
        for block in blocks:
            block.requires_grad_(False)
        right = (scores.detach().argmax(dim=2) == labels).float().mean(dim=1)
        totals.add_(torch.stack([loss.detach(), right]))
        for norm, grad in zip(norms, grads[1:], strict=True):
            torch.linalg.vector_norm(grad, dim=1, out=norm)
        _adam(blocks, list(grads), memory, rate)

    again = recorded(once) if trunk.is_cuda and len(batches) > 1 and _known({group.kernel for group in seeds}) else once
    for drawn in batches:
        batch.copy_(drawn)
        again()
    loss, right = totals / len(batches)
    return EpochResult(loss, right, norms)


_USED: set[str] = set()


def _known(kernels: set[Kernel]) -> bool:
    """Whether all of these have run before: what runs for the first time makes constants, and cannot be recorded."""
    before = kernels <= _USED and bool(_USED)
    _USED.update(kernels)
    return before


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
