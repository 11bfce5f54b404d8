"""One epoch of many hosts: a few minibatches, Adam for trunks and seeds, every row of numbers on its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.kits.grow.morph.data import Split
from headway.kits.grow.morph.host import Graft, Group, cross_entropy, logits, of_seeds
from headway.kits.grow.morph.state import HostRows

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


class Minibatches:
    """Minibatches of trunks and seeds over tensors that stay where they are: all are changed in place.

    `once` learns from the images `batch` [host, sample]; `totals` adds up loss and accuracy [2, host], `norms` are
    those of the last gradients of each group's seeds.
    """

    def __init__(
        self,
        trunk: Tensor,
        trunk_moments: Moments,
        seeds: list[Group],
        moments: list[Moments],
        split: Split,
        tasks: Tensor,
        batch: Tensor,
        *,
        rate: float,
        graft: Graft = "residual",
    ) -> None:
        self.rows = [group.row for group in seeds]
        self.blocks, self.memory = [trunk, *self.rows], [trunk_moments, *moments]
        self.seeds, self.split, self.tasks, self.rate, self.graft = seeds, split, tasks, rate, graft
        self.batch, self.totals = batch, torch.zeros(2, len(trunk), device=trunk.device)
        sizes = [len(row) for row in self.rows]
        self.norms = list(torch.split(torch.zeros(sum(sizes), device=trunk.device), sizes))

    @torch.enable_grad()  # a caller may act without gradients
    def once(self) -> None:
        """Learn from one minibatch."""
        for block in self.blocks:
            block.requires_grad_(True)
        scores = logits(self.blocks[0], self.split.images[self.batch], self.seeds, self.rows, self.graft)
        labels = self.split.labels[self.tasks[:, None], self.batch]
        loss = cross_entropy(scores, labels)
        grads = torch.autograd.grad(loss.sum(), self.blocks)
        for block in self.blocks:
            block.requires_grad_(False)
        right = (scores.detach().argmax(dim=2) == labels).float().mean(dim=1)
        self.totals.add_(torch.stack([loss.detach(), right]))
        for norm, grad in zip(self.norms, grads[1:], strict=True):
            torch.linalg.vector_norm(grad, dim=1, out=norm)
        _adam(self.blocks, list(grads), self.memory, self.rate)


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
    batch = torch.empty_like(batches[0])
    one = Minibatches(trunk, trunk_moments, seeds, moments, split, tasks, batch, rate=rate, graft=graft)
    for drawn in batches:
        batch.copy_(drawn)
        one.once()
    loss, right = one.totals / len(batches)
    return EpochResult(loss, right, one.norms)


def learn_hosts(
    hosts: HostRows, seeds: list[Group], split: Split, batches: Tensor, *, rate: float, graft: Graft = "residual"
) -> tuple[EpochResult, Tensor]:
    """Train hosts with these seeds in place; also the norms of the seeds' last gradients [host, slot]."""
    moments = seed_moments(hosts, seeds)
    given = (split, hosts.tasks, batches)
    result = learn(hosts.trunk, trunk_moments(hosts), seeds, moments, *given, rate=rate, graft=graft)
    gradient = torch.zeros_like(hosts.seeds_updates)
    if seeds:
        put_back(hosts, seeds, moments)
        places = torch.cat([group.places for group in seeds])
        gradient.view(-1).index_copy_(0, places, torch.cat(result.norms))
    return result, gradient


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
