"""The recurrent policy in numpy: scores of every head for observations, given the memory of the episode.

    policy = read(knobs, tensors, extra, None)
    opinions = policy.scores(Observations(features, indices), memory)       # memory [row, memory_width], zeros at first
    opinions.scores["op"], opinions.memory, opinions.value

**Sums are exact** (`decide.rounded`): what enters a matrix product is rounded to a grid, and weights are split into two
rounded parts, so that every product and partial sum fits into a float64. A row alone, the same row in a batch and the
same row replayed get equal bits. Scores are within 1e-5 of the network that was trained (`network.py`).

torch is never loaded. Not covered: masks and draws, which `decide.factored` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import damaged, rounded, tensor
from headway.kits.grow.factored.draw import probabilities
from headway.kits.grow.factored.space import FactoredOpinions, Observations
from headway.kits.grow.shapes import RecurrentShape
from headway.nouns import Encoder, Floats, errors

LIMIT, EPSILON = 8.0, 1e-5  # of a scaled feature, and of LayerNorm
# Grids of what enters a product, as (limit, bits after the point); limit and grid fit into 26 bits.
_FEATURES, _HIDDEN, _STATES = (8.0, 23), (32.0, 21), (1.0, 26)
_BITS = 26
_GATE = 28  # bits after the point of a gate, so that the last bit of exp does not matter


class RecurrentPolicy:
    """The policy. Immutable; safe from threads."""

    family = "recurrent"

    def __init__(self, shape: RecurrentShape, tensors: Mapping[str, Floats], knobs: Mapping[str, Any]) -> None:
        self.shape, self.space, self.knobs = shape, shape.space, dict(knobs)
        self.memory_width, self.features, self.indices = shape.memory_width, shape.features, shape.indices
        self.tensors = {name: np.array(values, np.float64) for name, values in tensors.items()}
        for values in self.tensors.values():
            values.flags.writeable = False
        self._turned = {
            name: _parts(values)
            for name, values in self.tensors.items()
            if values.ndim == 2 and not name.startswith("embedding")
        }
        self._columns = [column for column in range(shape.features) if column not in shape.dropped]

    def scores(self, observations: Observations, memory: Floats) -> FactoredOpinions:
        """Log-scores of every head, not masked; the memory after these observations; the value of the states."""
        self._check(observations, memory)
        output, after = self._step(self._encode(observations), np.asarray(memory, np.float64))
        seen = _on(output, _HIDDEN)
        scores = {head.name: self._stack(f"head.{head.name}", seen) for head in self.space.heads}
        return FactoredOpinions(scores, after, self._value(seen, scores))

    # -- the network

    def _encode(self, observations: Observations) -> Floats:
        features = (np.asarray(observations.features, np.float64) - self.tensors["means"]) / self.tensors["deviations"]
        parts = [np.clip(features, -LIMIT, LIMIT)[:, self._columns]]
        for column, vocabulary in enumerate(self.shape.indices):
            parts.append(self.tensors[f"embedding.{vocabulary}"][observations.indices[:, column]])
        x = self._linear("encoder", _on(np.concatenate(parts, axis=1), _FEATURES))
        return np.maximum(self._norm("encoder.norm", x), 0.0)

    def _step(self, x: Floats, memory: Floats) -> tuple[Floats, Floats]:
        width, kept = self.shape.width, []
        for layer in range(self.shape.layers):
            begin = 2 * layer * width
            hidden, cell = memory[:, begin : begin + width], memory[:, begin + width : begin + 2 * width]
            gates = self._product(f"lstm.{layer}.input", _on(x, _HIDDEN))
            gates += self._product(f"lstm.{layer}.hidden", _on(hidden, _STATES))
            gates += self.tensors[f"lstm.{layer}.input_bias"] + self.tensors[f"lstm.{layer}.hidden_bias"]
            admit, forget = _sigmoid(gates[:, :width]), _sigmoid(gates[:, width : 2 * width])
            new, show = _to(np.tanh(gates[:, 2 * width : 3 * width]), _GATE), _sigmoid(gates[:, 3 * width :])
            cell = forget * cell + admit * new
            hidden = _on(show * np.tanh(cell), _STATES)
            kept += [hidden, cell]
            x = x + hidden if layer and self.shape.residual else hidden
        output = self._norm("lstm.norm", x)
        if self.shape.attention:
            past, there = self._past(memory)
            newer = np.concatenate((output[:, None], past[:, :-1]), axis=1)
            kept += [newer.reshape(len(x), -1), np.concatenate((np.ones((len(x), 1)), there[:, :-1]), axis=1)]
            output = output + self._attend(output, past, there)
        after = np.concatenate(kept, axis=1)
        return output, after if self.shape.remember else np.zeros_like(after)

    def _past(self, memory: Floats) -> tuple[Floats, Floats]:
        count, width = self.shape.attention, self.shape.width
        begin = 2 * self.shape.layers * width
        return memory[:, begin : begin + count * width].reshape(-1, count, width), memory[:, begin + count * width :]

    def _attend(self, output: Floats, past: Floats, there: Floats) -> Floats:
        """What the past outputs add; the sums that are not exact run in a fixed order."""
        rows, count, width = past.shape
        flat = _on(past.reshape(rows * count, width), _HIDDEN)
        query = self._linear("attention.query", _on(output, _HIDDEN))
        key = self._linear("attention.key", flat).reshape(past.shape)
        content = self._linear("attention.content", flat).reshape(past.shape)
        scores = _to((key * query[:, None]).sum(-1) / math.sqrt(width) + self.tensors["attention.distance"], 30)
        scores = np.where(there > 0.5, scores, -1e9)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True)) * there
        total = shares.sum(axis=1)
        shares = _to(shares / np.where(total > 0.0, total, 1.0)[:, None], 24)
        read = np.zeros((rows, width))
        for place in range(count):
            read += shares[:, place, None] * content[:, place]
        added: Floats = self._linear("attention.result", _on(read, _HIDDEN)) * there.max(axis=1, keepdims=True)
        return added

    def _value(self, output: Floats, scores: Mapping[str, Floats]) -> Floats:
        mean, deviation = self.tensors["value_scale"]
        if self.shape.critic == "state":
            plain: Floats = self._stack("value", output)[:, 0] * deviation + mean
            return plain
        shares = probabilities(self.space, scores, {})[self.space.lead.name]
        value: Floats = np.zeros(len(output))
        for choice in range(self.space.sizes[0]):
            seen = np.zeros((len(output), self.space.sizes[0]))
            seen[:, choice] = 1.0
            value += shares[:, choice] * self._stack("value", np.concatenate((output, seen), axis=1))[:, 0]
        value *= deviation
        value += mean
        return value

    def _stack(self, name: str, x: Floats) -> Floats:
        depth = 0
        while f"{name}.{depth + 1}.weight" in self._turned:
            x = _on(np.maximum(self._linear(f"{name}.{depth}", x), 0.0), _HIDDEN)
            depth += 1
        return self._linear(f"{name}.{depth}", x)

    def _linear(self, name: str, x: Floats) -> Floats:
        result = self._product(f"{name}.weight", x)
        result += self.tensors[f"{name}.bias"]
        return result

    def _product(self, name: str, x: Floats) -> Floats:
        high, low = self._turned[name]
        result: Floats = x @ high
        result += x @ low
        return result

    def _norm(self, name: str, x: Floats) -> Floats:
        """LayerNorm; its sums run along one row in a fixed order."""
        width = x.shape[1]
        centred = x - x.sum(axis=1, keepdims=True) / width
        spread = np.sqrt((centred * centred).sum(axis=1, keepdims=True) / width + EPSILON)
        return _to(centred / spread * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"], 26)

    def _check(self, observations: Observations, memory: Floats) -> None:
        rows = len(observations)
        wanted = {"features": self.features, "indices": len(self.indices), "memory": self.memory_width}
        given = {"features": observations.features, "indices": observations.indices, "memory": memory}
        for name, width in wanted.items():
            if np.shape(given[name]) != (rows, width):
                raise errors.InvalidInput(
                    f"{name} has the shape {np.shape(given[name])}, not {(rows, width)}: "
                    f"the policy is {self.shape.label}.",
                    code="bad_shape",
                )
        for column, vocabulary in enumerate(self.indices):
            values: NDArray[Any] = np.asarray(observations.indices)[:, column]
            if values.dtype.kind not in "iu" or ((values < 0) | (values >= vocabulary)).any():
                raise errors.InvalidInput(
                    f"Column {column} of the indices has a value outside 0 … {vocabulary - 1}.", code="bad_shape"
                )
        if not np.isfinite(np.asarray(observations.features, np.float64)).all():
            raise errors.InvalidInput("An observation has a number that is not finite.", code="not_finite")


def _parts(weights: Floats) -> tuple[Floats, Floats]:
    """Weights [out, in] as two rounded parts [in, out], whose sum is the weights to about 40 bits."""
    high = rounded(weights, _BITS)
    return np.ascontiguousarray(high.T), np.ascontiguousarray(rounded(weights - high, _BITS).T)


def _to(values: Floats, bits: int) -> Floats:
    """Rounded to this many bits after the point."""
    kept: Floats = np.rint(values * 2.0**bits)
    kept *= 2.0**-bits
    return kept


def _on(values: Floats, grid: tuple[float, int]) -> Floats:
    """Within the limits of a grid, and on it."""
    limit, bits = grid
    return _to(np.clip(values, -limit, limit), bits)


def _sigmoid(values: Floats) -> Floats:
    return _to(0.5 * (1.0 + np.tanh(0.5 * values)), _GATE)


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None = None
) -> RecurrentPolicy:
    """The policy of a bundle, whose content is untrusted."""
    shape = RecurrentShape.from_json(extra.get("shape"))
    sizes = {**shape.tensors(), "means": (shape.features,), "deviations": (shape.features,), "value_scale": (2,)}
    values = {name: tensor(tensors, name, *size, limit=1e6, float32=True) for name, size in sizes.items()}
    if not (values["deviations"] > 0.0).all():
        raise damaged("The bundle scales a feature by 0", "bad_tensor")
    return RecurrentPolicy(shape, values, knobs)
