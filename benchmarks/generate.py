"""Text from the embedded language model: tokens per second, alone and sixteen at once, against transformers' generate.

    python benchmarks/generate.py --json [--quick] [--seeds N] [--device cuda] [--model FOLDER]

Both sides make the same number of greedy tokens from the same random prompts of 32 tokens, without early ends,
with the same weights in the same number format, interleaved, in one process and one thread; including the prefill.
The peer is `model.generate` as transformers documents it (KV cache, greedy). A third figure reads a prompt of 512
tokens. CPU seconds on a CPU, wall seconds elsewhere; medians over repetitions. `load_s` is the time from a folder to a
model that answers, in a process that has imported torch; `resident_mb` is the memory of that process, torch included.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _contract import arguments, finish, say

PROMPT, READ, ROWS = 32, 512, 16


def folder_of(model: Path | None) -> Path:
    if model is not None:
        return model
    from headway import settings
    from headway.kits import models

    return models.add("smollm2", settings.load(Path()).cache).folder


def main() -> None:
    parser = arguments(__doc__ or "", seeds=5)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder (default: smollm2, from the cache)")
    options = parser.parse_args()
    repeats = 2 if options.quick else options.seeds
    folder = folder_of(options.model)

    import torch
    from transformers import AutoModelForCausalLM

    from headway.kits.reply.language import LanguageModel, RunningBatch
    from headway.nouns.protocols import Prompt

    if options.device == "cpu":
        torch.set_num_threads(1)
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    model = LanguageModel.load(folder, device=options.device)
    model.ends = frozenset()  # both sides make the same number of tokens
    peer: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=model.where.dtype).to(model.where.device).eval()
    peer.generation_config.eos_token_id = None
    vocabulary = peer.get_input_embeddings().weight.shape[0]

    def prompts(rows: int, length: int, seed: int) -> Any:
        made = torch.Generator().manual_seed(seed)
        return torch.randint(min(100, vocabulary // 2), vocabulary, (rows, length), generator=made)

    def wait() -> None:
        if model.where.device.type == "cuda":
            torch.cuda.synchronize()

    def ours(ids: Any, tokens: int) -> float:
        batch = RunningBatch(model)
        for row in ids.tolist():
            batch.add(model.request(Prompt(tokens=tuple(row), max_tokens=tokens, temperature=0)))
        wait()
        start = clock()
        while batch.busy:
            batch.step()
        wait()
        return clock() - start

    @torch.inference_mode()
    def theirs(ids: Any, tokens: int) -> float:
        ids = ids.to(model.where.device)
        wait()
        start = clock()
        replies = peer.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0
        )
        wait()
        assert replies.shape[1] == ids.shape[1] + tokens
        return clock() - start

    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    length = 24 if options.quick else 64
    ours(prompts(2, 8, 0), 2)
    theirs(prompts(2, 8, 0), 2)
    for name, rows, before, tokens in (
        ("alone", 1, PROMPT, length),
        (f"batch_{ROWS}", ROWS, PROMPT, length),
        ("prefill", 1, READ, 1),
    ):
        mine, other = [], []
        for seed in range(repeats):
            ids = prompts(rows, before, seed)
            mine.append(ours(ids, tokens))
            other.append(theirs(ids, tokens))
        work = READ if name == "prefill" else rows * tokens
        figures[f"{name}_tokens_per_s"] = round(work / statistics.median(mine), 1)
        figures[f"{name}_tokens_per_s_transformers"] = round(work / statistics.median(other), 1)
        ratios[f"{name}_vs_transformers"] = round(statistics.median(other) / statistics.median(mine), 3)
        say(f"{name}: {figures[f'{name}_tokens_per_s']} tokens/s, transformers {work / statistics.median(other):.1f}")
    if model.where.device.type == "cpu":
        loads = [loaded(folder) for _ in range(1 if options.quick else 3)]
        figures["load_s"] = round(statistics.median(load[0] for load in loads), 3)
        figures["resident_mb"] = round(statistics.median(load[1] for load in loads))
    finish(
        "generate", figures, ratios, packages=("torch", "transformers"), device=options.device, as_json=options.json
    )  # fmt: skip


LOAD = """
import sys, time
from pathlib import Path
import torch, transformers
from transformers.models.llama import modeling_llama
torch.set_num_threads(1)
from headway.kits.reply.language import LanguageModel
from headway.nouns.protocols import Prompt
start = time.process_time()
model = LanguageModel.load(Path(sys.argv[1]), device="cpu")
took = time.process_time() - start
model.generate([Prompt(text="x", max_tokens=2)])
pages = [line for line in open("/proc/self/status") if line.startswith("VmRSS")]
print(took, int(pages[0].split()[1]) / 1024 if pages else float("nan"))
"""


def loaded(folder: Path) -> tuple[float, float]:
    """CPU seconds from a folder to a model, and MB resident after a first answer, in a separate process."""
    done = subprocess.run([sys.executable, "-c", LOAD, folder], capture_output=True, text=True, check=True)
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


if __name__ == "__main__":
    main()
