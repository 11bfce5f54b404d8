"""The embedded model: its replies, compared with transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits import models
from headway.kits.reply.language import LanguageModel
from headway.nouns.protocols import Prompt, Turn


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
