"""SmolLM2-135M-Instruct from its GGUF into a Hugging Face folder, without torch: about two CPU seconds.

The weights are the exact float32 values of the quantised file (transformers' own reader gives the same bits). The
tokeniser's rules are the original's, including single digits; the GGUF contains only their name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.models.gguf import Gguf, read
from headway.nouns import Damaged, Progress

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
        raise Damaged(f"{source.name} is not SmolLM2.", code="model_damaged")
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
            raise Damaged(f"The GGUF file has a tensor {name!r} that SmolLM2 does not have.", code="model_damaged")
        progress("converting smollm2", done, len(content.places))
    if len(tensors) != 2 + len(_LAYER) * fields["llama.block_count"]:
        raise Damaged(
            f"The GGUF file has {len(tensors)} tensors, which is not the number that SmolLM2 has.", code="model_damaged"
        )
    save_file(tensors, into, metadata={"format": "pt"})


def _unpaired(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo the order of q and k in GGUF, which pairs rotary dimensions (0, 1); Hugging Face pairs (0, half)."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
