"""Hosts that learn: a weak trunk with three slots, for many hosts at once.

The trunk mixes channels at each position and never positions: `h ← h + relu(h·M + b)`, three times, a slot after each,
then the mean over positions and a linear readout. A seed with amplitude a adds `a·δ(h)`: nothing at 0, and the
gradient of the host stays whole at any amplitude. An isolated seed (training) reads a detached `h` and adds
`δ − detach(δ)`: it learns from the host's loss and changes neither the host's output nor its gradient.

Graft "lerp" is a fidelity mode, `(1 − a)·h + a·(detach(h) + δ(detach(h)))`: at 1 nothing upstream learns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from headway.kits.grow.morph.blueprints import BLUEPRINTS, CHANNELS, KERNELS, NAMES, POSITIONS, SLOTS, Kernel
from headway.kits.grow.morph.data import CLASSES, PIXELS
from headway.kits.grow.morph.kernels import delta, row_size

__all__ = [
    "TRUNK",
    "Ablated",
    "Graft",
    "Group",
    "ablations",
    "amplitude",
    "cross_entropy",
    "fresh_trunk",
    "graded",
    "groups",
    "logits",
]

Graft = Literal["residual", "lerp"]
_MULTIPLY, _SIGMOID, _GATED = 1, 2, 3
_STEEP = 8.0  # of SIGMOID_ADD's amplitude over alpha
_BLOCKS = [PIXELS * CHANNELS, CHANNELS, *(CHANNELS**2, CHANNELS) * SLOTS, CHANNELS * CLASSES, CLASSES]
TRUNK = sum(_BLOCKS)  # parameters of a host without seeds


@dataclass(frozen=True, slots=True)
class Group:
    """Seeds of one kernel in one slot."""

    slot: int
    kernel: Kernel
    hosts: Tensor  # their rows
    where: Tensor  # the same rows, on the CPU
    row: Tensor  # [seed, number]: their parameters
    blueprints: Tensor  # [seed]
    facts: Tensor  # [fact, seed, 1, 1, 1]: amplitude, isolated, multiplies, gates
    any_isolated: bool
    all_isolated: bool
    any_multiplies: bool
    any_gates: bool

    def of(self, members: Tensor) -> Group:
        """Some of its seeds, perhaps repeated, for what does not need `hosts`."""
        return replace(self, row=self.row[members], blueprints=self.blueprints[members], facts=self.facts[:, members])


class Ablated(NamedTuple):
    """What hosts answer with every subset of their seeds."""

    scores: Tensor  # [row, sample, class]
    places: Tensor  # [host, subset] → row
    owners: Tensor  # [row] → host


def fresh_trunk(count: int, generator: torch.Generator) -> Tensor:
    """Parameters of new hosts [host, number]."""
    blocks = []
    for number, size in enumerate(_BLOCKS):
        drawn = torch.randn(count, size, generator=generator, device=generator.device)
        spread = (2 / PIXELS) ** 0.5 if number == 0 else (1 / CHANNELS) ** 0.5
        blocks.append(drawn * spread if number % 2 == 0 else torch.zeros_like(drawn))
    return torch.cat(blocks, dim=1)


def amplitude(alphas: Tensor, styles: Tensor) -> Tensor:
    """How much of δ is added at this alpha: alpha itself, or a steep curve from 0 to 1 in the style SIGMOID_ADD."""
    low = 1 / (1 + exp(_STEEP / 2))
    curve = (torch.sigmoid(_STEEP * (alphas - 0.5)) - low) / (1 - 2 * low)
    return torch.where(styles == _SIGMOID, curve, alphas)


def groups(
    rows: Tensor, blueprints: Tensor, styles: Tensor, amplitudes: Tensor, isolated: Tensor, live: Tensor
) -> list[Group]:
    """The seeds that compute, by slot and kernel; `rows` [host, slot, number], the others [host, slot]."""
    kinds = torch.where(live, _kernel_of(rows.device)[blueprints], -1)
    marks = torch.stack([isolated, styles == _MULTIPLY, styles == _GATED])
    # One transfer each way for all decisions about shapes: every further one would make a GPU wait.
    known = torch.cat([kinds[None], marks.long()]).cpu()
    facts = torch.cat([amplitudes[None], marks.to(rows.dtype)])[..., None, None, None]
    found = [
        (slot, kernel, (known[0, :, slot] == number).nonzero()[:, 0])
        for slot in range(SLOTS)
        for number, kernel in enumerate(KERNELS)
    ]
    found = [entry for entry in found if len(entry[2])]
    if not found:
        return []
    sent = torch.split(torch.cat([here for _, _, here in found]).to(rows.device), [len(here) for _, _, here in found])
    made = []
    for (slot, kernel, here), hosts in zip(found, sent, strict=True):
        apart, multiplies, gates = known[1:, here, slot].bool()
        row = rows[hosts, slot, : row_size(kernel)]
        some, all_ = bool(apart.any()), bool(apart.all())
        numbers = (row, blueprints[hosts, slot], facts[:, hosts, slot])
        shapes = (some, all_, bool(multiplies.any()), bool(gates.any()))
        made.append(Group(slot, kernel, hosts, here, *numbers, *shapes))
    return made


@lru_cache(maxsize=8)
def _kernel_of(device: torch.device) -> Tensor:
    """By index of blueprint: its kernel, -1 for none."""
    known = [KERNELS.index(BLUEPRINTS[name].kernel) if name in BLUEPRINTS else -1 for name in NAMES]
    return torch.tensor([*known, -1], device=device)


def added(group: Group, row: Tensor, x: Tensor) -> Tensor:
    """δ of a group's seeds in their styles; x [seed, sample, position, channel]."""
    computed, gate = delta(group.kernel, x, row, group.blueprints)
    if not (group.any_multiplies or group.any_gates):
        return computed
    _, _, multiplies, gates = group.facts
    factor: Tensor = 1 - multiplies - gates
    if group.any_multiplies:
        factor = torch.addcmul(factor, multiplies, x)
    if group.any_gates:
        weight, bias = gate.view(-1, 2, 1, 1, CHANNELS).unbind(1)
        factor = torch.addcmul(factor, gates, torch.sigmoid(torch.addcmul(bias, weight, x)))
    return computed * factor


