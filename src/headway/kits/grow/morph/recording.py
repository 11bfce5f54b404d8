"""The epochs of hosts on a GPU: recorded once (a CUDA graph), and replayed in many epochs.

    epochs = RecordedEpochs()
    result = epochs.learn(hosts, sight, blueprints, strengths, split, batches, rate=0.02)

A minibatch is hundreds of small operations, which a CPU issues more slowly than a GPU does them. A recording needs
tensors that stay where they are and keep their sizes; so seeds are copied into blocks, one for each kernel in each
slot, that have room for more than there are now. The rest of a block are seeds of zeros: they compute zeros, have no
gradient and stay zeros, so nothing that a host computes changes. A block that is too small is made anew, larger.

On a CPU the same work is done without a recording; `epoch.learn` is faster there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.kits.grow.morph.blueprints import KERNELS, SLOTS, Kernel
from headway.kits.grow.morph.data import Split
from headway.kits.grow.morph.epoch import EpochResult, Minibatches, Moments
from headway.kits.grow.morph.host import Graft, Group, Sight, of_seeds, sent
from headway.kits.grow.morph.kernels import row_size
from headway.kits.grow.morph.state import HostRows

_SPARE, _STEP = 1.25, 16  # a block has room for this many times its seeds, in steps of this many
_LOOSE = 2.0  # blocks are made anew when they have room for this many times all seeds


@dataclass(slots=True)
class _Block:
    """Seeds of one kernel in one slot, with their moments; the rows after the first `used` are zeros."""

    slot: int
    kernel: Kernel
    begin: int  # in what all blocks share
    room: int
    row: Tensor
    moments: Moments
    used: int = 0
    places: Tensor | None = None  # of the seeds in use: host × SLOTS + slot

    def fill(self, hosts: HostRows, places: Tensor) -> None:
        """Take over the seeds at these places."""
        self.places, self.used = places, len(places)
        pairs = (
            (hosts.seeds, self.row), (hosts.seeds_mean, self.moments.mean), (hosts.seeds_square, self.moments.square),
        )  # fmt: skip
        for source, target in pairs:
            if self.used:
                torch.index_select(of_seeds(source, self.kernel), 0, places, out=target[: self.used])
            if self.used < self.room:
                target[self.used :].zero_()

    def put_back(self, hosts: HostRows) -> None:
        """What its seeds learned, in its place."""
        if self.places is None or not self.used:
            return
        pairs = (
            (hosts.seeds, self.row), (hosts.seeds_mean, self.moments.mean), (hosts.seeds_square, self.moments.square),
        )  # fmt: skip
        for target, source in pairs:
            of_seeds(target, self.kernel).index_copy_(0, self.places, source[: self.used])


class RecordedEpochs:
    """Trains the hosts of one world, epoch after epoch; `rooms` says how many seeds its blocks have room for."""

    def __init__(self) -> None:
        self.rooms: dict[tuple[int, int], int] = {}  # (slot, kernel) → seeds
        self._blocks: list[_Block] = []
        self._work: Minibatches | None = None
        self._replay: Callable[[], None] | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._pool: Any = None  # what recordings share
        self._warm = False  # what runs for the first time makes constants, and cannot be recorded

    def learn(
        self,
        hosts: HostRows,
        sight: Sight,
        blueprints: Tensor,
        strengths: Tensor,
        split: Split,
        batches: Tensor,
        *,
        rate: float,
        graft: Graft = "residual",
    ) -> tuple[EpochResult, Tensor]:
        """Train trunks and seeds in place; also the norms of the seeds' last gradients [host, slot]."""
        count, device = len(hosts.trunk), hosts.trunk.device
        kinds = torch.where(sight.learns, sight.known[0], -1)
        found = {
            (slot, number): (kinds[:, slot] == number).nonzero()[:, 0]
            for slot in range(SLOTS)
            for number in range(len(KERNELS))
        }
        sizes = {key: len(here) for key, here in found.items()}
        if self._work is None or self._work.blocks[0].shape[0] != count or not _fits(sizes, self.rooms):
            self.rooms = {key: _room(size) for key, size in sizes.items()}
            self._make(hosts, split, batches[0], rate, graft)
        assert self._work is not None
        work = self._work
        self._fill(hosts, found, sight, blueprints, strengths, device)
        work.totals.zero_()
        for drawn in batches:
            work.batch.copy_(drawn)
            if self._replay is None and device.type == "cuda" and self._warm:
                self._record()
            (self._replay or work.once)()
        self._warm = True
        return self._results(hosts, len(batches))

    def _make(self, hosts: HostRows, split: Split, batch: Tensor, rate: float, graft: Graft) -> None:
        """Blocks with these rooms, and nothing recorded."""
        self._replay = None  # the old recording stays until there is a new one: they share their memory
        device, total = hosts.trunk.device, sum(self.rooms.values())
        self._hosts = torch.zeros(total, dtype=torch.long, device=device)
        self._blueprints = torch.zeros(total, dtype=torch.long, device=device)
        self._facts = torch.zeros(4, total, 1, 1, 1, device=device)
        self._updates = torch.zeros(total, device=device)
        self._blocks, groups, begin = [], [], 0
        for (slot, number), room in self.rooms.items():
            kernel, part = KERNELS[number], slice(begin, begin + room)
            width = row_size(kernel)
            row, mean, square = (torch.zeros(room, width, device=device) for _ in range(3))
            block = _Block(slot, kernel, begin, room, row, Moments(mean, square, self._updates[part]))
            self._blocks.append(block)
            groups.append(
                Group(
                    slot, kernel, self._hosts[part], self._hosts[part], self._hosts[:0], row, self._blueprints[part],
                    self._facts[:, part], any_isolated=True, all_isolated=False, any_multiplies=True, any_gates=True,
                )
            )  # fmt: skip
            begin += room
        trunk = hosts.trunk.clone()
        moments = Moments(hosts.trunk_mean.clone(), hosts.trunk_square.clone(), hosts.trunk_updates.clone())
        self._tasks = hosts.tasks.clone()
        of_blocks = [block.moments for block in self._blocks]
        self._work = Minibatches(
            trunk, moments, groups, of_blocks, split, self._tasks, batch.clone(), rate=rate, graft=graft
        )

    def _fill(
        self,
        hosts: HostRows,
        found: dict[tuple[int, int], Tensor],
        sight: Sight,
        blueprints: Tensor,
        strengths: Tensor,
        device: torch.device,
    ) -> None:
        assert self._work is not None
        trunk, memory = self._work.blocks[0], self._work.memory[0]
        for target, source in (
            (trunk, hosts.trunk), (memory.mean, hosts.trunk_mean), (memory.square, hosts.trunk_square),
            (memory.updates, hosts.trunk_updates), (self._tasks, hosts.tasks),
        ):  # fmt: skip
            target.copy_(source)
        # The seeds of zeros are spread over the hosts, so that none is in the way of many.
        at, real = torch.arange(len(self._hosts)) % len(trunk), torch.zeros(len(self._hosts), dtype=torch.long)
        slots = torch.zeros_like(at)
        for block, here in zip(self._blocks, found.values(), strict=True):
            used = slice(block.begin, block.begin + len(here))
            at[used], real[used] = here, 1
            slots[block.begin : block.begin + block.room] = block.slot
        chosen, places, counts = sent(torch.stack([at, at * SLOTS + slots, real]), device)
        self._hosts.copy_(chosen)
        self._blueprints.copy_(blueprints.reshape(-1).index_select(0, places) * counts)
        facts = torch.cat([strengths[None], sight.marked[1:].to(strengths.dtype)]).view(4, -1).index_select(1, places)
        self._facts.copy_((facts * counts)[..., None, None, None])
        self._updates.copy_(hosts.seeds_updates.view(-1).index_select(0, places) * counts)
        for block, here in zip(self._blocks, found.values(), strict=True):
            block.fill(hosts, places[block.begin : block.begin + len(here)])

    def _record(self) -> None:
        assert self._work is not None
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                self._work.once()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph, self._replay = graph, graph.replay

    def _results(self, hosts: HostRows, batches: int) -> tuple[EpochResult, Tensor]:
        assert self._work is not None
        trunk, memory = self._work.blocks[0], self._work.memory[0]
        for target, source in (
            (hosts.trunk, trunk), (hosts.trunk_mean, memory.mean), (hosts.trunk_square, memory.square),
            (hosts.trunk_updates, memory.updates),
        ):  # fmt: skip
            target.copy_(source)
        gradient = torch.zeros(len(trunk), SLOTS, device=trunk.device)
        for block, norm in zip(self._blocks, self._work.norms, strict=True):
            block.put_back(hosts)
            if block.used:
                assert block.places is not None
                hosts.seeds_updates.view(-1).index_copy_(0, block.places, block.moments.updates[: block.used])
                gradient.view(-1).index_copy_(0, block.places, norm[: block.used])
        loss, right = self._work.totals / batches
        return EpochResult(loss, right, self._work.norms), gradient


def _room(size: int) -> int:
    return (int(size * _SPARE) // _STEP + 1) * _STEP


def _fits(sizes: dict[tuple[int, int], int], rooms: dict[tuple[int, int], int]) -> bool:
    if any(size > rooms.get(key, 0) for key, size in sizes.items()):
        return False
    wanted = sum(_room(size) for size in sizes.values())
    return sum(rooms.values()) <= _LOOSE * wanted
