"""The recurrent network in torch: one step for acting, whole sequences for learning.

    network = RecurrentNetwork(shape, seed=7).to(device)
    output, memory = network.step(features, indices, memory)          # [copy, width], [copy, memory_width]
    output = network.sequence(features, indices, packed, memory)      # [row, width], rows in the order of `packed`
    network.scores(output)                                            # head → [row, choice], not masked
    network.value(output, lead)                                       # [row], normalised by PopArt

Parameters are named as in a bundle (`shapes.py`). Weights start orthogonal with gain √2, output layers with .01, the
LSTM's with gain 1 per gate, embeddings normal with deviation .02; the forget bias is 1, all others 0.

A memory is [hidden, cell] of each layer; with attention also the past outputs, newest first, and 1 for each that there
is. The output of the LSTM goes through LayerNorm; attention adds to it what it finds among the past outputs.

Needs the extra `learn`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.kits.grow.shapes import RecurrentShape
from headway.nouns import errors

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import layer_norm, linear, one_hot
except ModuleNotFoundError as error:
    raise errors.MissingExtra("The family 'recurrent'", "torch", "learn") from error


EPSILON = 1e-5  # of LayerNorm
LIMIT = 8.0  # of a scaled feature
_GATES = ("input", "hidden", "input_bias", "hidden_bias")


class RecurrentNetwork(nn.Module):
    """The network. `means` and `deviations` scale the features; `value_scale` is (mean, deviation) of returns."""

    columns: Tensor
    means: Tensor
    deviations: Tensor
    value_scale: Tensor

    def __init__(self, shape: RecurrentShape, *, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        rng = torch.Generator().manual_seed(seed)
        self.weights = nn.ParameterDict(
            {_key(name): nn.Parameter(_start(name, size, shape, rng)) for name, size in shape.tensors().items()}
        )
        stacks = ("value", *(f"head.{name}" for name in shape.space.names))
        self._depths = {name: _depth(name, shape) for name in stacks}
        self.lstms = nn.ModuleList([_lstm(self.weights, layer, shape.width) for layer in range(shape.layers)])
        kept = [column for column in range(shape.features) if column not in shape.dropped]
        self.register_buffer("columns", torch.tensor(kept, dtype=torch.int64), persistent=False)
        self.register_buffer("means", torch.zeros(shape.features))
        self.register_buffer("deviations", torch.ones(shape.features))
        self.register_buffer("value_scale", torch.tensor([0.0, 1.0]))

    def named(self) -> dict[str, nn.Parameter]:
        """The parameters by their names in a bundle."""
        return {name: self.weights[_key(name)] for name in self.shape.tensors()}

    def part(self, name: str) -> Tensor:
        tensor: Tensor = self.weights[_key(name)]
        return tensor

    # -- forward

    def encode(self, features: Tensor, indices: Tensor) -> Tensor:
        """[row, width]: what the LSTM sees."""
        scaled = ((features - self.means) / self.deviations).clamp(-LIMIT, LIMIT)
        parts = [scaled[:, self.columns] if self.shape.dropped else scaled]
        for column, vocabulary in enumerate(self.shape.indices):
            parts.append(self.part(f"embedding.{vocabulary}")[indices[:, column]])
        x = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        x = linear(x, self.part("encoder.weight"), self.part("encoder.bias"))
        return torch.relu(self._norm(x, "encoder.norm"))

    def step(self, features: Tensor, indices: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The output after one more observation, and the new memory."""
        x, width, kept = self.encode(features, indices), self.shape.width, []
        for layer in range(self.shape.layers):
            before = memory[:, 2 * layer * width : 2 * (layer + 1) * width]
            gates = [self.part(f"lstm.{layer}.{name}") for name in _GATES]
            hidden, cell = torch.lstm_cell(x, [before[:, :width], before[:, width:]], *gates)
            kept += [hidden, cell]
            x = x + hidden if layer and self.shape.residual else hidden
        output = self._norm(x, "lstm.norm")
        if self.shape.attention:
            past, there = self._past(memory)
            kept += _shifted(past, there, output)
            output = output + self._attend(output, past, there)
        after = torch.cat(kept, dim=1)
        return output, after if self.shape.remember else torch.zeros_like(after)

    def sequence(self, features: Tensor, indices: Tensor, packed: Packed, memory: Tensor) -> Tensor:
        """Outputs of many segments at once; features and indices [row, …] in packed order, memory [segment, …]."""
        x, width = self.encode(features, indices), self.shape.width
        for layer, lstm in enumerate(self.lstms):
            begin = 2 * layer * width
            state = tuple(
                memory[:, begin + part * width : begin + (part + 1) * width].contiguous()[None] for part in (0, 1)
            )
            hidden = lstm(nn.utils.rnn.PackedSequence(x, packed.sizes), state)[0].data
            x = x + hidden if layer and self.shape.residual else hidden
        output = self._norm(x, "lstm.norm")
        if self.shape.attention:
            past, there = self._past(memory)
            flat = torch.cat((output, past.reshape(-1, width), torch.zeros_like(output[:1])))
            place = packed.past(self.shape.attention, there)  # [row, past]: into `flat`
            output = output + self._attend(output, flat[place], (place < len(flat) - 1).to(output.dtype))
        return output

    def scores(self, output: Tensor) -> dict[str, Tensor]:
        """head → [row, choice], float32, not masked."""
        return {head.name: self._stack(f"head.{head.name}", output).float() for head in self.shape.space.heads}

    def value(self, output: Tensor, lead: Tensor | None) -> Tensor:
        """[row]: the normalised value; `lead` int [row], or shares [row, choice], for a critic that sees the choice."""
        if self.shape.critic != "state":
            assert lead is not None, "this critic sees the lead's choice"
            seen = one_hot(lead, self.shape.space.sizes[0]) if lead.ndim == 1 else lead
            output = torch.cat((output, seen.to(output.dtype)), dim=1)
        return self._stack("value", output)[:, 0].float()

    def values_by_lead(self, output: Tensor) -> Tensor:
        """[row, lead choice]: Q of every choice. The first layer is linear in the one-hot, so it runs once."""
        width = self.shape.width
        weight, bias = self.part("value.0.weight"), self.part("value.0.bias")
        first = linear(output, weight[:, :width], bias)[:, None] + weight[:, width:].t()[None]
        return linear(torch.relu(first), self.part("value.1.weight"), self.part("value.1.bias"))[..., 0].float()

    def _stack(self, name: str, x: Tensor) -> Tensor:
        last = self._depths[name]
        for depth in range(last):
            x = torch.relu(linear(x, self.part(f"{name}.{depth}.weight"), self.part(f"{name}.{depth}.bias")))
        return linear(x, self.part(f"{name}.{last}.weight"), self.part(f"{name}.{last}.bias"))

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return layer_norm(x, (self.shape.width,), self.part(f"{name}.weight"), self.part(f"{name}.bias"), EPSILON)

    def _past(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """([row, past, width], [row, past]): past outputs, newest first, and which there are."""
        count, width = self.shape.attention, self.shape.width
        begin = 2 * self.shape.layers * width
        past = memory[:, begin : begin + count * width].reshape(len(memory), count, width)
        return past, memory[:, begin + count * width :]

    def _attend(self, output: Tensor, past: Tensor, there: Tensor) -> Tensor:
        """[row, width]; 0 where there is no past."""
        query = linear(output, self.part("attention.query.weight"), self.part("attention.query.bias"))
        key = linear(past, self.part("attention.key.weight"), self.part("attention.key.bias"))
        content = linear(past, self.part("attention.content.weight"), self.part("attention.content.bias"))
        scores = (key * query[:, None]).sum(-1) / math.sqrt(self.shape.width) + self.part("attention.distance")
        shares = torch.softmax(scores.float().masked_fill(there < 0.5, -1e9), dim=-1) * there
        read = (shares.to(content.dtype)[..., None] * content).sum(1)
        result = linear(read, self.part("attention.result.weight"), self.part("attention.result.bias"))
        return result * there.amax(1, keepdim=True)

    # -- bundles

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Everything that the policy reads, as float32."""
        parts: dict[str, Any] = {**self.named(), "means": self.means, "deviations": self.deviations,
                                 "value_scale": self.value_scale}  # fmt: skip
        return {name: tensor.detach().float().cpu().numpy().copy() for name, tensor in parts.items()}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Any]) -> None:
        """Take over the tensors of a bundle or snapshot; KeyError or RuntimeError if they do not fit."""
        own: dict[str, Tensor] = {**self.named(), "means": self.means, "deviations": self.deviations,
                                  "value_scale": self.value_scale}  # fmt: skip
        for name, tensor in own.items():
            given = torch.as_tensor(np.asarray(tensors[name]))
            if given.shape != tensor.shape:
                raise ValueError(f"{name} has the size {tuple(given.shape)}, not {tuple(tensor.shape)}")
            tensor.copy_(given)


def _key(name: str) -> str:
    return name.replace(".", "/")  # torch does not allow dots in the names of parameters


def _lstm(weights: nn.ParameterDict, layer: int, width: int) -> nn.LSTM:
    """torch's LSTM on our parameters; it is the fused implementation that differs, not the numbers."""
    lstm = nn.LSTM(width, width)
    for own, name in zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), _GATES, strict=True):
        setattr(lstm, own, weights[_key(f"lstm.{layer}.{name}")])
    return lstm