def grafted(h: Tensor, group: Group, row: Tensor, graft: Graft) -> Tensor:
    """h [host, sample, position, channel] after the seeds of one group."""
    x = h[group.hosts]
    strength, alone = group.facts[0], group.facts[1]
    if graft == "lerp" or group.all_isolated:
        source = x.detach()
    elif group.any_isolated:
        source = torch.lerp(x, x.detach(), alone)
    else:
        source = x
    computed = added(group, row, source)
    change = (strength + alone) * computed if group.any_isolated else strength * computed
    if group.any_isolated:
        change = change - alone * computed.detach()
    if graft == "lerp":
        change = change + strength * (x.detach() - x)
    return h.index_add(0, group.hosts, change)


def logits(trunk: Tensor, images: Tensor, seeds: list[Group], rows: list[Tensor], graft: Graft = "residual") -> Tensor:
    """[host, sample, class]; images [host, sample, position, pixel], `rows`: the parameters of each group."""
    count, samples = images.shape[:2]
    embed, embed_bias, *blocks, readout, readout_bias = torch.split(trunk, _BLOCKS, dim=1)
    h = torch.baddbmm(
        embed_bias[:, None], images.reshape(count, samples * POSITIONS, PIXELS), embed.view(count, PIXELS, CHANNELS)
    ).relu_()
    for slot in range(SLOTS):
        h = _mixed(h, blocks[2 * slot], blocks[2 * slot + 1]).view(count, samples, POSITIONS, CHANNELS)
        for group, row in zip(seeds, rows, strict=True):
            if group.slot == slot:
                h = grafted(h, group, row, graft)
        h = h.view(count, samples * POSITIONS, CHANNELS)
    pooled = h.view(count, samples, POSITIONS, CHANNELS).mean(dim=2)
    return torch.baddbmm(readout_bias[:, None], pooled, readout.view(count, CHANNELS, CLASSES))


