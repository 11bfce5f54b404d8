"""Memory that is missing: said before a model is loaded, and by its name where it has run out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headway.kits.reply.engine import _broken
from headway.kits.reply.loading import quiet
from headway.kits.reply.model import LanguageModel
from headway.kits.reply.room import check_room, out_of_memory, weights_in
from headway.nouns.errors import Damaged, Unavailable


def test_the_weights_of_a_folder_are_counted_by_its_headers(tiny: Path) -> None:
    import torch
    from safetensors.torch import load_file

    stored = load_file(tiny / "model.safetensors")
    assert weights_in(tiny) == sum(int(torch.numel(tensor)) for tensor in stored.values())


def test_a_model_that_is_larger_than_the_memory_is_refused_before_it_is_read(tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "huge")
    header = json.dumps({"w": {"dtype": "F32", "shape": [10**7, 10**7], "data_offsets": [0, 4 * 10**14]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(Unavailable) as raised:
        LanguageModel.load(folder, device="cpu")
    assert raised.value.code == "no_memory"
    assert "need 400,000,000 MB of memory" in raised.value.message
    check_room(folder, bytes_each=1, free_mb=1e9)
    (folder / "model.safetensors").write_bytes(b"not a header")
    assert weights_in(folder) == 0, "whoever loads it says what is wrong with it"


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")]
)
def test_memory_that_runs_out_is_not_called_a_damaged_model(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(Unavailable) as raised, quiet(tmp_path):
        raise error
    assert raised.value.code == "no_memory"
    assert _broken(error).code == "no_memory"
    with pytest.raises(Damaged), quiet(tmp_path):
        raise RuntimeError("a tensor is missing")
    assert not out_of_memory(RuntimeError("a tensor is missing"))
    assert _broken(RuntimeError("a tensor is missing")).code == "worker_failed"
