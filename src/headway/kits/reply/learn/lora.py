"""A LoRA adapter on a frozen network: two small matrices beside every linear layer, under PEFT's names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from headway.nouns import errors

_PREFIX = "base_model.model."


class LoraLinear(nn.Module):
    """A frozen linear layer, plus x·Aᵀ·Bᵀ·α/r while `on`."""

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.linear, self.scale, self.on = linear, alpha / rank, True
        where = linear.weight.device
        self.lora_A = nn.Parameter(torch.zeros(rank, linear.in_features, device=where))
        self.lora_B = nn.Parameter(torch.zeros(linear.out_features, rank, device=where))

    @property
    def weight(self) -> Tensor:
        """The frozen weight: some networks read it."""
        return self.linear.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        if not self.on:
            return y
        low = functional.linear(x, self.lora_A.to(x.dtype)) * self.scale
        return y + functional.linear(low, self.lora_B.to(x.dtype))

    @torch.no_grad()
    def delta(self) -> Tensor:
        """What the adapter adds to the weight."""
        return (self.lora_B @ self.lora_A) * self.scale


class Adapter:
    """All LoRA matrices of a network. The network's own weights never change."""

    def __init__(self, network: Any, *, rank: int, alpha: float, seed: int) -> None:
        self.rank, self.alpha = rank, alpha
        self.layers: dict[str, LoraLinear] = {}
        head = network.get_output_embeddings()
        linears = [
            (name, module)
            for name, module in network.named_modules()
            if type(module) is nn.Linear and module is not head
        ]
        if not linears:
            raise errors.InvalidInput(
                f"A {type(network).__name__} has no linear layers that an adapter can be put on.",
                code="model_not_trainable",
                hint="Llama, Qwen, Mistral and Gemma models can be trained.",
            )
        network.requires_grad_(False)
        for name, module in linears:
            above, _, own = name.rpartition(".")
            layer = LoraLinear(module, rank, alpha)
            setattr(network.get_submodule(above), own, layer)
            self.layers[name] = layer
        self.targets = tuple(sorted({name.rpartition(".")[2] for name in self.layers}))
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """A new adapter: A is random, B is 0, so that the network is the base."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in self.layers.values():
                limit = math.sqrt(1.0 / layer.lora_A.shape[1])
                drawn = (torch.rand(layer.lora_A.shape, generator=generator) * 2.0 - 1.0) * limit
                layer.lora_A.copy_(drawn)
                layer.lora_B.zero_()

    def parameters(self) -> list[nn.Parameter]:
        return [matrix for layer in self.layers.values() for matrix in (layer.lora_A, layer.lora_B)]

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """The matrices as numpy arrays, by PEFT's names."""
        return {name: matrix.detach().float().cpu().numpy().copy() for name, matrix in self._named()}

    def load(self, tensors: Mapping[str, Any]) -> None:
        """Set the matrices; the names and shapes must be those of this network."""
        mine = dict(self._named())
        wrong = sorted(set(mine) ^ set(tensors))
        wrong = wrong or [name for name, matrix in mine.items() if tuple(matrix.shape) != np.shape(tensors[name])]
        if wrong:
            raise errors.Conflict(
                f"The adapter does not fit this model: {wrong[0]!r} differs.",
                code="adapter_of_another_base",
                hint="Use the base that the adapter was trained on, or learn again.",
            )
        with torch.no_grad():
            for name, matrix in mine.items():
                matrix.copy_(torch.from_numpy(np.array(tensors[name], dtype=np.float32)))

    @contextmanager
    def off(self) -> Iterator[None]:
        """The base alone, inside."""
        for layer in self.layers.values():
            layer.on = False
        try:
            yield
        finally:
            for layer in self.layers.values():
                layer.on = True

    @contextmanager
    def merged(self) -> Iterator[None]:
        """The adapter inside the weights, for generation; afterwards the weights are as before, bit for bit."""
        before = [layer.linear.weight.detach().clone() for layer in self.layers.values()]
        with self.off(), torch.no_grad():
            for layer in self.layers.values():
                layer.linear.weight.add_(layer.delta().to(layer.linear.weight.dtype))
            try:
                yield
            finally:
                for layer, weight in zip(self.layers.values(), before, strict=True):
                    layer.linear.weight.copy_(weight)

    def _named(self) -> Iterator[tuple[str, nn.Parameter]]:
        for name, layer in self.layers.items():
            yield f"{_PREFIX}{name}.lora_A.weight", layer.lora_A
            yield f"{_PREFIX}{name}.lora_B.weight", layer.lora_B
