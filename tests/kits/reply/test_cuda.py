"""Replies, scores and training on a GPU against the same on the CPU; skipped where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

from headway.kits.models.language import Prompt  # noqa: E402
from headway.kits.reply.device import where  # noqa: E402
from headway.kits.reply.learn.kto import Kto  # noqa: E402
from headway.kits.reply.learn.trainer import Trainer  # noqa: E402
from headway.kits.reply.learn.tuned import TunedModel  # noqa: E402
from headway.kits.reply.model import LanguageModel  # noqa: E402
from tests.kits.reply.rated import quick, replies, train_samples, tuned_model  # noqa: E402

TEXTS = ["a", "The quick brown fox", "0123456789" * 5, "Grüße", "xyz" * 13]
GREEDY = [Prompt(text=text, max_tokens=20, temperature=0) for text in TEXTS]
DRAWN = [
    Prompt(text=text, max_tokens=20, temperature=0.8, top_p=0.9 if seed % 2 else 1.0, seed=seed)
    for seed, text in enumerate(TEXTS)
]


def both(folder: Path) -> tuple[LanguageModel, LanguageModel]:
    """The model in float32 on the GPU and on the CPU."""
    there = LanguageModel.load(folder, device="cuda", dtype="float32")
    assert there.where.device.type == "cuda"
    return there, LanguageModel.load(folder, device="cpu", engine="transformers")


def agree(there: LanguageModel, here: LanguageModel, prompts: list[Prompt], adapter: str = "") -> None:
    """The same tokens, and nearly the same log-probabilities, of replies and of scores."""
    for prompt, mine, other in zip(
        prompts, there.generate(prompts, adapter=adapter), here.generate(prompts, adapter=adapter), strict=True
    ):
        assert mine.tokens == other.tokens
        assert mine.logprob_model == pytest.approx(other.logprob_model, abs=1e-3)
        assert mine.logprob_acting == pytest.approx(other.logprob_acting, abs=1e-3)
        scored = there.score(prompt, mine.tokens, adapter=adapter).logprobs
        assert scored == pytest.approx(mine.logprob_model, abs=1e-3)


def flat(tensors: Any) -> Any:
    return np.concatenate([np.asarray(tensors[name], np.float64).ravel() for name in sorted(tensors)])


@pytest.mark.parametrize("prompts", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_replies_and_scores_are_those_of_the_cpu(folder: Path, prompts: list[Prompt]) -> None:
    agree(*both(folder), prompts)


def test_a_reply_is_the_same_alone_and_among_others(folder: Path) -> None:
    model = LanguageModel.load(folder, device="cuda", dtype="float32")
    for prompt, among in zip(DRAWN, model.generate(DRAWN), strict=True):
        assert model.generate([prompt])[0].tokens == among.tokens


def test_an_adapter_gives_the_texts_of_the_cpu(tiny: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
    tuned: Any = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32), config)
    for name, parameter in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    tuned.save_pretrained(tmp_path / "adapter")
    there, here = both(tiny)
    for model in (there, here):
        model.add_adapter("one", tmp_path / "adapter")
    agree(there, here, GREEDY, "one")
    agree(there, here, GREEDY)


def test_the_default_is_bfloat16_and_its_scores_agree_with_its_texts(tiny: Path) -> None:
    assert where().name == "cuda bfloat16"
    model = LanguageModel.load(tiny)
    for prompt, mine in zip(GREEDY, model.generate(GREEDY), strict=True):
        assert np.isfinite(mine.logprob_model).all()
        assert model.score(prompt, mine.tokens).logprobs == pytest.approx(mine.logprob_model, abs=0.3)


def test_kto_trains_the_adapter_of_the_cpu(tiny: Path) -> None:
    """Not the same bits: sums have another order. Nearly the same adapter, from the same start."""
    here = tuned_model(tiny)
    there = TunedModel.load(tiny, rank=4, alpha=8.0, seed=0, device="cuda", dtype="float32")
    start = flat(here.adapter.tensors())
    assert np.array_equal(start, flat(there.adapter.tensors()))
    samples = train_samples(replies(here))
    trained = []
    for tuned, device in ((there, "cuda"), (here, "cpu")):
        trainer = Trainer(tuned, samples, Kto(likelihood=0.1), quick(device=device, epochs=1), seed=0)
        trainer.run()
        assert trainer.counts.updates > 0
        trained.append(flat(trainer.tensors()))
    moved = np.linalg.norm(trained[1] - start)
    assert np.linalg.norm(trained[0] - trained[1]) < 0.02 * moved  # Adam turns roundings of tiny gradients into steps


def test_kto_trains_in_bfloat16_with_an_adapter_in_float32(tiny: Path) -> None:
    tuned = TunedModel.load(tiny, rank=4, alpha=8.0, seed=0)
    assert tuned.model.where.name == "cuda bfloat16"
    start = tuned.adapter.tensors()
    trainer = Trainer(tuned, train_samples(replies(tuned)), Kto(likelihood=0.1), quick(device="cuda", epochs=1), seed=0)
    trainer.run()
    assert all(matrix.dtype == torch.float32 for matrix in tuned.adapter.parameters())
    assert np.isfinite(flat(trainer.tensors())).all()
    assert np.linalg.norm(flat(trainer.tensors()) - flat(start)) > 0.0
