"""SmolLM2-135M-Instruct from its GGUF into a Hugging Face folder, without torch: about two CPU seconds.

The weights are the exact float32 values of the quantised file (transformers' own reader gives the same bits). The
tokeniser's rules are the original's, including single digits; the GGUF contains only their name. GGUF is read here as
far as it is needed (F32, F16, Q8_0, Q4_0, Q4_1): the package `gguf` creates an array per token, which takes 11 s.
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Progress, errors

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL = 3  # the type of control tokens, which are never text


def convert(source: Path, into: Path, progress: Progress) -> None:
    """Write the config, weights, tokeniser and chat template of the GGUF file `source` into a folder."""
    content = read(source)
    fields = content.fields
    if fields.get("general.architecture") != "llama" or fields.get("tokenizer.ggml.pre") != "smollm":
        raise errors.Damaged(f"{source.name} is not SmolLM2.", code="model_damaged")
    _write(into / "config.json", _config(fields))
    ids = {key: fields[f"tokenizer.ggml.{key}"] for key in ("bos_token_id", "eos_token_id")}
    pad = fields["tokenizer.ggml.padding_token_id"]
    _write(into / "generation_config.json", {"_from_model_config": True, **ids, "pad_token_id": pad})
    _tokenizer(fields, into)
    _weights(content, into / "model.safetensors", progress)


def _config(fields: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "hidden_act": "silu",
        "hidden_size": fields["llama.embedding_length"],
        "initializer_range": 0.041666666666666664,
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "mlp_bias": False,
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": fields["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "dtype": "float32",
        "use_cache": True,
        "vocab_size": fields["llama.vocab_size"],
    }


def _tokenizer(fields: Any, into: Path) -> None:
    tokens = fields["tokenizer.ggml.tokens"]
    kinds = fields["tokenizer.ggml.token_type"]
    special = [(at, token) for at, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind == _CONTROL]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": at, "content": token, **flags} for at, token in special]
    digits = {"type": "Digits", "individual_digits": True}
    pieces = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, pieces]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: at for at, token in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in fields["tokenizer.ggml.merges"]],
        },
    }
    _write(into / "tokenizer.json", whole)
    named = {
        f"{name}_token": tokens[fields[f"tokenizer.ggml.{key}_token_id"]]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    }
    # Not GPT2Tokenizer: that class would replace the file's rules with its own.
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "additional_special_tokens": [named["bos_token"], named["eos_token"]],
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
        "chat_template": fields["tokenizer.chat_template"],
        **named,
    }
    _write(into / "tokenizer_config.json", settings)


def _weights(content: Gguf, into: Path, progress: Progress) -> None:
    from safetensors.numpy import save_file

    fields = content.fields
    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    tensors: dict[str, NDArray[np.float32]] = {}
    for done, name in enumerate(content.places, start=1):
        parts = name.split(".")
        weight = content.tensor(name)
        if name == "token_embd.weight":
            tensors["model.embed_tokens.weight"] = weight
        elif name == "output_norm.weight":
            tensors["model.norm.weight"] = weight
        elif len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER:
            if parts[2] in heads:
                weight = _unpaired(weight, heads[parts[2]])
            tensors[f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.weight"] = np.ascontiguousarray(weight)
        else:
            raise errors.Damaged(
                f"The GGUF file has a tensor {name!r} that SmolLM2 does not have.", code="model_damaged"
            )
        progress("converting smollm2", done, len(content.places))
    if len(tensors) != 2 + len(_LAYER) * fields["llama.block_count"]:
        raise errors.Damaged(
            f"The GGUF file has {len(tensors)} tensors, which is not the number that SmolLM2 has.", code="model_damaged"
        )
    save_file(tensors, into, metadata={"format": "pt"})


def _unpaired(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo the order of q and k in GGUF, which pairs rotary dimensions (0, 1); Hugging Face pairs (0, half)."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


Array = NDArray[np.float32]

# value type → struct letter
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# tensor type → (name, values per block, bytes per block)
_TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 8: ("Q8_0", 32, 34)}


@dataclass(frozen=True, slots=True)
class _Place:
    shape: tuple[int, ...]  # in numpy's order: the slowest dimension first
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class Gguf:
    """A GGUF file: its metadata, and its tensors on demand."""

    fields: Mapping[str, Any]
    places: Mapping[str, _Place]
    data: NDArray[np.uint8]

    def tensor(self, name: str) -> Array:
        """A tensor as float32."""
        place = self.places.get(name)
        if place is None:
            raise errors.Damaged(f"The GGUF file has no tensor {name!r}.", code="model_damaged")
        _, values, size = _TYPES[place.kind]
        count = int(np.prod(place.shape))
        raw = self.data[place.offset : place.offset + count // values * size]
        if count % values or len(raw) != count // values * size:
            raise errors.Damaged(f"The GGUF file ends inside {name!r}.", code="model_damaged")
        return _UNPACK[place.kind](raw).reshape(place.shape)


class _Cursor:
    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, letters: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + letters, self.data, self.at)
        self.at += struct.calcsize("<" + letters)
        return values

    def text(self) -> str:
        (length,) = self.take("Q")
        raw = bytes(self.data[self.at : self.at + length])
        if len(raw) != length:
            raise struct.error("a text ends early")
        self.at += length
        return raw.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.take("IQ")
            if inner in _SCALARS:
                return list(self.take(f"{count}{_SCALARS[inner]}"))
            return [self.value(inner) for _ in range(count)]
        return self.take(_SCALARS[kind])[0]


def read(path: Path) -> Gguf:
    """Read the metadata; tensors stay on the disk until they are used."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    cursor = _Cursor(memoryview(data.data))
    try:
        magic, version, tensors, pairs = cursor.take("4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"it starts with {magic!r}, version {version}")
        fields: dict[str, Any] = {}
        for _ in range(pairs):
            name = cursor.text()
            fields[name] = cursor.value(cursor.take("I")[0])
        places: dict[str, _Place] = {}
        for _ in range(tensors):
            name, (rank,) = cursor.text(), cursor.take("I")
            shape = cursor.take(f"{rank}Q")
            kind, offset = cursor.take("IQ")
            if kind not in _TYPES:
                raise ValueError(f"tensor {name!r} has the unsupported type {kind}")
            places[name] = _Place(tuple(reversed(shape)), kind, offset)
    except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise errors.Damaged(f"{path.name} is not a readable GGUF file: {error}.", code="model_damaged") from error
    step = int(fields.get("general.alignment", 32))
    return Gguf(fields, places, data[-(-cursor.at // step) * step :])


def _f32(raw: NDArray[np.uint8]) -> Array:
    return raw.view("<f4").astype(np.float32)


def _f16(raw: NDArray[np.uint8]) -> Array:
    return raw.view("<f2").astype(np.float32)


def _nibbles(packed: NDArray[np.uint8]) -> Array:
    """[block, 16] bytes → [block, 32]: the low halves first, then the high ones."""
    return np.concatenate((packed & 0x0F, packed >> 4), axis=1).astype(np.float32)


def _q8_0(raw: NDArray[np.uint8]) -> Array:
    blocks = raw.reshape(-1, 34)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return scale * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q4_0(raw: NDArray[np.uint8]) -> Array:
    blocks = raw.reshape(-1, 18)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return scale * (_nibbles(blocks[:, 2:]) - np.float32(8))


def _q4_1(raw: NDArray[np.uint8]) -> Array:
    blocks = raw.reshape(-1, 20)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    least = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    return scale * _nibbles(blocks[:, 4:]) + least


_UNPACK = {0: _f32, 1: _f16, 2: _q4_0, 3: _q4_1, 8: _q8_0}
