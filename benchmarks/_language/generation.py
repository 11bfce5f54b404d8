"""Generation with an adapter on: our worker's engine against transformers with PEFT, in one process and one thread.

Both sides write the same number of greedy tokens from the same random prompts of 32 tokens, without early ends, with
the same weights and the same adapter of rank 16, in turn. CPU seconds on a CPU, wall seconds elsewhere; medians. Texts
are compared on 20 prompts of up to 64 tokens. Formats that change the text state what they change: the ratio of
perplexity on transformers' replies, and the share of equal greedy tokens; and how fast they are in the same run.

On a CPU our side has the adapter in its weights, as a worker has it soon after it began to use it (`fuse_s`). The
figures `generate_*_tokens_per_s_input` are of the first seconds, in which the adapter is an input of the graph.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _contract import say

PROMPT, ROWS, RANK = 32, 16, 16
TOPICS = (
    "the capital of France", "a cat", "photosynthesis", "why the sky is blue", "how to boil an egg", "the moon",
    "gravity", "a haiku about rain", "Python lists", "the French revolution", "tea", "bees", "a good book", "money",
    "sleep", "a short joke", "rivers", "the number pi", "trees", "how planes fly",
)  # fmt: skip


def generation(
    folder: Path, *, repeats: int, quick: bool, device: str, speed: bool = True
) -> tuple[dict[str, float], dict[str, float]]:
    """Figures and ratios: tokens per second, equal texts, log-probabilities, compressed formats.

    Without `speed`: only what does not depend on other programs, and the formats.
    """
    from headway.kits.reply.model import LanguageModel

    if device == "cpu":
        torch.set_num_threads(1)
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        adapter = Path(scratch) / "adapter"
        start = time.perf_counter()
        model = LanguageModel.load(folder, device=device, rank=RANK, threads=1)
        figures["load_s"] = round(time.perf_counter() - start, 2)
        peer = _peer(folder, model, adapter)
        start = time.perf_counter()
        model.add_adapter("bench", adapter)
        figures["adapter_switch_s"] = round(time.perf_counter() - start, 3)
        start = time.process_time()
        fused = model.fuse("bench")
        figures["fuse_cpu_s"] = round(time.process_time() - start, 2)
        if speed:
            sides = {"": model, "_input": _with_adapter(folder, "float32", adapter)} if fused else {"": model}
            _speed(sides, peer, figures, ratios, repeats=repeats, tokens=64)
        replies = _texts(model, peer, figures, count=5 if quick else len(TOPICS))
        if not quick and device == "cpu":
            _formats(folder, adapter, replies, figures, repeats=repeats)
    return figures, ratios


def _peer(folder: Path, model: Any, adapter: Path) -> Any:
    """transformers with PEFT; its random adapter is saved for our side."""
    import peft
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=model.where.dtype).to(model.where.device)
    config = peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
    tuned: Any = peft.get_peft_model(network, config).eval()
    for name, parameter in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.004)
    tuned.save_pretrained(adapter)
    return tuned


def _speed(
    sides: dict[str, Any], peer: Any, figures: dict[str, float], ratios: dict[str, float], *, repeats: int, tokens: int
) -> None:
    """Ours and the peer, in turn; the first of ours is the one that the ratio is about."""
    model = sides[""]
    cuda = model.where.device.type == "cuda"
    clock = time.process_time if model.where.device.type == "cpu" else time.perf_counter
    before = peer.generation_config.eos_token_id
    peer.generation_config.eos_token_id = None

    def wait() -> None:
        if cuda:
            torch.cuda.synchronize()

    @torch.inference_mode()
    def theirs(ids: Any) -> float:
        ids = ids.to(model.where.device)
        start = clock()
        mask = torch.ones_like(ids)
        peer.generate(input_ids=ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False, pad_token_id=0)
        wait()
        return clock() - start

    for name, rows in (("alone", 1), (f"batch_{ROWS}", ROWS)):
        spent: dict[str, list[float]] = {side: [] for side in (*sides, "_peft")}
        for seed in range(repeats + 1):
            ids = _ids(model, rows, seed)
            for side, ours in sides.items():
                spent[side].append(_ours(ours, ids, tokens, wait))
            spent["_peft"].append(theirs(ids))
        middle = {side: statistics.median(seconds[1:]) for side, seconds in spent.items()}  # the first warms up
        for side, seconds in middle.items():
            figures[f"generate_{name}_tokens_per_s{side}"] = round(rows * tokens / seconds, 1)
        ratios[f"generate_{name}_vs_peft"] = round(middle["_peft"] / middle[""], 3)
        say(f"{name}: " + ", ".join(f"{side or 'ours'} {rows * tokens / each:.1f}" for side, each in middle.items()))
    peer.generation_config.eos_token_id = before


def _ids(model: Any, rows: int, seed: int) -> Any:
    made = torch.Generator().manual_seed(seed)
    return torch.randint(100, model.vocabulary, (rows, PROMPT), generator=made)


def _ours(model: Any, ids: Any, tokens: int, wait: Callable[[], None] = lambda: None) -> float:
    """Seconds in which our engine writes so many tokens for each row."""
    from headway.kits.models.language import Prompt
    from headway.kits.reply.batch import RunningBatch

    clock = time.process_time if model.where.device.type == "cpu" else time.perf_counter
    ends, model.ends = model.ends, frozenset()  # both sides write the same number of tokens
    batch = RunningBatch(model, adapter="bench")
    for row in ids.tolist():
        batch.add(model.request(Prompt(tokens=tuple(row), max_tokens=tokens, temperature=0)))
    start = clock()
    while batch.busy:
        batch.step()
    wait()
    model.ends = ends
    return clock() - start


def _texts(model: Any, peer: Any, figures: dict[str, float], *, count: int) -> list[tuple[Any, list[int]]]:
    """Greedy texts of both sides; returns the peer's."""
    from headway.kits.models.language import Prompt, Turn

    equal, worst, replies = 0, 0.0, []
    first = 0.0
    for topic in TOPICS[:count]:
        prompt = Prompt(turns=(Turn("user", f"Tell me about {topic}."),), max_tokens=64, temperature=0)
        start = time.perf_counter()
        stream = model.stream(prompt, adapter="bench")
        delta = next(stream)
        first = max(first, time.perf_counter() - start)
        *_, last = (delta, *stream)
        mine = last.completion
        ids = torch.tensor([mine.prompt_tokens], device=model.where.device)
        with torch.inference_mode():
            reply = peer.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=64, do_sample=False,
                pad_token_id=model.pad,
            )[0, ids.shape[1] :].tolist()  # fmt: skip
        replies.append((prompt, reply))
        equal += list(mine.tokens) == reply
        scored = model.score(prompt, mine.tokens, adapter="bench").logprobs
        worst = max(worst, *(abs(a - b) for a, b in zip(scored, mine.logprob_model, strict=True)))
    figures |= {"equal_texts": float(equal), "texts": float(count), "worst_logprob_difference": worst}
    figures["slowest_first_token_s"] = round(first, 3)
    say(f"{equal} of {count} texts equal, log-probabilities within {worst:.1e}, first token within {first:.2f} s")
    return replies


