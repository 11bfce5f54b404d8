"""Small networks in numpy: parallel towers over one input, analytic gradients; no torch.

    shape = Shape(inputs=4, hidden=(64, 64), towers=(("policy", 2), ("value", 1)))
    network = Network(shape, seed=7)
    logits, values = network.forward(x)              # [row, 2], [row, 1]; valid until the next call
    network.backward(x, (d_logits, d_values))        # fills network.grad
    Adam(network, rate=3e-4).step()

All towers have the same hidden layers and are computed together: the first layer is one product over all of them, every
later one is one batched product, and every elementwise pass is one call. At 64 units a call costs more than its
arithmetic, so this alone gives a factor of two. All parameters are in one flat vector (weights first), gradients in
another of the same layout, so that clipping and Adam are a dozen calls for any number of layers.

A layer is linear → LayerNorm (if `norm`) → tanh or ReLU; heads are linear. float32 by default; float64 for checks.

Not covered: dropout and BatchNorm. With them, a network's outputs differ between acting and learning, and PPO's first
ratio is not one; LayerNorm works on one row at a time and keeps it exact.

References: Ba et al., "Layer normalization", 2016; Saxe et al., 2014 (orthogonal); Glorot and Bengio, 2010 (Xavier).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # float32 or float64, as the network is
Activation = Literal["tanh", "relu"]
EPSILON = 1e-5  # of LayerNorm
_WORKSPACES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a network. `free`: parameters without an input, such as a Gaussian head's log deviations."""

    inputs: int
    towers: tuple[tuple[str, int], ...]  # name and outputs
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"
    norm: bool = False
    free: int = 0


class _Workspace:
    """Buffers for one number of rows; repeated batches of the same size allocate nothing."""

    __slots__ = ("gradients", "hidden", "inverse", "ones", "outputs", "scratch", "unit")

    def __init__(self, shape: Shape, rows: int, dtype: Any) -> None:
        count = len(shape.towers)
        self.hidden: list[Array] = []  # [tower, row, unit]: output of a layer
        self.gradients: list[Array] = []
        self.scratch: list[Array] = []
        self.unit: list[Array] = []  # LayerNorm's normalised input
        self.inverse: list[Array] = []  # and one over its deviation
        for place, width in enumerate(shape.hidden):
            for target in (self.hidden, self.gradients):
                target.append(_stack(count, rows, width, dtype, first=place == 0))
            self.scratch.append(_stack(count, rows, width, dtype, first=place == 0))
            if shape.norm:
                self.unit.append(_stack(count, rows, width, dtype, first=place == 0))
                self.inverse.append(np.empty((count, rows, 1), dtype=dtype))
        self.ones: Array = np.ones((1, rows), dtype=dtype)  # ones @ gradient sums over rows faster than a reduction
        self.outputs: list[Array] = [np.empty((rows, width), dtype=dtype) for _, width in shape.towers]


def _stack(count: int, rows: int, width: int, dtype: Any, *, first: bool) -> Array:
    """[tower, row, unit]; for the first layer the towers are side by side in memory, as one product writes them."""
    if first:
        return np.zeros((rows, count, width), dtype=dtype).transpose(1, 0, 2)
    return np.zeros((count, rows, width), dtype=dtype)


def _flat(stack: Array) -> Array:
    """The first layer's stack as a matrix [row, tower·unit], without a copy."""
    whole = stack.transpose(1, 0, 2)
    return whole.reshape(len(whole), -1)


