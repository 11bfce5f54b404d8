"""Adapters in the weights: the same text, in replies that are already running, and only while there is room."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from headway.kits.models.language import Prompt
from headway.kits.reply import adapters
from headway.kits.reply.batch import RunningBatch
from headway.kits.reply.client import LanguageWorker
from headway.kits.reply.engines.openvino import BlockPool, PagedCache
from headway.kits.reply.model import LanguageModel
from headway.nouns.errors import Conflict, UnknownName
from tests.kits.reply.test_adapters_in_use import TEXTS, adapter, by_peft
from tests.kits.reply.test_worker import working

PROMPTS = [Prompt(text=text, max_tokens=24, temperature=0) for text in TEXTS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adapters")


def test_a_fused_adapter_writes_the_text_of_peft_and_leaves_the_base_alone(tiny: Path, made: Path) -> None:
    model = LanguageModel.load(tiny, device="cpu", rank=16)
    model.add_adapter("one", adapter(tiny, made))
    before = model.generate(PROMPTS)
    live = model.generate(PROMPTS, adapter="one")
    assert model.fuse("one")
    assert model.engine.fused == ("one",)
    fused = model.generate(PROMPTS, adapter="one")
    assert [list(reply.tokens) for reply in fused] == by_peft(tiny, adapter(tiny, made), TEXTS)
    for mine, other in zip(fused, live, strict=True):
        assert mine.logprob_model == pytest.approx(other.logprob_model, abs=1e-4)
        assert mine.logprob_model != other.logprob_model  # it was another graph
    assert model.generate(PROMPTS) == before
    assert model.fuse("")
    assert [reply.tokens for reply in model.generate(PROMPTS)] == [reply.tokens for reply in before]
    assert not model.fuse("one")


def test_a_running_reply_goes_on_in_the_weights(tiny: Path, made: Path) -> None:
    model = LanguageModel.load(tiny, device="cpu", rank=4)
    model.add_adapter("one", adapter(tiny, made))
    alone = model.generate(PROMPTS[1:], adapter="one")
    requests = [model.request(prompt) for prompt in PROMPTS[1:]]
    batch, done = RunningBatch(model, adapter="one"), {}
    batch.add(requests[0])
    for step in range(40):
        if step == 5:
            assert model.fuse("one")
            batch.add(requests[1])
        done.update({id(request): delta.completion for request, delta in batch.step() if delta.completion})
    assert [done[id(request)].tokens for request in requests] == [reply.tokens for reply in alone]


def test_the_least_recently_used_makes_room_and_a_dropped_one_is_gone(tiny: Path, made: Path) -> None:
    model = LanguageModel.load(tiny, device="cpu", rank=4)
    for seed, name in enumerate(("one", "two")):
        model.add_adapter(name, adapter(tiny, made, seed=seed))
        model.fuse(name)
    model.generate(PROMPTS[:1], adapter="one")
    model.fuse("")
    assert set(model.engine.fused) == {"one", ""}
    assert model.generate(PROMPTS[:1], adapter="two")  # as an input again
    model.drop_adapter("one")
    assert model.engine.fused == ("",)
    with pytest.raises(UnknownName):
        model.engine.fuse("one")


def test_nothing_is_fused_without_memory_or_in_int8(tiny: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = LanguageModel.load(tiny, device="cpu", dtype="int8", rank=4)
    small.add_adapter("one", adapter(tiny, made))
    assert not small.fuse("one")
    model = LanguageModel.load(tiny, device="cpu", rank=4)
    monkeypatch.setattr("headway.kits.reply.room.weights_in", lambda _: 10**15)
    assert not model.fuse("")


def test_weights_that_were_replaced_meanwhile_are_not_mixed_in(tiny: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny, tmp_path / "model")
    model = LanguageModel.load(folder, device="cpu", rank=4)
    os.utime(folder / "model.safetensors", ns=(1, 1))
    with pytest.raises(Conflict) as error:
        model.fuse("")
    assert error.value.code == "model_changed"


def test_a_worker_fuses_what_it_uses(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_AFTER", 8)
    said: list[str] = []
    with working(tmp_path / "project", say=said.append) as work:
        asked = LanguageWorker(tmp_path / "project", tiny)
        first = asked.generate(PROMPTS)
        work._engine._fuser.wait(60)
        second = asked.generate(PROMPTS)
    assert [reply.tokens for reply in first] == [reply.tokens for reply in second]
    assert [line for line in said if "compiled" in line] == [f"{tiny.name} is compiled without adapters."]


def test_a_failure_leaves_the_adapter_an_input(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = LanguageModel.load(tiny, device="cpu", rank=4)

    def broken(_: str) -> bool:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(model, "fuse", broken)
    fuser = adapters.AdapterFuser(print)
    fuser.wrote(model, "", adapters._AFTER)
    fuser.wait(60)
    assert "no compiler" in caplog.text
    assert model.generate(PROMPTS[:1])


def test_transformers_runs_what_openvino_refuses(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from headway.kits.reply.engines import openvino

    def refuses(*_: object, **__: object) -> None:
        raise RuntimeError("Paged attention is not implemented here\n(and a long trace)")

    monkeypatch.setattr(openvino, "build", refuses)
    model = LanguageModel.load(tiny, device="cpu")
    assert type(model.engine).__name__ == "TransformersEngine"
    assert not model.fuse("")
    assert "Paged attention is not implemented here" in caplog.text


def test_transformers_runs_models_where_openvino_cannot_page(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("openvino._offline_transformations.paged_attention_transformation")
    for name in ("openvino", "graph", "paged", "runtime"):  # imported again, as in a process that just began
        monkeypatch.delitem(sys.modules, f"headway.kits.reply.engines.{name}", raising=False)
    model = LanguageModel.load(tiny, device="cpu")
    assert type(model.engine).__name__ == "TransformersEngine"


# -- blocks


def pool() -> BlockPool:
    return BlockPool({"key_cache.0": (1, 4, 2), "value_cache.0": (1, 4, 2)}, block=4)


def test_a_pool_grows_keeps_what_it_has_and_takes_blocks_back() -> None:
    blocks = pool()
    cache = PagedCache(blocks, "")
    with pytest.raises(IndexError):
        cache.keep(torch.tensor([0]))
    from headway.kits.reply.engines.openvino import PagedRow

    cache.rows.extend([PagedRow(), PagedRow()])
    blocks.extend(cache.rows[0], 9)
    assert len(cache.rows[0].blocks) == 3
    blocks.tensors["key_cache.0"].data[cache.rows[0].blocks] = 7.0
    version = blocks.version
    blocks.extend(cache.rows[1], 4 * 40)
    assert blocks.version is not version
    assert np.all(blocks.tensors["key_cache.0"].data[cache.rows[0].blocks] == 7.0)
    cache.keep(torch.tensor([0, 0]))  # the second row leaves; the first is there twice, each with its own blocks
    first, second = cache.rows
    assert not set(first.blocks) & set(second.blocks)
    assert np.all(blocks.tensors["key_cache.0"].data[second.blocks] == 7.0)
    other = PagedCache(blocks, "")
    other.join(cache)
    del cache
    assert other.rows == [first, second]
    free = len(blocks._free)
    del other
    assert len(blocks._free) == free + 6


def test_a_pool_is_small_again_after_a_burst() -> None:
    from headway.kits.reply.engines.openvino import PagedRow

    blocks = pool()
    burst, alone = [PagedRow() for _ in range(20)], PagedRow()
    for row in burst:
        blocks.extend(row, 4 * 8)
    large = blocks.tensors["key_cache.0"].shape[0]
    assert large >= 160
    blocks.release(burst[1:])
    blocks.extend(alone, 1)
    assert blocks.tensors["key_cache.0"].shape[0] == large, "the first of the burst is still written"
    blocks.release([burst[0], alone])
    blocks.extend(alone, 9)
    assert blocks.tensors["key_cache.0"].shape[0] == 16
    assert len(set(alone.blocks)) == 3
    assert len(blocks._free) == 13


def test_no_reply_reads_what_another_left_in_a_block(tiny: Path) -> None:
    model = LanguageModel.load(tiny, device="cpu")
    before = model.generate(PROMPTS)
    for tensor in model.engine._pool.tensors.values():
        tensor.data[:] = np.nan
    assert model.generate(PROMPTS) == before
