"""Keys and values in blocks of a few tokens: a row lists its blocks, so that rows join and leave without copying.

All adapters of a model share one pool. It grows when it has no free block, and begins small again after all are free.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from headway.kits.reply.engines.runtime import ov

_FIRST = 16  # blocks at the start
_IDLE = 64  # blocks that are kept when none is used


@dataclass(eq=False, slots=True)
class PagedRow:
    """The tokens of one row that are in the pool."""

    blocks: list[int] = field(default_factory=list)
    length: int = 0


class BlockPool:
    """Keys and values of all layers, [block, head, token, width] each."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], block: int) -> None:
        self.block = block  # tokens
        self.tensors: dict[str, Any] = {}
        self.version: object = None  # another one when the tensors are replaced
        self._shapes, self._count = shapes, 0
        self._free: deque[int] = deque()
        self._grow(_FIRST)

    def extend(self, row: PagedRow, tokens: int) -> None:
        """Make room for so many more tokens of a row."""
        if len(self._free) == self._count > _IDLE:
            self._free.clear()
            self._count = 0
            self._grow(_FIRST)
        while len(row.blocks) * self.block < row.length + tokens:
            row.blocks.append(self._take())

    def copy(self, row: PagedRow) -> PagedRow:
        """A second row with the same tokens."""
        blocks = [self._take() for _ in row.blocks]
        for tensor in self.tensors.values():
            tensor.data[blocks] = tensor.data[row.blocks]
        return PagedRow(blocks, row.length)

    def release(self, rows: Iterable[PagedRow]) -> None:
        for row in rows:
            self._free.extend(row.blocks)
            row.blocks, row.length = [], 0

    def _take(self) -> int:
        if not self._free:
            self._grow(2 * self._count)
        return self._free.pop()

    def _grow(self, count: int) -> None:
        before, self._count = self._count, count
        for name, shape in self._shapes.items():
            tensor = ov.Tensor(ov.Type.f32, ov.Shape([count, *shape]))  # a row reads only what it has written
            if before:
                tensor.data[:before] = self.tensors[name].data
            self.tensors[name] = tensor
        self._free.extend(reversed(range(before, count)))
        self.version = object()


class PagedCache:
    """The rows of a batch that is generated with one adapter. Its blocks are free when it is gone."""

    def __init__(self, pool: BlockPool, adapter: str) -> None:
        self.adapter = adapter
        self.rows: list[PagedRow] = []
        self._pool = pool
        weakref.finalize(self, pool.release, self.rows)

    @property
    def length(self) -> int:
        return max((row.length for row in self.rows), default=0)

    def keep(self, rows: torch.Tensor, _start: int = 0) -> None:
        """Keep only these rows (a row may appear twice). Padding, which other caches remove, is never stored here."""
        kept: list[PagedRow] = []
        for place in rows.tolist():
            row = self.rows[place]
            kept.append(self._pool.copy(row) if row in kept else row)
        self._pool.release(row for row in self.rows if row not in kept)
        self.rows[:] = kept

    def join(self, other: PagedCache) -> None:
        """Append the rows of `other`, which has none afterwards."""
        self.rows.extend(other.rows)
        other.rows.clear()