class Network:
    """Parallel towers. Not thread-safe: buffers are reused from call to call."""

    def __init__(
        self,
        shape: Shape,
        *,
        seed: int = 0,
        dtype: Any = np.float32,
        start: Literal["orthogonal", "xavier"] = "orthogonal",
        gains: Sequence[float] = (),
    ) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        weights, others = _layout(shape)
        sizes = [math.prod(size) for _, size in (*weights, *others)]
        self.decayed = sum(sizes[: len(weights)])  # the number of leading parameters that are weights
        self.theta: Array = np.zeros(sum(sizes), dtype=self.dtype)
        self.grad: Array = np.zeros_like(self.theta)
        self._at: dict[str, slice] = {}
        self._size: dict[str, tuple[int, ...]] = {}
        begin = 0
        for (name, size), length in zip((*weights, *others), sizes, strict=True):
            self._at[name], self._size[name] = slice(begin, begin + length), size
            begin += length
        self._workspaces: dict[int, _Workspace] = {}
        self._bind()
        self._start(seed, start, gains or [1.0] * len(shape.towers))

    def _bind(self) -> None:
        """Views into the flat vectors, by layer."""
        depth = len(self.shape.hidden)
        self.weights = [self.part(f"weight.{place}") for place in range(depth)]
        self.d_weights = [self.part(f"weight.{place}", self.grad) for place in range(depth)]
        self.heads = [self.part(f"head.{name}") for name, _ in self.shape.towers]
        self.d_heads = [self.part(f"head.{name}", self.grad) for name, _ in self.shape.towers]
        self.head_biases = [self.part(f"head_bias.{name}") for name, _ in self.shape.towers]
        self.d_head_biases = [self.part(f"head_bias.{name}", self.grad) for name, _ in self.shape.towers]
        self.biases = [self.part(f"bias.{place}") for place in range(depth)]
        self.d_biases = [self.part(f"bias.{place}", self.grad) for place in range(depth)]
        normed = range(depth) if self.shape.norm else range(0)
        self.gains = [self.part(f"gain.{place}") for place in normed]
        self.d_gains = [self.part(f"gain.{place}", self.grad) for place in normed]
        self.shifts = [self.part(f"shift.{place}") for place in normed]
        self.d_shifts = [self.part(f"shift.{place}", self.grad) for place in normed]
        self.free = self.part("free")
        self.d_free = self.part("free", self.grad)

    def part(self, name: str, vector: Array | None = None) -> Array:
        """One group of parameters (or of another vector of this layout), as a view in its own shape."""
        flat = self.theta if vector is None else vector
        return flat[self._at[name]].reshape(self._size[name])

    def _start(self, seed: int, start: str, gains: Sequence[float]) -> None:
        rng = np.random.default_rng(seed)
        make = _orthogonal if start == "orthogonal" else _xavier
        count = len(self.shape.towers)
        usual = math.sqrt(2.0) if start == "orthogonal" else 1.0
        for place, weight in enumerate(self.weights):
            width = self.shape.hidden[place]
            for tower in range(count):
                part = weight[:, tower * width : (tower + 1) * width] if place == 0 else weight[tower]
                part[...] = make(rng, part.shape[0], part.shape[1], usual)
        for head, gain in zip(self.heads, gains, strict=True):
            head[...] = make(rng, head.shape[0], head.shape[1], gain)
        for gain_of in self.gains:
            gain_of[...] = 1.0

    # -- forwards

    def forward(self, x: Array) -> list[Array]:
        """[row, outputs] of every tower. The arrays are reused: copy what must outlive the next call."""
        space = self._space(len(x))
        before = x
        for place, weight in enumerate(self.weights):
            hidden = space.hidden[place]
            if place == 0:
                np.matmul(x, weight, out=_flat(hidden))
            else:
                np.matmul(before, weight, out=hidden)
            hidden += self.biases[place]
            if self.shape.norm:
                self._normalise(space, place)
            _activate(self.shape.activation, hidden)
            before = hidden
        for place, (head, bias, out) in enumerate(zip(self.heads, self.head_biases, space.outputs, strict=True)):
            np.matmul(before[place] if self.weights else x, head, out=out)
            out += bias
        return space.outputs

    def forward_one(self, x: Array, tower: int) -> Array:
        """[row, outputs] of one tower alone, in new memory; for acting."""
        before = x
        for place, weight in enumerate(self.weights):
            width = self.shape.hidden[place]
            part = weight[:, tower * width : (tower + 1) * width] if place == 0 else weight[tower]
            hidden: Array = before @ part
            hidden += self.biases[place][tower]
            if self.shape.norm:
                hidden -= hidden.mean(axis=1, keepdims=True)
                spread = np.einsum("bh,bh->b", hidden, hidden)[:, None] / width
                hidden *= 1.0 / np.sqrt(spread + EPSILON)
                hidden *= self.gains[place][tower]
                hidden += self.shifts[place][tower]
            _activate(self.shape.activation, hidden)
            before = hidden
        out: Array = before @ self.heads[tower]
        out += self.head_biases[tower]
        return out

    def _normalise(self, space: _Workspace, place: int) -> None:
        """y = gain·(z − mean)/√(variance + ε) + shift, row by row and tower by tower."""
        hidden, unit, inverse = space.hidden[place], space.unit[place], space.inverse[place]
        width = self.shape.hidden[place]
        np.subtract(hidden, hidden.mean(axis=2, keepdims=True), out=unit)
        np.einsum("sbh,sbh->sb", unit, unit, out=inverse[..., 0])
        inverse /= width
        inverse += EPSILON
        np.sqrt(inverse, out=inverse)
        np.divide(1.0, inverse, out=inverse)
        unit *= inverse
        np.multiply(unit, self.gains[place], out=hidden)
        hidden += self.shifts[place]

    # -- backwards

    def backward(self, x: Array, d_outputs: Sequence[Array]) -> Array:
        """The gradient of a loss whose derivatives by the last `forward(x)`'s outputs are given; `grad`, filled.

        The caller fills the gradient of `free` (`d_free`): no output of a tower depends on it.
        """
        space = self._space(len(x))
        depth = len(self.weights)
        for place, d_out in enumerate(d_outputs):
            np.matmul((space.hidden[-1][place] if depth else x).T, d_out, out=self.d_heads[place])
            np.matmul(space.ones[0], d_out, out=self.d_head_biases[place])
            if depth:
                np.matmul(d_out, self.heads[place].T, out=space.gradients[-1][place])
        for place in reversed(range(depth)):
            gradient = space.gradients[place]
            _deactivate(self.shape.activation, space.hidden[place], gradient, space.scratch[place])
            if self.shape.norm:
                self._denormalise(space, place)
            np.matmul(space.ones, gradient, out=self.d_biases[place])
            if place == 0:
                np.matmul(x.T, _flat(gradient), out=self.d_weights[0])
            else:
                np.matmul(space.hidden[place - 1].transpose(0, 2, 1), gradient, out=self.d_weights[place])
                np.matmul(gradient, self.weights[place].transpose(0, 2, 1), out=space.gradients[place - 1])
        return self.grad

    def _denormalise(self, space: _Workspace, place: int) -> None:
        """dz = (u − mean(u) − x̂·mean(u·x̂))/σ with u = gain·dy."""
        gradient, unit, inverse = space.gradients[place], space.unit[place], space.inverse[place]
        width = self.shape.hidden[place]
        np.einsum("sbh,sbh->sh", gradient, unit, out=self.d_gains[place][:, 0, :])
        np.matmul(space.ones, gradient, out=self.d_shifts[place])
        gradient *= self.gains[place]
        along = np.einsum("sbh,sbh->sb", gradient, unit)[..., None] / width
        gradient -= gradient.mean(axis=2, keepdims=True)
        np.multiply(unit, along, out=space.scratch[place])
        gradient -= space.scratch[place]
        gradient *= inverse

    def _space(self, rows: int) -> _Workspace:
        space = self._workspaces.get(rows)
        if space is None:
            if len(self._workspaces) >= _WORKSPACES:
                self._workspaces.clear()
            space = self._workspaces[rows] = _Workspace(self.shape, rows, self.dtype)
        return space

    # -- storage

    def tensors(self) -> dict[str, NDArray[np.float64]]:
        """Parameters by name as `decide.trunks.Trunk.read` reads them: `policy.w0` [out, in], `policy.b0`, `policy.g0`
        and `policy.s0` of a LayerNorm, and so on; `free` if there is any."""
        return {
            name: np.array(self.part(where)[part].T, dtype=np.float64, order="C") for name, where, part in self._named()
        }

    def load(self, tensors: Mapping[str, Any]) -> None:
        """Load the result of `tensors()`."""
        for name, where, part in self._named():
            self.part(where)[part] = np.asarray(tensors[name]).T

    def _named(self) -> list[tuple[str, str, Any]]:
        """(name of the tensor, group of parameters, which of it)."""
        named: list[tuple[str, str, Any]] = []
        depth = len(self.shape.hidden)
        for tower, (name, _) in enumerate(self.shape.towers):
            for place, width in enumerate(self.shape.hidden):
                first = (slice(None), slice(tower * width, (tower + 1) * width))
                named.append((f"{name}.w{place}", f"weight.{place}", first if place == 0 else tower))
                named.append((f"{name}.b{place}", f"bias.{place}", (tower, 0)))
                if self.shape.norm:
                    named.append((f"{name}.g{place}", f"gain.{place}", (tower, 0)))
                    named.append((f"{name}.s{place}", f"shift.{place}", (tower, 0)))
            named.append((f"{name}.w{depth}", f"head.{name}", slice(None)))
            named.append((f"{name}.b{depth}", f"head_bias.{name}", slice(None)))
        if self.shape.free:
            named.append(("free", "free", slice(None)))
        return named


