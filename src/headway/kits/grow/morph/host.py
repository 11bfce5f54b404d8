"""Hosts that learn: a weak trunk with three slots, for many hosts at once.

The trunk mixes channels at each position and never positions: `h ← h + relu(h·M + b)`, three times, a slot after each,
then the mean over positions and a linear readout. A seed with amplitude a adds `a·δ(h)`: nothing at 0, and the
gradient of the host stays whole at any amplitude. An isolated seed (training) reads a detached `h` and adds
`δ − detach(δ)`: it learns from the host's loss and changes neither the host's output nor its gradient.

Graft "lerp" is a fidelity mode, `(1 − a)·h + a·(detach(h) + δ(detach(h)))`: at 1 nothing upstream learns.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    places: Tensor  # host × SLOTS + slot
    where: Tensor  # the hosts again, on the CPU
    row: Tensor  # [seed, number]: their parameters
    blueprints: Tensor  # [seed]
    facts: Tensor  # [fact, seed, 1, 1, 1]: amplitude, isolated, multiplies, gates
    any_isolated: bool
    all_isolated: bool
    any_multiplies: bool
    any_gates: bool

    def of(self, members: Tensor) -> Group:
        """Some of its seeds, perhaps repeated, for what does not need `hosts`."""
        return replace(
            self,
            row=self.row.index_select(0, members),
            blueprints=self.blueprints.index_select(0, members),
            facts=self.facts.index_select(1, members),
        )


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


class Sight(NamedTuple):
    """`marks` of all slots, here and on the CPU; and on the CPU which seeds learn, and which change the output."""

    marked: Tensor
    known: Tensor
    learns: Tensor
    counts: Tensor


def marks(blueprints: Tensor, styles: Tensor, isolated: Tensor) -> Tensor:
    """What shapes depend on, int [4, host, slot]: kernel (-1: none), isolated, multiplies, gates."""
    return torch.stack([_kernel_of(styles.device)[blueprints], isolated, styles == _MULTIPLY, styles == _GATED])


def groups(
    rows: Tensor, blueprints: Tensor, amplitudes: Tensor, marked: Tensor, live: Tensor, known: Tensor | None = None
) -> list[Group]:
    """The seeds that compute, by slot and kernel; `rows` [host, slot, number], `marked` as `marks` gives it.

    `live` [host, slot] is on the CPU; so is `known`, a copy of `marked` for a caller that has one. Every copy makes a
    GPU wait.
    """
    known = marked.cpu() if known is None else known
    kinds = torch.where(live, known[0], -1)
    found = [
        (slot, kernel, (kinds[:, slot] == number).nonzero()[:, 0])
        for slot in range(SLOTS)
        for number, kernel in enumerate(KERNELS)
    ]
    found = [entry for entry in found if len(entry[2])]
    if not found:
        return []
    sizes = [len(here) for _, _, here in found]
    at = torch.cat([torch.stack([here, here * SLOTS + slot]) for slot, _, here in found], dim=1)
    hosts, places = sent(at, rows.device)
    facts = torch.cat([amplitudes[None], marked[1:].to(rows.dtype)]).view(4, -1).index_select(1, places)
    parts = zip(
        found,
        torch.split(hosts, sizes),
        torch.split(places, sizes),
        torch.split(blueprints.view(-1).index_select(0, places), sizes),
        torch.split(facts[..., None, None, None], sizes, dim=1),
        strict=True,
    )
    made = []
    for (slot, kernel, here), mine, place, blueprint, fact in parts:
        apart, multiplies, gates = known[1:, here, slot].bool()
        shapes = (bool(apart.any()), bool(apart.all()), bool(multiplies.any()), bool(gates.any()))
        row = of_seeds(rows, kernel).index_select(0, place)
        made.append(Group(slot, kernel, mine, place, here, row, blueprint, fact, *shapes))
    return made


def of_seeds(numbers: Tensor, kernel: Kernel) -> Tensor:
    """[host × slot, number]: what seeds of this kernel have in numbers [host, slot, number], as a view."""
    return numbers.view(-1, numbers.shape[-1])[:, : row_size(kernel)]


def sent(numbers: Tensor, device: torch.device) -> Tensor:
    """Numbers of the CPU on a device; the CPU does not wait for what the device has to do before."""
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers.to(device)


@lru_cache(maxsize=8)
def _kernel_of(device: torch.device) -> Tensor:
    """By index of blueprint: its kernel, -1 for none."""
    known = [KERNELS.index(BLUEPRINTS[name].kernel) if name in BLUEPRINTS else -1 for name in NAMES]
    return torch.tensor([*known, -1], device=device)


def _joined(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), dim=dim)


def added(here: Sequence[Group], rows: Sequence[Tensor], facts: Tensor, x: Tensor) -> Tensor:
    """δ of the seeds of one slot in their styles, group after group; x [seed, sample, position, channel]."""
    parts = torch.split(x, [len(row) for row in rows]) if len(rows) > 1 else (x,)
    results = [
        delta(group.kernel, part, row, group.blueprints) for group, row, part in zip(here, rows, parts, strict=True)
    ]
    computed = _joined([result for result, _ in results])
    multiplied, gated = any(group.any_multiplies for group in here), any(group.any_gates for group in here)
    if not (multiplied or gated):
        return computed
    _, _, multiplies, gates = facts
    factor: Tensor = 1 - multiplies - gates
    if multiplied:
        factor = torch.addcmul(factor, multiplies, x)
    if gated:
        weight, bias = _joined([gate for _, gate in results]).view(-1, 2, 1, 1, CHANNELS).unbind(1)
        factor = torch.addcmul(factor, gates, torch.sigmoid(torch.addcmul(bias, weight, x)))
    return computed * factor


def grafted(h: Tensor, here: Sequence[Group], rows: Sequence[Tensor], graft: Graft) -> Tensor:
    """h [host, sample, position, channel] after the seeds of one slot."""
    hosts, facts = _joined([group.hosts for group in here]), _joined([group.facts for group in here], dim=1)
    x, some_isolated = h.index_select(0, hosts), any(group.any_isolated for group in here)
    strength, alone = facts[0], facts[1]
    if graft == "lerp" or all(group.all_isolated for group in here):
        source = x.detach()
    elif some_isolated:
        source = torch.lerp(x, x.detach(), alone)
    else:
        source = x
    computed = added(here, rows, facts, source)
    change = (strength + alone) * computed if some_isolated else strength * computed
    if some_isolated:
        change = change - alone * computed.detach()
    if graft == "lerp":
        change = change + strength * (x.detach() - x)
    return h.index_add(0, hosts, change)


def logits(trunk: Tensor, images: Tensor, seeds: list[Group], rows: list[Tensor], graft: Graft = "residual") -> Tensor:
    """[host, sample, class]; images [host, sample, position, pixel], `rows`: the parameters of each group."""
    count, samples = images.shape[:2]
    embed, embed_bias, *blocks, readout, readout_bias = torch.split(trunk, _BLOCKS, dim=1)
    h = torch.baddbmm(
        embed_bias[:, None], images.reshape(count, samples * POSITIONS, PIXELS), embed.view(count, PIXELS, CHANNELS)
    ).relu_()
    for slot in range(SLOTS):
        h = _mixed(h, blocks[2 * slot], blocks[2 * slot + 1]).view(count, samples, POSITIONS, CHANNELS)
        here = [(group, row) for group, row in zip(seeds, rows, strict=True) if group.slot == slot]
        if here:
            h = grafted(h, [group for group, _ in here], [row for _, row in here], graft)
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
    plan = _plan(seeds, count)
    numbers = [part for step in plan.steps for part in (step.owners, step.rows, *step.members)]
    numbers += [plan.owners, plan.places.flatten()]
    parts = iter(torch.split(sent(torch.cat(numbers), trunk.device), [len(part) for part in numbers]))
    flat = images.reshape(1, samples * POSITIONS, PIXELS).expand(count, -1, -1)
    h = torch.baddbmm(blocks[1][:, None], flat, blocks[0].view(count, PIXELS, CHANNELS)).relu_()
    for slot, step in enumerate(plan.steps):
        own, rows = next(parts), next(parts)
        h = _mixed(h, blocks[2 + 2 * slot].index_select(0, own), blocks[3 + 2 * slot].index_select(0, own))
        if step.here:
            some = [group.of(next(parts)) for group in step.here]
            x = h.index_select(0, rows).view(-1, samples, POSITIONS, CHANNELS)
            facts = _joined([group.facts for group in some], dim=1)
            grown = torch.addcmul(x, facts[0], added(some, [group.row for group in some], facts, x))
            h = torch.cat([h, grown.view(-1, *h.shape[1:])])
    own, places = next(parts), next(parts).view(count, -1)
    pooled = h.view(-1, samples, POSITIONS, CHANNELS).mean(dim=2)
    weight = blocks[-2].index_select(0, own).view(-1, CHANNELS, CLASSES)
    return Ablated(torch.baddbmm(blocks[-1].index_select(0, own)[:, None], pooled, weight), places, own)


class _SlotStep(NamedTuple):
    """What happens at one slot; tensors on the CPU."""

    here: list[Group]
    owners: Tensor  # [row] → host, before the slot
    rows: Tensor  # which rows are repeated with this slot's seed, group after group
    members: list[Tensor]  # which of its group's seeds each of them has


class _AblationPlan(NamedTuple):
    """Which rows `ablations` computes, slot by slot; then the host of each row, and `Ablated.places`."""

    steps: list[_SlotStep]
    owners: Tensor
    places: Tensor


def _plan(seeds: list[Group], count: int) -> _AblationPlan:
    owners, kept = torch.arange(count), torch.zeros(count, dtype=torch.long)
    steps = []
    for slot in range(SLOTS):
        here = [group for group in seeds if group.slot == slot]
        rows, members = _rows_of(here, owners, count)
        steps.append(_SlotStep(here, owners, rows, members))
        kept, owners = torch.cat([kept, kept[rows] | 1 << slot]), torch.cat([owners, owners[rows]])
    return _AblationPlan(steps, owners, _places(owners, kept, count))


def _rows_of(here: list[Group], owners: Tensor, count: int) -> tuple[Tensor, list[Tensor]]:
    """The rows of hosts with a seed in this slot, group after group, and which of its group's seeds each row has."""
    member, number = torch.full((2, count), -1)
    for place, group in enumerate(here):
        member[group.where], number[group.where] = torch.arange(len(group.where)), place
    mine = number[owners]
    rows = torch.argsort(mine, stable=True)[int((mine < 0).sum()) :]
    sizes = torch.bincount(mine[rows], minlength=len(here)).tolist()
    return rows, list(torch.split(member[owners[rows]], sizes)) if here else []


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
