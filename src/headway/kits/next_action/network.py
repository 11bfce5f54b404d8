"""The ranker's transformer in torch: state tokens are read once, candidates read them.

    network = RankerNetwork(RankerShape.of("full", inputs), seed=7)
    mean, spread = network(states, actions, owner)       # [candidate]; owner: the row of each candidate's state

Tokens: state text, state numbers, eight trajectory steps; then action text and action traits (type, scope, files).
State tokens attend to state tokens only, action tokens to all of them: a state is computed once for all of its
candidates, and a candidate does not depend on the others. Parameters have the names and shapes of the bundle, which
`graph` runs without torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.kits.next_action.shapes import RankerShape
from headway.nouns import errors

try:
    import torch
    from torch import Tensor
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise errors.MissingExtra("Training the transformer of the ranker", "torch", "learn") from error


StateBatch = tuple[Tensor, Tensor, Tensor]  # text [state, width], numbers [state, …], steps [state, STEPS, 2]


class RankerNetwork(torch.nn.Module):
    """The network of one shape. `seed` decides its first weights."""

    def __init__(self, shape: RankerShape, *, seed: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape, self.dropout = shape, dropout
        generator = torch.Generator().manual_seed(seed)
        self.weights = {
            name: torch.nn.Parameter(_first(name, size, generator)) for name, size in shape.tensors().items()
        }
        for name, weight in self.weights.items():
            self.register_parameter(name.replace(".", "/"), weight)  # torch allows no dots

    def forward(self, states: StateBatch, actions: tuple[Tensor, Tensor], owner: Tensor) -> tuple[Tensor, Tensor]:
        known, own = self._state_tokens(states), self._action_tokens(actions)
        for layer in range(self.shape.layers):
            known, own = self._layer(known, own, owner, layer)
        read = self._normal(own, "last").mean(dim=1)
        hidden = functional.gelu(self._linear(read, "read.0"))
        outputs = self._linear(hidden, "read.1")
        return outputs[:, 0], outputs[:, 1]

    # -- tokens

    def _state_tokens(self, states: StateBatch) -> Tensor:
        text, numbers, steps = states
        tokens = [
            self._linear(self._linear(text, "text"), "state.text")[:, None],
            self._linear(numbers, "state.numbers")[:, None],
            self._linear(steps, "state.steps") + self.weights["state.places"],
        ]
        return torch.cat(tokens, dim=1)

    def _action_tokens(self, actions: tuple[Tensor, Tensor]) -> Tensor:
        text, traits = actions
        tokens = [self._linear(self._linear(text, "text"), "action.text"), self._linear(traits, "action.traits")]
        return torch.stack(tokens, dim=1)

    # -- layers

    def _layer(self, known: Tensor, own: Tensor, owner: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        name = f"layer{layer}"
        state_q, state_k, state_v = self._heads(self._normal(known, f"{name}.first"), name)
        own_q, own_k, own_v = self._heads(self._normal(own, f"{name}.first"), name)
        keys, values = torch.cat([state_k[owner], own_k], dim=2), torch.cat([state_v[owner], own_v], dim=2)
        own = own + self._drop(self._linear(_attend(own_q, keys, values), f"{name}.out"))
        own = own + self._drop(self._forward(self._normal(own, f"{name}.second"), name))
        if layer + 1 < self.shape.layers:  # nothing reads the states after the last layer
            known = known + self._drop(self._linear(_attend(state_q, state_k, state_v), f"{name}.out"))
            known = known + self._drop(self._forward(self._normal(known, f"{name}.second"), name))
        return known, own

    def _heads(self, x: Tensor, name: str) -> list[Tensor]:
        """Queries, keys and values: [row, head, token, width]."""
        rows, count, width = x.shape
        split = self._linear(x, f"{name}.qkv").view(rows, count, 3, self.shape.heads, width // self.shape.heads)
        return [split[:, :, place].transpose(1, 2) for place in range(3)]

    def _forward(self, x: Tensor, name: str) -> Tensor:
        return self._linear(functional.gelu(self._linear(x, f"{name}.up")), f"{name}.down")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def _normal(self, x: Tensor, name: str) -> Tensor:
        gain, shift = self.weights[f"{name}.gain"], self.weights[f"{name}.shift"]
        return functional.layer_norm(x, (x.shape[-1],), gain, shift, 1e-5)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)

    # -- the form of a bundle

    def tensors(self) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
        return {name: weight.detach().cpu().numpy().astype(np.float32) for name, weight in self.weights.items()}

    def load(self, tensors: Mapping[str, Any]) -> None:
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(torch.as_tensor(np.array(tensors[name])))


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """[row, token, width]"""
    scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[-1])
    mixed = (torch.softmax(scores, dim=-1) @ values).transpose(1, 2)
    return mixed.reshape(mixed.shape[0], mixed.shape[1], -1)


def _first(name: str, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Zeros for biases and for what is read last, so that an untrained network predicts 0; ones for gains."""
    if name.endswith(".gain"):
        return torch.ones(size)
    if name.endswith((".bias", ".shift")) or name.startswith("read.1"):
        return torch.zeros(size)
    scale = 0.02 if name == "state.places" else 1.0 / math.sqrt(size[0])
    return torch.randn(size, generator=generator) * scale