def _layout(shape: Shape) -> tuple[list[tuple[str, tuple[int, ...]]], list[tuple[str, tuple[int, ...]]]]:
    """Names and shapes: weights first, so that weight decay is one slice."""
    count, widths = len(shape.towers), shape.hidden
    weights: list[tuple[str, tuple[int, ...]]] = []
    others: list[tuple[str, tuple[int, ...]]] = []
    for place, width in enumerate(widths):
        size = (shape.inputs, count * width) if place == 0 else (count, widths[place - 1], width)
        weights.append((f"weight.{place}", size))
        others.append((f"bias.{place}", (count, 1, width)))
        if shape.norm:
            others += [(f"gain.{place}", (count, 1, width)), (f"shift.{place}", (count, 1, width))]
    last = widths[-1] if widths else shape.inputs
    weights += [(f"head.{name}", (last, outputs)) for name, outputs in shape.towers]
    others += [(f"head_bias.{name}", (outputs,)) for name, outputs in shape.towers]
    return weights, [*others, ("free", (shape.free,))]


def _activate(kind: Activation, hidden: Array) -> None:
    if kind == "tanh":
        np.tanh(hidden, out=hidden)
    else:
        np.maximum(hidden, 0.0, out=hidden)


def _deactivate(kind: Activation, hidden: Array, gradient: Array, scratch: Array) -> None:
    """gradient ·= f′, from the activation's own output: 1 − h² or [h > 0]."""
    if kind == "tanh":
        np.multiply(hidden, hidden, out=scratch)
        np.subtract(1.0, scratch, out=scratch)
        gradient *= scratch
    else:
        gradient *= hidden > 0.0


def _orthogonal(rng: np.random.Generator, rows: int, columns: int, gain: float) -> NDArray[np.float64]:
    flat = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(flat)
    q *= np.sign(np.diagonal(r))
    return gain * (q if rows >= columns else q.T)


def _xavier(rng: np.random.Generator, rows: int, columns: int, gain: float) -> NDArray[np.float64]:
    limit = gain * math.sqrt(6.0 / (rows + columns))
    return rng.uniform(-limit, limit, (rows, columns))
