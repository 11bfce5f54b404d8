"""Model folders, and folders that are not models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from headway.kits.reply.device import where
from headway.kits.reply.model import LanguageModel
from headway.nouns.errors import Damaged, HeadwayError, InvalidInput, Unavailable


def spoiled(tiny: Path, folder: Path) -> Path:
    shutil.copytree(tiny, folder)
    return folder


def test_a_missing_folder_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="headway models add smollm2") as caught:
        LanguageModel.load(tmp_path / "none")
    assert caught.value.code == "model_missing"


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_without_its_parts_is_damaged(tiny: Path, tmp_path: Path, gone: str) -> None:
    folder = spoiled(tiny, tmp_path / "model")
    (folder / gone).unlink()
    with pytest.raises(Damaged) as caught:
        LanguageModel.load(folder, device="cpu")
    assert caught.value.code == "model_damaged"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_truncated_part_is_damaged(tiny: Path, tmp_path: Path, name: str) -> None:
    folder = spoiled(tiny, tmp_path / "model")
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged) as caught:
        LanguageModel.load(folder, device="cpu")
    assert caught.value.code == "model_damaged"


def test_pickled_weights_are_never_loaded(tiny: Path, tmp_path: Path) -> None:
    folder = spoiled(tiny, tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(Damaged, match="safetensors"):
        LanguageModel.load(folder, device="cpu")


def test_code_in_a_folder_is_never_run(tiny: Path, tmp_path: Path) -> None:
    folder = spoiled(tiny, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["model_type"] = "own"
    config["auto_map"] = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", "utf-8")
    with pytest.raises(HeadwayError):
        LanguageModel.load(folder, device="cpu")
    assert not (tmp_path / "ran").exists()


def test_a_model_of_another_kind_is_refused(tiny: Path, tmp_path: Path) -> None:
    folder = spoiled(tiny, tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"model_type": "t5", "is_encoder_decoder": True}), "utf-8")
    with pytest.raises(InvalidInput) as caught:
        LanguageModel.load(folder, device="cpu")
    assert caught.value.code == "model_unsupported"


def test_a_cpu_computes_in_float32_for_any_stored_format(tiny: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = spoiled(tiny, tmp_path / "model")
    AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.bfloat16).save_pretrained(folder)
    model = LanguageModel.load(folder, device="cpu")
    assert {parameter.dtype for parameter in model.reference.network.parameters()} == {torch.float32}


def test_bfloat16_on_a_cpu_is_refused_before_it_crashes() -> None:
    with pytest.raises(InvalidInput) as caught:
        where("cpu", "bfloat16")
    assert caught.value.code == "bad_dtype"


@pytest.mark.parametrize(("device", "dtype", "code"), [("gpu", "auto", "bad_device"), ("cpu", "int3", "bad_dtype")])
def test_unknown_devices_and_formats_are_refused(device: str, dtype: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        where(device, dtype)
    assert caught.value.code == code


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has one")
def test_a_missing_device_is_a_clear_error() -> None:
    with pytest.raises(HeadwayError) as caught:
        where("cuda")
    assert caught.value.code == "no_device"
    assert where().device.type in ("cpu", "mps")


def test_weights_and_template_have_hashes(tiny: Path, tmp_path: Path) -> None:
    model = LanguageModel.load(tiny, device="cpu")
    again = LanguageModel.load(spoiled(tiny, tmp_path / "model"), device="cpu")
    assert model.weights_hash == again.weights_hash
    assert len(model.weights_hash) == len(model.template_hash) == 64
