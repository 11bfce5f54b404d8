"""Adapters while a model runs: the text of PEFT, switched without touching running replies."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.kits.models.language import Prompt
from headway.kits.reply.batch import RunningBatch
from headway.kits.reply.model import LanguageModel
from headway.nouns.errors import Conflict, Damaged, UnknownName

TEXTS = ["a", "The quick brown fox", "0123456789" * 5]


@cache
def adapter(base: Path, into: Path, seed: int = 0, rank: int = 4, targets: str = "all-linear") -> Path:
    """A random adapter that changes every token, as PEFT saves it."""
    import peft
    import transformers

    torch.manual_seed(seed)
    network: Any = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    wanted: Any = targets if targets == "all-linear" else targets.split(",")
    tuned: Any = peft.get_peft_model(network, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=wanted))
    for name, parameter in tuned.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    folder = into / f"{seed}-{rank}-{targets}"
    tuned.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adapters")


def by_peft(base: Path, folder: Path, prompts: list[str]) -> list[list[int]]:
    import peft
    import transformers

    network: Any = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    tuned: Any = peft.PeftModel.from_pretrained(network, folder).eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(base)
    replies = []
    for text in prompts:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            reply = tuned.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=24,
                do_sample=False,
                pad_token_id=259,
            )
        replies.append(reply[0, ids.shape[1] :].tolist())
    return replies


@pytest.mark.parametrize("name", ["openvino", pytest.param("transformers", marks=pytest.mark.slow)])
@pytest.mark.parametrize("targets", ["all-linear", pytest.param("q_proj,v_proj", marks=pytest.mark.slow)])
def test_the_text_with_an_adapter_is_that_of_peft(tiny: Path, made: Path, name: str, targets: str) -> None:
    folder = adapter(tiny, made, targets=targets)
    model = LanguageModel.load(tiny, device="cpu", engine=name, rank=16)
    prompts = [Prompt(text=text, max_tokens=24, temperature=0) for text in TEXTS]
    before = model.generate(prompts)
    model.add_adapter("one", folder)
    replies = model.generate(prompts, adapter="one")
    assert [list(reply.tokens) for reply in replies] == by_peft(tiny, folder, TEXTS)
    assert [reply.tokens for reply in model.generate(prompts)] == [reply.tokens for reply in before]
    for prompt, reply in zip(prompts, replies, strict=True):
        scored = model.score(prompt, reply.tokens, adapter="one")
        assert scored.logprobs == pytest.approx(reply.logprob_model, abs=1e-3)


def test_a_running_reply_keeps_its_adapter_while_others_come_and_go(tiny: Path, made: Path) -> None:
    model = LanguageModel.load(tiny, device="cpu", rank=4)
    model.add_adapter("one", adapter(tiny, made))
    prompt = Prompt(text=TEXTS[1], max_tokens=24, temperature=0)
    (alone,) = model.generate([prompt], adapter="one")
    batch, deltas = RunningBatch(model, adapter="one"), []
    batch.add(model.request(prompt))
    for step in range(40):
        deltas += [delta for _, delta in batch.step()]
        if step == 3:
            model.add_adapter("two", adapter(tiny, made, seed=1, rank=24))  # wider: the graph is compiled again
            (other,) = model.generate([prompt], adapter="two")
        if step == 6:
            model.drop_adapter("two")
    assert deltas[-1].completion is not None
    assert deltas[-1].completion.tokens == alone.tokens
    assert other.tokens != alone.tokens
    with pytest.raises(UnknownName) as error:
        model.generate([prompt], adapter="two")
    assert error.value.code == "adapter_missing"


def test_a_damaged_adapter_and_one_of_another_base_change_nothing(tiny: Path, made: Path, tmp_path: Path) -> None:
    import json
    import shutil

    model = LanguageModel.load(tiny, device="cpu", rank=4)
    cut = shutil.copytree(adapter(tiny, made), tmp_path / "cut")
    weights = cut / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(Damaged) as error:
        model.add_adapter("cut", cut)
    assert error.value.code == "adapter_damaged"

    foreign = shutil.copytree(adapter(tiny, made), tmp_path / "foreign")
    (foreign / "headway.json").write_text(json.dumps({"base": "0" * 64}))
    with pytest.raises(Conflict) as conflict:
        model.add_adapter("foreign", foreign)
    assert conflict.value.code == "adapter_of_another_base"
    assert model.adapters == ()


@pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.slow), "int8"])
def test_compressed_weights_answer_nearly_the_same(tiny: Path, dtype: str) -> None:
    exact, small = (LanguageModel.load(tiny, device="cpu", dtype=name) for name in ("auto", dtype))
    prompt = Prompt(text=TEXTS[1], max_tokens=1, temperature=0)
    (mine,), (other,) = exact.generate([prompt]), small.generate([prompt])
    assert other.logprob_model == pytest.approx(mine.logprob_model, abs=0.3)
    assert other.logprob_model != mine.logprob_model


def test_openvino_is_imported_without_its_telemetry() -> None:
    program = "import sys, headway.kits.reply.engines.graph; print(sys.modules['openvino_telemetry'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


@pytest.mark.slow
def test_a_worker_with_a_smaller_format_says_what_it_changes(tiny: Path, tmp_path: Path) -> None:
    from headway.kits.reply.client import LanguageWorker
    from tests.kits.reply.test_worker import working

    said: list[str] = []
    with working(tmp_path / "project", dtype="int8", say=said.append):
        LanguageWorker(tmp_path / "project", tiny).generate([Prompt(text="a", max_tokens=2, temperature=0)])
    (told,) = [line for line in said if line.startswith("int8: ")]
    assert "perplexity × " in told
    assert "of greedy tokens equal to float32, on 6 questions" in told


@pytest.mark.slow
def test_a_format_is_compared_by_perplexity_and_equal_tokens(tiny: Path) -> None:
    from headway.kits.reply.formats import forced, measured

    exact, same, small = (LanguageModel.load(tiny, device="cpu", dtype=name) for name in ("auto", "auto", "int8"))
    equal = measured(same, exact)
    assert (equal.perplexity_ratio, equal.equal_tokens) == (pytest.approx(1.0, abs=1e-5), 1.0)
    changed = measured(small, exact)
    assert changed.perplexity_ratio != pytest.approx(1.0, abs=1e-5)
    assert 0.0 <= changed.equal_tokens <= 1.0
    (reply,) = exact.generate([Prompt(text="a", max_tokens=5, temperature=0)])
    assert forced(exact, reply.prompt_tokens, reply.tokens) == pytest.approx(reply.logprob_model, abs=1e-4)
