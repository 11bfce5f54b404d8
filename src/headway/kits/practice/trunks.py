"""A small fully connected network, for acting only; used by `q_network` and `actor_critic`.

    trunk = Trunk([w0, w1, w2], [b0, b1, b2], activation="relu")     # weights [out, in], biases [out]
    trunk(x)                                                         # [row, out], x as `Features.vectors` gives it
    trunk.one(x[0])                                                  # [out], the same bits as that row
    Trunk.read(tensors, "q0", inputs=width, outputs=3)               # from a bundle; Damaged if it does not fit
    Trunk([w0, w1], [b0, b1], norms=[(gain, shift)])                 # LayerNorm before every activation

Every layer but the last is followed by the activation. **Sums are exact** (`decide.rounded`): inputs are multiples of
2**-14, hidden activations are rounded (ReLU: to multiples of 2**-14, cut at 1024; tanh: to multiples of 2**-20), and so
are the weights. A row alone, the same row in a batch and the same row on another machine get equal bits, so replay is
exact. The rounding error is about that of float32.
LayerNorm's own sums are not exact; they run along one row in a fixed order, and the result is rounded.

Not covered: gradients, which are in `learn`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, cast, get_args

import numpy as np

from headway.decide import damaged, rounded, tensor
from headway.encode import Features
from headway.nouns import Floats

Activation = Literal["relu", "tanh"]
Norm = tuple[Floats, Floats]  # gain and shift, [out] each
_HIDDEN_LIMIT = 1024.0
_HIDDEN_GRID: dict[Activation, float] = {"relu": Features.GRID, "tanh": 2.0**-20}
_HIDDEN_BITS: dict[Activation, int] = {"relu": round(math.log2(_HIDDEN_LIMIT / Features.GRID)), "tanh": 20}  # 24, 20
_EPSILON = 1e-5  # of LayerNorm
_MOST_LAYERS, _WIDEST = 8, 1 << 14


class Trunk:
    """Immutable; thread-safe."""

    __slots__ = ("_turned", "activation", "biases", "norms", "weights")

    def __init__(
        self,
        weights: Sequence[Floats],
        biases: Sequence[Floats],
        activation: Activation = "relu",
        norms: Sequence[Norm] = (),
    ) -> None:
        self.activation = activation
        bits = _HIDDEN_BITS[activation]
        self.weights = tuple(
            rounded(np.asarray(weight, np.float64), bits) if depth else rounded(np.asarray(weight, np.float64))
            for depth, weight in enumerate(weights)
        )
        self.biases = tuple(np.array(each, dtype=np.float64) for each in biases)
        self.norms = tuple((np.array(gain, np.float64), np.array(shift, np.float64)) for gain, shift in norms)
        self._turned = tuple(np.ascontiguousarray(each.T) for each in self.weights)
        for each in (*self.weights, *self.biases, *self._turned, *(one for pair in self.norms for one in pair)):
            each.flags.writeable = False

    def __call__(self, x: Floats) -> Floats:
        last = len(self.weights) - 1
        for depth, (turned, bias) in enumerate(zip(self._turned, self.biases, strict=True)):
            x = x @ turned
            x += bias
            if depth < last:
                self._activate(x, depth)
        return x

    def hidden(self, x: Floats) -> Floats:
        """[row, last hidden]: the input of the last layer."""
        for depth, (turned, bias) in enumerate(zip(self._turned[:-1], self.biases[:-1], strict=True)):
            x = x @ turned
            x += bias
            self._activate(x, depth)
        return x

    def one(self, x: Floats) -> Floats:
        """[out] of one row [in]."""
        last = len(self.weights) - 1
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = weight.dot(x)
            x += bias
            if depth < last:
                self._activate(x, depth)
        return x

    def _activate(self, x: Floats, depth: int) -> None:
        """Round in place to the grid: 0 … 1024, or −1 … 1."""
        if self.norms:
            gain, shift = self.norms[depth]
            width = x.shape[-1]
            x -= x.sum(axis=-1, keepdims=True) / width
            x *= 1.0 / np.sqrt((x * x).sum(axis=-1, keepdims=True) / width + _EPSILON)
            x *= gain
            x += shift
        grid = _HIDDEN_GRID[self.activation]
        if self.activation == "tanh":
            np.tanh(x, out=x)
        else:
            np.maximum(x, 0.0, out=x)
            np.minimum(x, _HIDDEN_LIMIT, out=x)
        x *= 1.0 / grid
        np.rint(x, out=x)
        x *= grid

    @classmethod
    def read(
        cls, tensors: Mapping[str, Any], name: str, *, inputs: int, outputs: int, activation: object = "relu"
    ) -> Trunk:
        """The network stored as `name.w0`, `name.b0`, `name.w1`, …; shapes, types and finiteness are checked.

        There is a LayerNorm if there is `name.g0` (gain), with `name.s0` (shift), for every layer but the last.
        """
        if activation not in get_args(Activation):
            raise damaged(f"The bundle's activation is {activation!r:.40}", "bad_header")
        weights: list[Floats] = []
        biases: list[Floats] = []
        while len(weights) < _MOST_LAYERS and f"{name}.w{len(weights)}" in tensors:
            depth = len(weights)
            weights.append(_layer(tensors, f"{name}.w{depth}", 2))
            biases.append(_layer(tensors, f"{name}.b{depth}", 1))
        if not weights:
            raise damaged(f"The bundle has no tensor {name + '.w0'!r}", "missing_tensor")
        shapes = [each.shape for each in weights]
        fits = all(after[1] == before[0] for before, after in pairwise(shapes))
        fits = fits and [each.shape for each in biases] == [(out,) for out, _ in shapes]
        if not fits or shapes[0][1] != inputs or shapes[-1][0] != outputs:
            raise damaged(f"The network {name!r} has the shapes {shapes}, for {inputs} → {outputs}", "bad_tensor")
        norms = _norms(tensors, name, biases[:-1]) if f"{name}.g0" in tensors else ()
        return cls(weights, biases, cast(Activation, activation), norms)

    def tensors(self, name: str) -> dict[str, Floats]:
        """The tensors that `read` reads."""
        found = {f"{name}.w{depth}": np.array(each) for depth, each in enumerate(self.weights)}
        found |= {f"{name}.b{depth}": np.array(each) for depth, each in enumerate(self.biases)}
        for depth, (gain, shift) in enumerate(self.norms):
            found |= {f"{name}.g{depth}": np.array(gain), f"{name}.s{depth}": np.array(shift)}
        return found


def _norms(tensors: Mapping[str, Any], name: str, biases: Sequence[Floats]) -> list[Norm]:
    """The LayerNorm of each hidden layer; it has the shape of the layer's biases."""
    norms: list[Norm] = []
    for depth, bias in enumerate(biases):
        pair = _layer(tensors, f"{name}.g{depth}", 1), _layer(tensors, f"{name}.s{depth}", 1)
        if any(each.shape != bias.shape for each in pair):
            raise damaged(f"The normalisation of layer {depth} of {name!r} does not fit it", "bad_tensor")
        norms.append(pair)
    return norms


def _layer(tensors: Mapping[str, Any], name: str, dimensions: int) -> Floats:
    values = tensor(tensors, name, *[-1] * dimensions, limit=1e12)
    if not values.size or max(values.shape) > _WIDEST:
        raise damaged(f"The tensor {name!r} is empty or too wide: its shape is {values.shape}", "bad_tensor")
    return values
