"""The embedded model: its replies, compared with transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.kits import models
from headway.kits.models.language import Prompt, Turn
from headway.kits.reply.model import LanguageModel


@pytest.fixture(scope="module")
def smollm2(model_cache: Path) -> LanguageModel:
    return LanguageModel.load(models.folder("smollm2", model_cache), device="cpu")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_capital_of_france_is_paris_and_transformers_gives_the_same_log_probabilities(
    smollm2: LanguageModel,
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    prompts = [
        Prompt(text="The capital of France is", max_tokens=8, temperature=0),
        Prompt(turns=(Turn("user", "What is the capital of France?"),), max_tokens=12, temperature=0.8, seed=1),
        Prompt(text="Grüße aus Köln 🎉:", max_tokens=5, temperature=1.2, top_p=0.9, seed=2),
    ]
    made = smollm2.generate(prompts)
    assert made[0].text.startswith(" Paris")
    network = AutoModelForCausalLM.from_pretrained(smollm2.folder, dtype=torch.float32)
    for reply in made:
        before = len(reply.prompt_tokens)
        with torch.inference_mode():
            logits = network(torch.tensor([[*reply.prompt_tokens, *reply.tokens]])).logits[0, before - 1 : -1]
        reference = torch.log_softmax(logits, -1).gather(1, torch.tensor(reply.tokens)[:, None])[:, 0]
        assert reply.logprob_model == pytest.approx(reference.tolist(), abs=1e-4)
    scored = smollm2.scores([(Prompt(tokens=reply.prompt_tokens), reply.tokens) for reply in made])
    for reply, score in zip(made, scored, strict=True):
        assert score.logprobs == pytest.approx(reply.logprob_model, abs=1e-4)
    (reference,) = network.generate(
        torch.tensor([made[0].prompt_tokens]),
        attention_mask=torch.ones(1, len(made[0].prompt_tokens), dtype=torch.long),
        max_new_tokens=8,
        do_sample=False,
    )
    assert reference[len(made[0].prompt_tokens) :].tolist() == list(made[0].tokens)


def test_a_conversation_is_ended_by_the_model_itself(smollm2: LanguageModel) -> None:
    prompt = Prompt(turns=(Turn("user", "Say only the word yes."),), max_tokens=60, temperature=0)
    (made,) = smollm2.generate([prompt])
    assert made.finish == "stop"
    assert made.tokens[-1] in smollm2.ends
    assert "<|im_end|>" not in made.text


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_embedded_model_undoes_a_rating_resumes_and_serves_what_was_trained_exactly(
    model_cache: Path, tmp_path: Path
) -> None:
    import numpy as np

    from headway.kits.reply.knobs import knobs_from
    from headway.kits.reply.learn.data import graded
    from headway.kits.reply.learn.kto import Kto
    from headway.kits.reply.learn.scorer import TokenRow
    from headway.kits.reply.learn.trainer import Trainer
    from headway.kits.reply.learn.tuned import TunedModel
    from tests.kits.reply.rated import replies

    tuned = TunedModel.load(models.folder("smollm2", model_cache), device="cpu")
    knobs = knobs_from({"device": "cpu", "epochs": 1, "anchors": 0, "batch": 2, "checkpoint": 1, "rate": 1e-3})
    rated = replies(tuned, 6)

    def trained(kept: list[Any], work: Path | None = None, stop: int = 0) -> Trainer:
        tuned.start_again(0)
        trainer = Trainer(tuned, graded(kept), Kto(), knobs, seed=0, work=work)

        def tell(_stage: str, done: int, _total: int | None) -> None:
            if done == stop:
                raise KeyboardInterrupt

        trainer.run(tell)
        return trainer

    whole = trained(rated).tensors()
    without = trained(rated[1:]).tensors()
    with pytest.raises(KeyboardInterrupt):
        trained(rated, tmp_path, stop=2)
    resumed = trained(rated, tmp_path)
    assert all(np.array_equal(whole[name], resumed.tensors()[name]) for name in whole)
    assert any(not np.array_equal(whole[name], without[name]) for name in whole)
    again = trained([one for one in rated if one.id != rated[0].id]).tensors()
    assert all(np.array_equal(without[name], again[name]) for name in without)
    trained(rated)
    prompt = Prompt(turns=(Turn("user", "What is rust?"),), max_tokens=12, temperature=0.7, seed=3)
    (reply,) = tuned.served_replies([prompt], tuned.adapter.tensors())
    (plain,) = tuned.served_replies([prompt], None)
    scored = tuned.scorer.rows([TokenRow(reply.prompt_tokens, reply.tokens)]).logprobs[0].tolist()
    assert scored[: len(reply.tokens)] == pytest.approx(list(reply.logprob_model), abs=1e-3)
    assert reply.logprob_model != plain.logprob_model, "the adapter is on"
