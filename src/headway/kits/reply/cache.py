"""Keys and values of the running rows: written in place, never copied for one more token.

transformers' own cache is copied whole for every token; here a row's room is reserved ahead and grows by half. Rows are
padded on the left, so that all end at the same place: `start` moves right when the longest row leaves, and rows join by
being copied to end where the others end.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from transformers.cache_utils import Cache, DynamicLayer

__all__ = ["RowCache"]

_ROOM = 64  # tokens reserved ahead, at least


class _Layer(DynamicLayer):
    """One layer: buffers [row, head, room, width] of which start:end is in use."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers types its methods in part
        self.start = self.end = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        rows, heads, length, width = key_states.shape
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = key_states.new_zeros(rows, heads, length + _ROOM, width)
        self.values = value_states.new_zeros(rows, heads, length + _ROOM, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.end + key_states.shape[-2]
        if end > self.keys.shape[-2]:
            self._room_for(end - self.start)
            end = self.end + key_states.shape[-2]
        self.keys[:, :, self.end : end] = key_states
        self.values[:, :, self.end : end] = value_states
        self.end = end
        return self.keys[:, :, self.start : end], self.values[:, :, self.start : end]

    def get_seq_length(self) -> int:
        return self.end - self.start

    def _room_for(self, length: int) -> None:
        used, room = self.end - self.start, length + max(_ROOM, length // 2)
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros(*old.shape[:2], room, old.shape[3])
            new[:, :, :used] = old[:, :, self.start : self.end]
            setattr(self, name, new)
        self.start, self.end = 0, used

    def keep(self, rows: torch.Tensor, start: int) -> None:
        """Only these rows (a row may be named twice), without the first `start` places."""
        self.keys, self.values = self.keys[rows], self.values[rows]
        self.start += start

    def join(self, other: _Layer) -> None:
        """The other's rows after ours; whichever is shorter is padded on the left with zeros."""
        length = max(self.get_seq_length(), other.get_seq_length())
        for name in ("keys", "values"):
            mine, theirs = getattr(self, name), getattr(other, name)
            rows = mine.shape[0]
            new = mine.new_zeros(rows + theirs.shape[0], mine.shape[1], length + _ROOM, mine.shape[3])
            new[:rows, :, length - self.get_seq_length() : length] = mine[:, :, self.start : self.end]
            new[rows:, :, length - other.get_seq_length() : length] = theirs[:, :, other.start : other.end]
            setattr(self, name, new)
        self.start, self.end = 0, length


class RowCache(Cache):
    """The cache of a batch, in the form that transformers' models take."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=_Layer)

    @property
    def length(self) -> int:
        return self._layers[0].get_seq_length() if self.layers else 0

    def keep(self, rows: torch.Tensor, start: int = 0) -> None:
        for layer in self._layers:
            layer.keep(rows, start)

    def join(self, other: RowCache) -> None:
        for mine, theirs in zip(self._layers, other._layers, strict=True):
            mine.join(theirs)

    @property
    def _layers(self) -> list[_Layer]:
        return cast("list[_Layer]", self.layers)