def _formats(
    folder: Path, adapter: Path, replies: list[tuple[Any, list[int]]], figures: dict[str, float], *, repeats: int
) -> None:
    """What float16 and int8 change: perplexity on the peer's replies, the share of equal greedy tokens, the speed."""
    from headway.kits.reply.formats import change_of

    exact = _with_adapter(folder, "float32", adapter)
    models = {"float32": exact, **{name: _with_adapter(folder, name, adapter) for name in ("float16", "int8")}}
    for name, model in models.items():
        if model is not exact:
            change = change_of(model, exact, replies, "bench")
            figures[f"{name}_perplexity_ratio"] = round(change.perplexity_ratio, 4)
            figures[f"{name}_equal_tokens"] = round(change.equal_tokens, 3)
            say(f"{name}: {change}")
    for where, rows in (("alone", 1), (f"batch_{ROWS}", ROWS)):
        spent: dict[str, list[float]] = {name: [] for name in models}
        for seed in range(repeats + 1):  # in turn, so that other programs slow all of them down
            for name, model in models.items():
                spent[name].append(_ours(model, _ids(model, rows, seed), 64))
        for name, seconds in spent.items():
            figures[f"{name}_{where}_tokens_per_s"] = round(rows * 64 / statistics.median(seconds[1:]), 1)
        say(f"{where}: " + ", ".join(f"{name} {figures[f'{name}_{where}_tokens_per_s']}" for name in models))


def _with_adapter(folder: Path, dtype: str, adapter: Path) -> Any:
    from headway.kits.reply.model import LanguageModel

    model = LanguageModel.load(folder, device="cpu", dtype=dtype, rank=RANK, threads=1)
    model.add_adapter("bench", adapter)
    return model
