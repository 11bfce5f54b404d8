"""OpenVINO as the engine of a model: the compiled graph, its adapters, and the state of each running batch."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headway.kits.reply.engines.graph import ModelShape, adapter_inputs, build
from headway.kits.reply.engines.runtime import ov

__all__ = ["OpenVinoEngine", "StateCache"]

RANK = 16  # of the adapters that a graph takes; a wider one compiles the graph again
_TRIM = 64  # columns that no row needs may stay in front until there are this many


class OpenVinoEngine:
    """One folder, compiled for the CPU. Adapters are inputs: adding one compiles nothing, up to the rank."""

    def __init__(
        self, folder: Path, shape: ModelShape, *, threads: int = 0, rank: int = 0, weights: str = "float32"
    ) -> None:
        self._folder, self._shape, self._weights = folder, shape, weights
        self._options = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "NUM_STREAMS": 1}
        if threads:
            self._options["INFERENCE_NUM_THREADS"] = threads
        self._adapters: dict[str, tuple[Mapping[str, NDArray[Any]], float, int]] = {}
        self._compile(rank)

    def _compile(self, rank: int) -> None:
        self.rank = rank
        graph = build(self._folder, self._shape, rank=rank, weights=self._weights)
        self._compiled = ov.Core().compile_model(graph, "CPU", self._options)
        self._inputs = {name: self._tensors(name) for name in ("", *self._adapters)} if rank else {"": {}}
        self._free: dict[str, deque[Any]] = {}

    def add_adapter(self, name: str, tensors: Mapping[str, NDArray[Any]], scale: float, rank: int) -> None:
        """Take an adapter beside the others; running batches keep theirs."""
        self._adapters[name] = (tensors, scale, rank)
        if rank > self.rank:
            self._compile(max(rank, RANK))
        else:
            self._inputs[name] = self._tensors(name)

    def drop_adapter(self, name: str) -> None:
        self._adapters.pop(name, None)
        self._inputs.pop(name, None)
        self._free.pop(name, None)

    def _tensors(self, name: str) -> dict[str, Any]:
        tensors, scale, _ = self._adapters.get(name, ({}, 1.0, 0))
        inputs = adapter_inputs(self._shape, self.rank, tensors, scale)
        return {key: ov.Tensor(value) for key, value in inputs.items()}

    def cache(self, adapter: str) -> StateCache:
        """The empty state of a new batch."""
        free = self._free.setdefault(adapter, deque())
        if free:
            request = free.pop()
        else:
            request = self._compiled.create_infer_request()
            for key, tensor in self._inputs[adapter].items():
                request.set_tensor(key, tensor)
        request.reset_state()
        cache = StateCache(request)
        weakref.finalize(cache, free.append, request)
        return cache

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: StateCache
    ) -> torch.Tensor:
        """Logits after the last position of every row, [row, vocabulary]."""
        rows, new = ids.shape
        if cache.rows is None:
            cache.rows = np.arange(rows, dtype=np.int32)
        seen = np.ones((rows, cache.extra + cache.length + new), np.int64)
        if mask is not None:
            seen[:, cache.extra :] = mask.numpy()
        seen[:, : cache.extra] = 0
        feeds = {
            "input_ids": ids.numpy(),
            "attention_mask": seen,
            "position_ids": np.ascontiguousarray(positions.expand(rows, new).numpy()),
            "beam_idx": cache.rows,
        }
        logits = cache.request.infer(feeds, share_inputs=True)[0]
        cache.rows = np.arange(rows, dtype=np.int32)
        cache.length += new
        return torch.from_numpy(np.array(logits))  # the request owns its output and overwrites it


class StateCache:
    """Keys and values of a batch: the state of an infer request.

    Rows leave by the order of the next step (`beam_idx`); only a joining batch copies. `extra` columns in front belong
    to rows that have left: they are masked, and removed from time to time.
    """

    def __init__(self, request: Any) -> None:
        self.request = request
        self.rows: NDArray[np.int32] | None = None  # of the last step, that the next one continues
        self.length = self.extra = 0

    def keep(self, rows: torch.Tensor, start: int = 0) -> None:
        """Keep only these rows (a row may appear twice), without the first `start` positions."""
        order = rows.numpy().astype(np.int32)
        self.rows = order if self.rows is None else self.rows[order]
        self.length -= start
        self.extra += start
        if self.extra > _TRIM:
            self._write({name: self._part(state) for name, state in self._states().items()})

    def join(self, other: StateCache) -> None:
        """Append the rows of `other`; the shorter cache is padded on the left with zeros."""
        length = max(self.length, other.length)
        theirs = other._states()
        joined = {}
        for name, mine in self._states().items():
            parts = [_padded(self._part(mine), length), _padded(other._part(theirs[name]), length)]
            joined[name] = np.concatenate(parts)
        self._write(joined)
        self.length = length

    def _states(self) -> dict[str, Any]:
        return {state.name: state for state in self.request.query_state()}

    def _part(self, state: Any) -> NDArray[np.float32]:
        """The rows and columns in use, [row, head, place, width]."""
        values = np.asarray(state.state.data)[:, :, self.extra :]
        part: NDArray[np.float32] = values if self.rows is None else values[self.rows]
        return part

    def _write(self, values: Mapping[str, NDArray[np.float32]]) -> None:
        for name, state in self._states().items():
            state.state = ov.Tensor(np.ascontiguousarray(values[name]))
        count = next(iter(values.values())).shape[0]
        self.rows, self.extra = np.arange(count, dtype=np.int32), 0


def _padded(values: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    missing = length - values.shape[2]
    return np.pad(values, ((0, 0), (0, 0), (missing, 0), (0, 0))) if missing else values