def _mixed(h: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """One block of the trunk; h [host, sample × position, channel]."""
    change = torch.baddbmm(bias[:, None], h, matrix.view(-1, CHANNELS, CHANNELS)).relu_()
    return h + change if torch.is_grad_enabled() else change.add_(h)


def ablations(trunk: Tensor, images: Tensor, seeds: list[Group]) -> Ablated:
    """Logits with every subset of the seeds that change the output, and where each subset lies.

    Bit `slot` of a subset keeps that slot's seed. A host with n such seeds has 2ⁿ rows; rows share what lies before the
    first slot in which they differ. The images [sample, position, pixel] are the same for all hosts.
    """
    count, samples = len(trunk), len(images)
    blocks = torch.split(trunk, _BLOCKS, dim=1)
    owners, kept = torch.arange(count), torch.zeros(count, dtype=torch.long)
    flat = images.reshape(1, samples * POSITIONS, PIXELS).expand(count, -1, -1)
    h = torch.baddbmm(blocks[1][:, None], flat, blocks[0].view(count, PIXELS, CHANNELS)).relu_()
    for slot in range(SLOTS):
        here = [group for group in seeds if group.slot == slot]
        plans = [_rows_of(group, owners, count) for group in here]
        sent = torch.cat([owners, *(part for plan in plans for part in plan)]).to(trunk.device)
        own, *parts = torch.split(sent, [len(owners), *(len(part) for plan in plans for part in plan)])
        h = _mixed(h, blocks[2 + 2 * slot][own], blocks[3 + 2 * slot][own])
        grown = [h]
        for group, rows, members in zip(here, parts[::2], parts[1::2], strict=True):
            x, some = h[rows].view(-1, samples, POSITIONS, CHANNELS), group.of(members)
            grown.append(torch.addcmul(x, some.facts[0], added(some, some.row, x)).view(-1, *h.shape[1:]))
        if here:
            kept = torch.cat([kept, *(kept[rows] | 1 << slot for rows, _ in plans)])
            owners = torch.cat([owners, *(owners[rows] for rows, _ in plans)])
            h = torch.cat(grown)
    own = owners.to(trunk.device)
    pooled = h.view(-1, samples, POSITIONS, CHANNELS).mean(dim=2)
    scores = torch.baddbmm(blocks[-1][own][:, None], pooled, blocks[-2][own].view(-1, CHANNELS, CLASSES))
    return Ablated(scores, _places(owners, kept, count).to(trunk.device), own)


def _rows_of(group: Group, owners: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The rows of hosts in this group, and which of its seeds each has; all on the CPU."""
    place = torch.full((count,), -1).index_copy_(0, group.where, torch.arange(len(group.where)))
    rows = (place[owners] >= 0).nonzero()[:, 0]
    return rows, place[owners[rows]]


def _places(owners: Tensor, kept: Tensor, count: int) -> Tensor:
    """[host, subset] → row: a subset that differs only in slots without a seed has the same row."""
    used = torch.zeros(count, dtype=torch.long)
    for slot in range(SLOTS):
        used[owners[(kept >> slot & 1).bool()]] |= 1 << slot
    rows = torch.zeros(count, 1 << SLOTS, dtype=torch.long)
    rows[owners, kept] = torch.arange(len(owners))
    return rows.gather(1, torch.arange(1 << SLOTS)[None] & used[:, None])


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """Mean loss per host; scores [host, sample, class], labels [host, sample]."""
    flat = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
    return flat.view(labels.shape).mean(dim=1)


def graded(ablated: Ablated, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(accuracy of every subset [host, subset], loss and accuracy with all seeds [host])."""
    right = (ablated.scores.argmax(dim=2) == labels[ablated.owners]).float().mean(dim=1)
    subsets = right[ablated.places]
    loss = cross_entropy(ablated.scores[ablated.places[:, -1]], labels)
    return subsets, loss, subsets[:, -1]
