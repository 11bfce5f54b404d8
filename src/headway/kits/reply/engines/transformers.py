"""transformers as the engine of a model: any folder, on any device, and the reference for the others."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch

from headway.kits.reply.engines.cache import RowCache
from headway.nouns.errors import MissingExtra


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
            raise MissingExtra("An adapter", "peft", "language") from error
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
