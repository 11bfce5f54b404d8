"""OpenVINO as the engine of a model: the compiled graph, its adapters, and keys and values in blocks."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import torch
from numpy.typing import NDArray

from headway.kits.reply.engines.graph import GraphAdapter, ModelShape, adapter_inputs, build
from headway.nouns import errors

RANK = 16  # of the adapters that a graph takes; a wider one compiles the graph again
_MOST_FUSED = 2  # graphs with an adapter in their weights, each as large as the model


class OpenVinoEngine:
    """One folder, compiled for the CPU.

    Adapters are inputs: adding one compiles nothing, up to the rank. `fuse` compiles one into the weights of a second
    graph, which is faster; running batches go on in it.
    """

    def __init__(
        self, folder: Path, shape: ModelShape, *, threads: int = 0, rank: int = 0, weights: str = "float32"
    ) -> None:
        self._folder, self._shape, self._weights = folder, shape, weights
        self._options = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "NUM_STREAMS": 1}
        if threads:
            self._options["INFERENCE_NUM_THREADS"] = threads
        self._files = _stamp(folder)
        self._adapters = {"": GraphAdapter({}, 1.0)}
        self._fused: dict[str, _Running] = {}
        self._clock = count()
        self._compile(rank)
        self._pool = _pool(self._graph)
        self._runner("").first()  # what cannot run here fails now

    def _compile(self, rank: int) -> None:
        self.rank = rank
        self._graph = self._compiled(rank, None)
        self._running: dict[str, _Running] = {}

    def _compiled(self, rank: int, adapter: GraphAdapter | None) -> Any:
        if _stamp(self._folder) != self._files:
            raise errors.Conflict(
                f"The weights in {str(self._folder)!r} have changed since they were loaded.",
                code="model_changed",
                hint="Restart the worker (`headway up`) to use the new ones.",
            )
        graph = build(self._folder, self._shape, rank=rank, adapter=adapter, weights=self._weights)
        return ov.Core().compile_model(graph, "CPU", self._options)

    def add_adapter(self, name: str, tensors: Mapping[str, NDArray[Any]], scale: float, rank: int) -> None:
        """Take an adapter beside the others; running batches keep theirs."""
        self.drop_adapter(name)
        self._adapters[name] = GraphAdapter(tensors, scale)
        if rank > self.rank:
            self._compile(max(rank, RANK))

    def drop_adapter(self, name: str) -> None:
        for held in (self._adapters, self._running, self._fused):
            held.pop(name, None)

    # -- in the weights

    @property
    def fusible(self) -> bool:
        """Whether an adapter may be added to the weights: rounding to int8 would change most of it."""
        return self._weights != "int8"

    @property
    def fused(self) -> tuple[str, ...]:
        return tuple(self._fused)

    def fuse(self, name: str) -> None:
        """Compile a graph with the adapter in its weights; "" is the base without any. May run in another thread.

        The one that is used least recently makes room. An adapter that was dropped meanwhile stays dropped.
        """
        adapter = self._known(name)
        running = _Running(self._compiled(0, adapter), {})
        running.first()
        if self._adapters.get(name) is not adapter:
            return
        running.used = next(self._clock)
        self._fused[name] = running
        for other in sorted(self._fused, key=lambda one: self._fused[one].used)[:-_MOST_FUSED]:
            self._fused.pop(other, None)

    # -- one step

    def cache(self, adapter: str) -> PagedCache:
        """The rows of a new batch: none yet."""
        return PagedCache(self._pool, adapter)

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: PagedCache
    ) -> torch.Tensor:
        """Logits after the last position of every row, [row, vocabulary]; zeros for a row of padding only."""
        rows, new = ids.shape
        if not cache.rows:
            cache.rows.extend(PagedRow() for _ in range(rows))
        real = np.ones((rows, new), bool) if mask is None else mask[:, -new:].numpy()
        counts = real.sum(1)
        some = np.flatnonzero(counts)
        ends = np.cumsum(counts[some])
        feeds = {
            "input_ids": ids.numpy()[real],
            "position_ids": positions.expand(rows, new).numpy()[real],
            "last": ends - 1,
            "subsequence_begins": np.concatenate([[0], ends]).astype(np.int32),
            **_places(self._pool, [cache.rows[row] for row in some], counts[some]),
        }
        found = self._runner(cache.adapter).infer(feeds, self._pool)
        if len(some) == rows:
            return torch.from_numpy(np.array(found))  # the request owns its output and overwrites it
        logits = torch.zeros(rows, found.shape[1])
        logits[torch.from_numpy(some)] = torch.from_numpy(np.array(found))
        return logits

    def _runner(self, adapter: str) -> _Running:
        running = self._fused.get(adapter) or self._running.get(adapter)
        if running is None:
            inputs = adapter_inputs(self._shape, self.rank, self._known(adapter)) if self.rank else {}
            running = self._running[adapter] = _Running(self._graph, inputs)
        running.used = next(self._clock)
        return running

    def _known(self, name: str) -> GraphAdapter:
        if name not in self._adapters:
            raise errors.UnknownName(f"The adapter {name[:12]!r} is not loaded.", code="adapter_missing")
        return self._adapters[name]


class _Running:
    """A graph with an adapter, ready to compute."""

    def __init__(self, graph: Any, inputs: Mapping[str, NDArray[Any]]) -> None:
        self._request = graph.create_infer_request()
        for name, value in inputs.items():
            self._request.set_tensor(name, ov.Tensor(value))
        self._graph = graph
        self._version: object = None  # of the pool that it reads
        self.used = 0

    def first(self) -> None:
        """One token, in blocks of its own: OpenVINO prepares the weights when it first reads them."""
        one, pool = np.array([1]), _pool(self._graph)
        feeds = {
            "input_ids": one,
            "position_ids": one - 1,
            "last": one - 1,
            "subsequence_begins": np.array([0, 1], np.int32),
        }
        self.infer({**feeds, **_places(pool, [PagedRow()], one)}, pool)

    def infer(self, feeds: Mapping[str, NDArray[Any]], pool: BlockPool) -> NDArray[np.float32]:
        if self._version is not pool.version:
            for name, tensor in pool.tensors.items():
                self._request.set_tensor(name, tensor)
            self._version = pool.version
        logits: NDArray[np.float32] = self._request.infer(dict(feeds), share_inputs=True)[0]
        return logits


def _places(pool: BlockPool, rows: list[PagedRow], new: NDArray[np.int64]) -> dict[str, NDArray[np.int32]]:
    """Take blocks for the new tokens of rows; returns where each row's tokens are."""
    past = [row.length for row in rows]
    for row, tokens in zip(rows, new.tolist(), strict=True):
        pool.extend(row, tokens)
        row.length += tokens
    return {
        "past_lens": np.array(past, np.int32),
        "max_context_len": np.array(max(row.length for row in rows), np.int32),
        "block_indices": np.array([block for row in rows for block in row.blocks], np.int32),
        "block_indices_begins": np.cumsum([0, *(len(row.blocks) for row in rows)], dtype=np.int32),
    }


def _stamp(folder: Path) -> list[tuple[str, int, int]]:
    """Changes when a file of weights is replaced."""
    files = sorted(folder.glob("*.safetensors"))
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _pool(graph: Any) -> BlockPool:
    """The pool that a compiled graph reads; it names its inputs and their sizes."""
    caches = {port.get_any_name(): port for port in graph.inputs if "_cache." in port.get_any_name()}
    shapes = {name: tuple(size.get_length() for size in list(port.partial_shape)[1:]) for name, port in caches.items()}
    return BlockPool(shapes, block=shapes["value_cache.0"][1])


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
        """Make room for this many more tokens of a row."""
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
