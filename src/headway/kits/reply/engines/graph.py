"""A Llama- or Qwen-like model as an OpenVINO graph, built from its safetensors.

It is built as a graph whose state are keys and values, and then turned into one with paged attention, as OpenVINO
GenAI does it: the tokens of all rows are one axis, and keys and values are inputs, in blocks (paged.py). Inputs:
input_ids and position_ids [token], `last` [row]: the tokens after which logits are wanted, and where each row's tokens
and blocks are. Output: logits [row, vocabulary].

An adapter is either in the weights, W + s·b·a, or an input: with a rank, each linear layer has two more inputs, the
matrices of an adapter, y = x·Wᵀ + (a·xᵀ)ᵀ·b. The adapters of layers that read the same input are one product: q, k and
v; gate and up. They stand one above the other in `a` and block by block in `b`. With `a` in front, OpenVINO packs the
batch and not the adapter, which is larger. Weights that no adapter changes are read from the mapped files.

openvino >= 2026.2. Two transformations have no public name and are imported from `_offline_transformations`: paged
attention, which many replies at once need, and float16 constants, which keep a model in half of the memory. Nothing
else of Headway uses a private name of OpenVINO; tests/architecture/test_private_names.py fails when these change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.files import open_regular, read_regular
from headway.nouns import errors

try:
    import openvino as ov
    from openvino import opset13 as op

    # Stores constants in float16 and marks them; without the mark, compiling turns them into float32 again.
    # Replaces the state of a graph by paged attention, as OpenVINO GenAI does it.
    from openvino._offline_transformations import (
        compress_model_transformation as compress,
        paged_attention_transformation as page,
    )
except ImportError as error:
    raise errors.MissingExtra("The engine 'openvino'", "openvino", "language") from error

GROUPS: Mapping[str, tuple[str, ...]] = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "o": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
_FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "smollm3")
_PREFIX = "base_model.model."  # of PEFT's names


class GraphAdapter(NamedTuple):
    """A LoRA adapter: PEFT's tensors, and alpha / rank."""

    tensors: Mapping[str, Any]
    scale: float

    def change(self, name: str) -> Any:
        """What it adds to the weights of a layer; None if it has nothing for it."""
        a = self.tensors.get(f"{_PREFIX}{name}.lora_A.weight")
        return None if a is None else np.float32(self.scale) * (self.tensors[f"{_PREFIX}{name}.lora_B.weight"] @ a)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a model, from its config.json."""

    layers: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    width: int  # of one head
    epsilon: float
    theta: float
    tied: bool

    @property
    def outputs(self) -> Mapping[str, tuple[int, ...]]:
        """The width of each layer of a group."""
        query, key = self.heads * self.width, self.key_heads * self.width
        return {
            "qkv": (query, key, key),
            "o": (self.hidden,),
            "gate_up": (self.inner, self.inner),
            "down": (self.hidden,),
        }

    def inputs(self, group: str) -> int:
        return {"o": self.heads * self.width, "down": self.inner}.get(group, self.hidden)


def shape_of(folder: Path) -> ModelShape | None:
    """The sizes of the folder's model; None if this graph does not cover it."""
    try:
        config: dict[str, Any] = json.loads(read_regular(folder / "config.json"))
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        if not _covered(config, rope):
            return None
        heads = int(config["num_attention_heads"])
        return ModelShape(
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            inner=int(config["intermediate_size"]),
            heads=heads,
            key_heads=int(config.get("num_key_value_heads") or heads),
            width=int(config.get("head_dim") or config["hidden_size"] // heads),
            epsilon=float(config["rms_norm_eps"]),
            theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            tied=bool(config.get("tie_word_embeddings", False)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OSError):
        return None


def _covered(config: Mapping[str, Any], rope: Mapping[str, Any]) -> bool:
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    return (
        config.get("model_type") in _FAMILIES
        and config.get("hidden_act") == "silu"
        and rope.get("rope_type", rope.get("type", "default")) == "default"
        and "no_rope_layers" not in config
        and not config.get("quantization_config")
        and (window is None or window >= config["max_position_embeddings"])
    )


def build(
    folder: Path, shape: ModelShape, *, rank: int = 0, adapter: GraphAdapter | None = None, weights: str = "float32"
) -> ov.Model:
    """The graph of a folder.

    `rank`: of the adapters that it takes as inputs; 0: none. `adapter`: added to the weights. `weights`: float32,
    float16 or int8.
    """
    from safetensors.torch import load_file  # numpy has no bfloat16

    tensors: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        os.close(open_regular(path, follow=True))  # safetensors would wait for a pipe
        tensors.update(load_file(path))
    model = _Builder(tensors, shape, rank, adapter, weights).model()
    page(model)
    if weights == "float16":
        compress(model)
    return model


def _whole(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


def _number(value: float) -> Any:
    return op.constant(np.float32(value))


class _Builder:
    """Adds node by node; tensors are taken by their names in the folder."""

    def __init__(
        self, tensors: Mapping[str, Any], shape: ModelShape, rank: int, adapter: GraphAdapter | None, weights: str
    ) -> None:
        self.tensors, self.shape, self.rank, self.adapter, self.weights = tensors, shape, rank, adapter, weights
        self.ids = op.parameter([-1, -1], ov.Type.i64, name="input_ids")
        self.mask = op.parameter([-1, -1], ov.Type.i64, name="attention_mask")
        self.places = op.parameter([-1, -1], ov.Type.i64, name="position_ids")
        self.beam = op.parameter([-1], ov.Type.i32, name="beam_idx")
        self.last = op.parameter([-1], ov.Type.i64, name="last")
        self.inputs = [self.ids, self.mask, self.places, self.beam, self.last]
        self.sinks: list[Any] = []

    def model(self) -> ov.Model:
        shape, zero = self.shape, op.constant(np.int64(0))
        embeddings = self._tensor("model.embed_tokens.weight")
        self.sizes = op.shape_of(self.ids)  # rows and tokens
        self.rows = op.gather(self.sizes, _whole(0), zero)
        self.cos, self.sin = self._rotation()
        # Paging replaces the mask: a row sees its own earlier tokens, and only those.
        self.bias = op.unsqueeze(op.convert(self.mask, ov.Type.f32), _whole(1, 2))
        tokens = op.reshape(self.ids, _whole(-1), special_zero=False)
        hidden = op.gather(op.constant(embeddings, shared_memory=True), tokens, zero)
        for layer in range(shape.layers):
            name = f"model.layers.{layer}."
            hidden = op.add(hidden, self._attention(layer, self._norm(hidden, f"{name}input_layernorm.weight")))
            inner = self._norm(hidden, f"{name}post_attention_layernorm.weight")
            gate, up = self._linear(inner, layer, "gate_up")
            (down,) = self._linear(op.multiply(op.swish(gate), up), layer, "down")
            hidden = op.add(hidden, down)
        last = self._norm(op.gather(hidden, self.last, zero), "model.norm.weight")
        head = embeddings if shape.tied else self._tensor("lm_head.weight")
        return ov.Model([op.result(self._product(last, head))], self.sinks, self.inputs, "language")

    def _tensor(self, name: str) -> Any:
        return self.tensors[name].float().numpy()

    def _product(self, hidden: Any, matrix: Any) -> Any:
        """hidden·matrixᵀ, with the matrix stored in the chosen format."""
        if self.weights == "int8":
            scale = np.maximum(np.abs(matrix).max(1, keepdims=True), 1e-12) / 127.0
            whole = op.constant(np.rint(matrix / scale).astype(np.int8))
            stored = op.multiply(op.convert(whole, ov.Type.f32), op.constant(scale.astype(np.float32)))
        else:
            stored = op.constant(matrix, shared_memory=True)
        return op.matmul(hidden, stored, False, True)

    def _linear(self, hidden: Any, layer: int, group: str) -> list[Any]:
        """The layers of a group, each with its bias and its adapter."""
        names, widths = [f"model.layers.{layer}.{name}" for name in GROUPS[group]], self.shape.outputs[group]
        products = [self._dense(hidden, name) for name in names]
        if not self.rank:
            return products
        rank = self.rank * len(names)
        a = op.parameter([rank, self.shape.inputs(group)], ov.Type.f32, name=f"a.{layer}.{group}")
        b = op.parameter([rank, sum(widths)], ov.Type.f32, name=f"b.{layer}.{group}")
        self.inputs += [a, b]
        changes = op.matmul(op.matmul(a, hidden, False, True), b, True, False)
        parts = op.variadic_split(changes, op.constant(np.int64(-1)), _whole(*widths))
        return [op.add(product, parts.output(place)) for place, product in enumerate(products)]

    def _dense(self, hidden: Any, name: str) -> Any:
        matrix, change = self._tensor(f"{name}.weight"), self.adapter and self.adapter.change(name)
        product = self._product(hidden, matrix if change is None else matrix + change)
        bias = f"{name}.bias"
        return op.add(product, op.constant(self._tensor(bias))) if bias in self.tensors else product

    def _norm(self, hidden: Any, name: str) -> Any:
        """RMS normalisation over the last axis."""
        mean = op.reduce_mean(op.power(hidden, _number(2.0)), _whole(-1), True)
        scale = op.divide(_number(1.0), op.sqrt(op.add(mean, _number(self.shape.epsilon))))
        return op.multiply(op.multiply(hidden, scale), op.constant(self._tensor(name)))

    def _attention(self, layer: int, hidden: Any) -> Any:
        shape = self.shape
        query, key, value = self._linear(hidden, layer, "qkv")
        name = f"model.layers.{layer}.self_attn."
        query = self._heads(query, shape.heads, f"{name}q_norm.weight")
        key = self._heads(key, shape.key_heads, f"{name}k_norm.weight")
        value = self._heads(value, shape.key_heads, "")
        keys = self._remembered(self._rotated(key), f"key.{layer:04}")
        values = self._remembered(value, f"value.{layer:04}")
        attended = op.scaled_dot_product_attention(self._rotated(query), keys, values, self.bias)
        joined = op.reshape(
            op.transpose(attended, _whole(0, 2, 1, 3)), _whole(-1, shape.heads * shape.width), special_zero=False
        )
        (output,) = self._linear(joined, layer, "o")
        return output

    def _heads(self, flat: Any, count: int, norm: str) -> Any:
        """[row·token, count·width] → [row, head, token, width]"""
        split = op.reshape(flat, op.concat([self.sizes, _whole(count, self.shape.width)], 0), special_zero=False)
        if norm in self.tensors:
            split = self._norm(split, norm)
        return op.transpose(split, _whole(0, 2, 1, 3))

    def _remembered(self, new: Any, name: str) -> Any:
        """New keys or values behind the earlier ones, in the form that OpenVINO recognises and replaces by blocks."""
        shape = self.shape
        sizes = op.concat([self.rows, _whole(shape.key_heads), _whole(0), _whole(shape.width)], 0)
        past = op.read_value(
            op.broadcast(_number(0.0), sizes),
            name,
            ov.Type.f32,
            ov.PartialShape([-1, shape.key_heads, -1, shape.width]),
        )
        whole = op.concat([op.gather(past, self.beam, op.constant(np.int64(0))), new], 2)
        self.sinks.append(op.assign(whole, name))
        shared = shape.heads // shape.key_heads
        if shared == 1:
            return whole
        wide = op.broadcast(op.unsqueeze(whole, _whole(2)), _whole(1, 1, shared, 1, 1), broadcast_spec="BIDIRECTIONAL")
        return op.reshape(wide, _whole(0, shape.heads, -1, shape.width), special_zero=True)

    def _rotation(self) -> tuple[Any, Any]:
        """cos and sin of the rotary positions, [row, 1, token, width]."""
        width = self.shape.width
        frequency = (self.shape.theta ** (-np.arange(0, width, 2) / width)).astype(np.float32)
        place = op.unsqueeze(op.convert(self.places, ov.Type.f32), _whole(1, 3))
        angle = op.multiply(place, op.constant(frequency[None, None, None]))
        both = op.concat([angle, angle], -1)
        return op.cos(both), op.sin(both)

    def _rotated(self, vectors: Any) -> Any:
        """Rotary positions, in the form that OpenVINO recognises as one operation (it wants the axis as 3, not -1)."""
        half = self.shape.width // 2
        parts = op.variadic_split(vectors, op.constant(np.int64(3)), _whole(half, half))
        swapped = op.concat([op.multiply(parts.output(1), _number(-1.0)), parts.output(0)], -1)
        return op.add(op.multiply(vectors, self.cos), op.multiply(swapped, self.sin))


def adapter_inputs(shape: ModelShape, rank: int, adapter: GraphAdapter) -> dict[str, Any]:
    """An adapter as the inputs of a graph of this rank; layers without an adapter get zeros."""
    inputs: dict[str, Any] = {}
    for layer in range(shape.layers):
        for group, names in GROUPS.items():
            widths: Sequence[int] = shape.outputs[group]
            a = np.zeros((rank * len(names), shape.inputs(group)), np.float32)
            b = np.zeros((rank * len(names), sum(widths)), np.float32)
            for place, name in enumerate(names):
                full = f"{_PREFIX}model.layers.{layer}.{name}"
                if f"{full}.lora_A.weight" not in adapter.tensors:
                    continue
                first, second = adapter.tensors[f"{full}.lora_A.weight"], adapter.tensors[f"{full}.lora_B.weight"]
                rows, start = slice(place * rank, place * rank + first.shape[0]), sum(widths[:place])
                a[rows] = first
                b[rows, start : start + widths[place]] = second.T * adapter.scale
            inputs[f"a.{layer}.{group}"], inputs[f"b.{layer}.{group}"] = a, b
    return inputs