def _shifted(past: Tensor, there: Tensor, output: Tensor) -> list[Tensor]:
    """The past outputs with the newest one added, flat."""
    newer = torch.cat((output[:, None], past[:, :-1]), dim=1)
    present = torch.cat((torch.ones_like(there[:, :1]), there[:, :-1]), dim=1)
    return [newer.reshape(len(past), -1), present]


def _start(name: str, size: tuple[int, ...], shape: RecurrentShape, rng: torch.Generator) -> Tensor:
    """The first value of a parameter."""
    values = torch.zeros(size)
    if name.startswith("embedding"):
        return values.normal_(0.0, 0.02, generator=rng)
    if name.endswith("norm.weight"):
        return torch.ones(size)
    if name.startswith("lstm") and len(size) == 2:
        for gate in values.chunk(4):
            nn.init.orthogonal_(gate, 1.0, generator=rng)
    elif name.endswith(".input_bias") and name.startswith("lstm"):
        values[shape.width : 2 * shape.width] = 1.0  # torch's gates: input, forget, cell, output
    elif name.endswith(".weight"):
        nn.init.orthogonal_(values, 0.01 if _is_output(name, shape) else math.sqrt(2.0), generator=rng)
    return values


def _depth(name: str, shape: RecurrentShape) -> int:
    """The number of the last layer of a head or of the value."""
    return sum(tensor.startswith(f"{name}.") and tensor.endswith(".weight") for tensor in shape.tensors()) - 1


