"""transformers as the engine of a model: any folder, on any device, and the reference for the others."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, cast

import torch
from transformers.cache_utils import Cache, DynamicLayer

from headway.nouns import errors

_ROOM = 64  # tokens reserved ahead, at least


class _CacheLayer(DynamicLayer):
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
        """Keep only these rows (a row may appear twice), without the first `start` positions."""
        self.keys, self.values = self.keys[rows], self.values[rows]
        self.start += start

    def join(self, other: _CacheLayer) -> None:
        """Append the rows of `other`; the shorter cache is padded on the left with zeros."""
        length = max(self.get_seq_length(), other.get_seq_length())
        for name in ("keys", "values"):
            first, second = getattr(self, name), getattr(other, name)
            rows = first.shape[0]
            new = first.new_zeros(rows + second.shape[0], first.shape[1], length + _ROOM, first.shape[3])
            new[:rows, :, length - self.get_seq_length() : length] = first[:, :, self.start : self.end]
            new[rows:, :, length - other.get_seq_length() : length] = second[:, :, other.start : other.end]
            setattr(self, name, new)
        self.start, self.end = 0, length


class RowCache(Cache):
    """The cache of a batch, in the form that transformers' models take."""

    def __init__(self, adapter: str = "") -> None:
        super().__init__(layer_class_to_replicate=_CacheLayer)
        self.adapter = adapter  # that its batch is generated with

    @property
    def length(self) -> int:
        return self._layers[0].get_seq_length() if self.layers else 0

    def keep(self, rows: torch.Tensor, start: int = 0) -> None:
        for layer in self._layers:
            layer.keep(rows, start)

    def join(self, other: RowCache) -> None:
        for layer, addition in zip(self._layers, other._layers, strict=True):
            layer.join(addition)

    @property
    def _layers(self) -> list[_CacheLayer]:
        return cast("list[_CacheLayer]", self.layers)


class TransformersEngine:
    """A network of transformers; PEFT adds and chooses adapters."""

    fusible = False

    def __init__(self, network: Any) -> None:
        self.network = network.eval()
        self._takes = frozenset(inspect.signature(network.forward).parameters)
        self._peft: Any = None
        self._active: str | None = None

    def add_adapter(self, name: str, folder: Path) -> None:
        """Take an adapter beside the others."""
        try:
            from peft import PeftModel
        except ImportError as error:
            raise errors.MissingExtra("An adapter", "peft", "language") from error
        if self._peft is None:
            self._peft = PeftModel.from_pretrained(self.network, folder, adapter_name=_label(name)).eval()
            self._active = name
        else:
            self._peft.load_adapter(folder, adapter_name=_label(name))

    def drop_adapter(self, name: str) -> None:
        if self._peft is not None and _label(name) in self._peft.peft_config and len(self._peft.peft_config) > 1:
            self._use("")
            self._peft.delete_adapter(_label(name))

    def _use(self, adapter: str) -> None:
        if self._peft is None or adapter == self._active:
            return
        tuner = self._peft.base_model
        if adapter:
            tuner.enable_adapter_layers()
            self._peft.set_adapter(_label(adapter))
        else:
            tuner.disable_adapter_layers()
        self._active = adapter

    def cache(self, adapter: str) -> RowCache:
        return RowCache(adapter)

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: RowCache
    ) -> torch.Tensor:
        """Logits after the last position of every row, [row, vocabulary]."""
        return self.plain(ids, positions, mask, cache, 1, cache.adapter)[:, -1]

    def plain(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | None,
        cache: RowCache | None,
        keep: int,
        adapter: str = "",
    ) -> torch.Tensor:
        """transformers' own forward pass; logits of at least the last `keep` positions."""
        self._use(adapter)
        more: dict[str, Any] = {}
        if "position_ids" in self._takes:
            more["position_ids"] = positions
        if "logits_to_keep" in self._takes:
            more["logits_to_keep"] = keep
        if mask is not None:
            more["attention_mask"] = mask.long()
        output = self.network(input_ids=ids, past_key_values=cache, use_cache=cache is not None, **more)
        logits: torch.Tensor = output.logits
        return logits


def _label(name: str) -> str:
    """A name that PEFT can use for a module."""
    return f"adapter_{name}"
