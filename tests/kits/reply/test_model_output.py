"""The text and the probabilities of a model equal those of transformers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.kits.models.language import Completion, Prompt, Turn
from headway.kits.reply.batch import Request, RunningBatch
from headway.kits.reply.model import LanguageModel
from tests.kits.reply.tiny import make

TEXTS = ["a", "The quick brown fox", "0123456789" * 5, "Grüße", "xyz" * 13]


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return LanguageModel.load(folder, device="cpu")


@pytest.fixture(scope="module")
def llama(tiny: Path) -> LanguageModel:
    return LanguageModel.load(tiny, device="cpu")


@cache
def untouched(folder: Path) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def reference(model: LanguageModel, before: tuple[int, ...], reply: tuple[int, ...]) -> list[float]:
    """Log-probabilities by one plain forward pass of an untouched network, without cache, batch or padding."""
    assert model.folder is not None
    network = untouched(model.folder)
    with torch.inference_mode():
        logits = network(torch.tensor([[*before, *reply]])).logits[0]
    logprobs = torch.log_softmax(logits, -1)
    return [float(logprobs[len(before) - 1 + at, token]) for at, token in enumerate(reply)]


def same(mine: Completion, other: Completion) -> None:
    assert (mine.text, mine.tokens, mine.finish) == (other.text, other.tokens, other.finish)
    assert mine.logprob_model == pytest.approx(other.logprob_model, abs=1e-4)
    assert mine.logprob_acting == pytest.approx(other.logprob_acting, abs=1e-4)


def test_logprobs_are_those_of_a_plain_forward_in_a_ragged_batch(model: LanguageModel) -> None:
    prompts = [Prompt(text=text, max_tokens=20, seed=at) for at, text in enumerate(TEXTS)]
    for reply in model.generate(prompts):
        assert reply.logprob_model == pytest.approx(reference(model, reply.prompt_tokens, reply.tokens), abs=1e-4)
        assert reply.logprob_acting == pytest.approx(reply.logprob_model, abs=1e-4), "temperature 1, top-p 1"


def test_score_is_a_plain_forward_in_a_ragged_batch_without_cache(model: LanguageModel) -> None:
    pairs = [(Prompt(text=text), reply) for text, reply in zip(TEXTS, ["one", "2", "three", "IV", "fünf"], strict=True)]
    for (prompt, reply), scored in zip(pairs, model.scores(pairs), strict=True):
        before = tuple(model.tokenizer(prompt.text)["input_ids"])
        assert model.tokenizer.decode(scored.tokens) == reply
        assert scored.logprobs == pytest.approx(reference(model, before, scored.tokens), abs=1e-4)
        assert model.score(prompt, scored.tokens).logprobs == pytest.approx(scored.logprobs, abs=1e-4)


def test_score_agrees_with_the_log_probabilities_of_generating(llama: LanguageModel) -> None:
    prompt = Prompt(turns=(Turn("user", "hello"),), max_tokens=30, seed=4)
    (made,) = llama.generate([prompt])
    assert llama.score(prompt, made.tokens).logprobs == pytest.approx(made.logprob_model, abs=1e-4)


def test_a_scored_reply_may_count_its_end(llama: LanguageModel) -> None:
    scored = llama.score(Prompt(text="a"), "bc", ended=True)
    assert scored.tokens[-1] == 258
    assert scored.logprobs[:-1] == pytest.approx(llama.score(Prompt(text="a"), "bc").logprobs, abs=1e-5)


def test_many_scores_are_split_so_that_their_logits_fit(llama: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[tuple[Prompt, Any]] = [(Prompt(text=text), text * 2) for text in TEXTS]
    whole = llama.scores(pairs)
    monkeypatch.setattr("headway.kits.reply.model._SCORED_BYTES", 1)
    for one, other in zip(whole, llama.scores(pairs), strict=True):
        assert one.tokens == other.tokens
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_row_of_a_batch_is_the_same_prompt_alone(model: LanguageModel) -> None:
    prompts = [
        Prompt(text=text, max_tokens=5 + 7 * at, temperature=(0, 0.8, 1.3)[at % 3], top_p=(1.0, 0.7)[at % 2], seed=at)
        for at, text in enumerate([*TEXTS, *TEXTS])
    ]
    together = model.generate(prompts)
    for prompt, reply in zip(prompts, together, strict=True):
        same(reply, model.generate([prompt])[0])


def test_rows_may_join_a_running_batch(llama: LanguageModel) -> None:
    prompts = [Prompt(text=text, max_tokens=25 - 4 * at, seed=at) for at, text in enumerate(TEXTS)]
    batch, requests, done = RunningBatch(llama), [llama.request(prompt) for prompt in prompts], {}
    waiting = list(requests)
    for step in range(200):
        if waiting and step % 3 == 0:
            batch.add(waiting.pop())
        done.update({id(request): delta.completion for request, delta in batch.step() if delta.completion})
    assert not batch.busy
    for prompt, request in zip(prompts, requests, strict=True):
        made = done[id(request)]
        assert made is not None
        same(made, llama.generate([prompt])[0])


def test_a_prompt_may_be_read_in_pieces(model: LanguageModel) -> None:
    prompts = [Prompt(text=text, max_tokens=9, seed=at) for at, text in enumerate(TEXTS)]
    whole = model.generate(prompts)
    batch, requests, done = RunningBatch(model, piece=16), [model.request(prompt) for prompt in prompts], {}
    for reply in requests:
        batch.add(reply)
    while batch.busy:
        done.update({id(request): delta.completion for request, delta in batch.step() if delta.completion})
    for request, reply in zip(requests, whole, strict=True):
        made = done[id(request)]
        assert made is not None
        same(made, reply)


def test_few_rows_at_a_time_give_the_same(llama: LanguageModel) -> None:
    prompts = [Prompt(text=text, max_tokens=9, seed=at) for at, text in enumerate(TEXTS)]
    batch, requests, done, most = RunningBatch(llama, most_rows=2), [llama.request(prompt) for prompt in prompts], {}, 0
    for reply in requests:
        batch.add(reply)
    while batch.busy:
        done.update({id(request): delta.completion for request, delta in batch.step() if delta.completion})
        most = max(most, batch.running)
    assert most == 2
    for request, reply in zip(requests, llama.generate(prompts), strict=True):
        made = done[id(request)]
        assert made is not None
        same(made, reply)


def test_a_cancelled_row_leaves_and_the_others_are_unchanged(llama: LanguageModel) -> None:
    prompts = [Prompt(text=text, max_tokens=20, seed=at) for at, text in enumerate(TEXTS)]
    batch, requests, done = RunningBatch(llama), [llama.request(prompt) for prompt in prompts], {}
    for reply in requests:
        batch.add(reply)
    for step in range(100):
        if step == 4:
            requests[2].cancelled = True  # the longest row: the others' padding is removed with it
        done.update({id(request): delta.completion for request, delta in batch.step() if delta.completion})
    assert not batch.busy
    assert id(requests[2]) not in done
    for at in (0, 1, 3, 4):
        made = done[id(requests[at])]
        assert made is not None
        same(made, llama.generate([prompts[at]])[0])


def test_everything_may_be_cancelled_at_any_time(llama: LanguageModel) -> None:
    for moment in range(4):
        batch = RunningBatch(llama, piece=8)
        requests = [llama.request(Prompt(text=text, max_tokens=5)) for text in TEXTS]
        for request in requests:
            batch.add(request)
        for _ in range(moment):
            batch.step()
        for request in requests:
            request.cancelled = True
        assert batch.step() == []
        assert not batch.busy


def test_greedy_text_equals_that_of_transformers(model: LanguageModel) -> None:
    assert model.folder is not None
    network = untouched(model.folder)
    for text in TEXTS:
        (mine,) = model.generate([Prompt(text=text, max_tokens=24, temperature=0)])
        ids = torch.tensor([mine.prompt_tokens])
        generated = network.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False, pad_token_id=259
        )[0, ids.shape[1] :]
        assert list(mine.tokens) == generated.tolist()
        assert mine.logprob_acting == (0.0,) * len(mine.tokens)


def test_openvino_gives_the_text_of_transformers(llama: LanguageModel, tiny: Path) -> None:
    prompts = [Prompt(text=text, max_tokens=20, seed=at, temperature=0.9) for at, text in enumerate(TEXTS)]
    plain = LanguageModel.load(tiny, device="cpu", engine="transformers")
    assert (type(llama.engine).__name__, type(plain.engine).__name__) == ("OpenVinoEngine", "TransformersEngine")
    for mine, other in zip(llama.generate(prompts), plain.generate(prompts), strict=True):
        same(mine, other)
        assert mine.logprob_model == pytest.approx(other.logprob_model, abs=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("qwen3", {"head_dim": 32}),
        ("mistral", {"sliding_window": None}),
        ("llama", {"head_dim": 24, "tie_word_embeddings": True}),
        ("llama", {"num_key_value_heads": 1}),
        ("llama", {"num_key_value_heads": 4}),
    ],
    ids=["qwen3", "mistral", "tied", "one key head", "all key heads"],
)
def test_openvino_covers_heads_of_other_shapes(tmp_path: Path, family: str, more: dict[str, Any]) -> None:
    folder = make(tmp_path, family, **more)
    fast, plain = (LanguageModel.load(folder, device="cpu", engine=name) for name in ("openvino", "transformers"))
    prompts = [Prompt(text=text, max_tokens=20, seed=at, temperature=0.9) for at, text in enumerate(TEXTS)]
    for mine, other in zip(fast.generate(prompts), plain.generate(prompts), strict=True):
        same(mine, other)


def test_the_same_seed_gives_the_same_text_and_another_seed_another(llama: LanguageModel) -> None:
    prompt = Prompt(text="Once upon a time", max_tokens=30, seed=11)
    assert llama.generate([prompt]) == llama.generate([prompt])
    others = {llama.generate([Prompt(text="Once upon a time", max_tokens=30, seed=at)])[0].tokens for at in range(8)}
    assert len(others) == 8


def test_equal_prompts_are_read_once(llama: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    whole = llama.engine.forward

    def counting(ids: torch.Tensor, *more: Any) -> torch.Tensor:
        seen.append(ids.numel())
        return whole(ids, *more)

    monkeypatch.setattr(llama.engine, "forward", counting)
    made = llama.generate([Prompt(text="Once upon a time", max_tokens=3, seed=at) for at in range(6)])
    assert seen[0] == len(made[0].prompt_tokens)
    assert len({reply.tokens for reply in made}) == 6


def test_the_cache_size_is_bounded(llama: LanguageModel) -> None:
    batch = RunningBatch(llama)
    requests = [Request(Prompt(tokens=(1, 2), max_tokens=100), (1, 2)) for _ in range(3)]
    assert batch._fits(requests)
    room = 102 * llama.bytes_per_token
    small = type(llama.where)(llama.where.device, llama.where.dtype, 2 * room)
    before, llama.where = llama.where, small
    try:
        assert batch._fits(requests[:2])
        assert not batch._fits(requests)
    finally:
        llama.where = before