def _is_output(name: str, shape: RecurrentShape) -> bool:
    """Whether it is the last layer of a head or of the value."""
    parts = name.split(".")
    if name == "attention.result.weight":
        return True
    return parts[0] in ("head", "value") and int(parts[-2]) == _depth(".".join(parts[:-2]), shape)


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packed:
    """The order of rows in which segments are learned from."""

    order: Tensor  # int64 [row]
    sizes: Tensor  # int64 [step], on the CPU
    first: Tensor  # int64 [segment]
    lengths: Ints  # [segment], longest first

    def past(self, count: int, there: Tensor) -> Tensor:
        """[row, count]: where the outputs before each row are, newest first.

        Among the rows in packed order, then the stored past of each segment ([segment, count], flat), then one row
        that stands for "none".
        """
        sizes = self.sizes.numpy()
        offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        rows, segments = int(sizes.sum()), len(self.lengths)
        step = np.repeat(np.arange(len(sizes)), sizes)
        segment = np.arange(rows) - offsets[step]
        stored = there.detach().cpu().numpy() > 0.5
        place = np.full((rows, count), rows + segments * count, dtype=np.int64)
        for back in range(1, count + 1):
            inside = step >= back
            place[inside, back - 1] = offsets[step[inside] - back] + segment[inside]
            older = back - 1 - step[~inside]  # the place among the stored ones, newest first
            known = stored[segment[~inside], older]
            place[np.flatnonzero(~inside)[known], back - 1] = rows + segment[~inside][known] * count + older[known]
        return torch.as_tensor(place, device=self.order.device)


def pack(begins: NDArray[np.bool_], rows: Ints, device: str = "cpu") -> Packed:
    """The packed order of these copies' segments."""
    length, count = begins.shape
    chosen = np.ascontiguousarray(begins[:, rows].T)  # [copy, time]
    chosen[:, 0] = True
    flat = np.flatnonzero(chosen)
    lengths = np.diff(np.append(flat, chosen.size))
    longest = np.argsort(-lengths, kind="stable")
    lengths, flat = lengths[longest], flat[longest]
    first = (flat % length) * count + rows[flat // length]
    sizes = (lengths[None] > np.arange(lengths[0])[:, None]).sum(axis=1)
    order = np.concatenate([first[:size] + step * count for step, size in enumerate(sizes.tolist())])
    return Packed(
        order=torch.as_tensor(order, device=device),
        sizes=torch.as_tensor(sizes.astype(np.int64)),
        first=torch.as_tensor(first.astype(np.int64), device=device),
        lengths=lengths,
    )
