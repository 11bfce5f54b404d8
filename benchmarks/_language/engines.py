"""One engine writing with the base model, in a process of its own and one thread.

    python benchmarks/_language/engines.py ENGINE --model FOLDER --work FOLDER

Every engine has the same weights in float32 and writes 64 greedy tokens behind random prompts of 32, alone and for 16
prompts at once. The peers run through their own converters and interfaces; what they convert is kept in `--work`. The
last line is JSON: tokens per CPU second of both, medians.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ENGINES = ("headway", "transformers", "ctranslate2", "onnxruntime_genai")
PROMPT, TOKENS, ROWS = 32, 64, 16
Write = Callable[[list[list[int]]], int]  # prompts → how many tokens it wrote


def headway(model: Path, _: Path) -> Write:
    from headway.kits.models.language import Prompt
    from headway.kits.reply.model import LanguageModel

    loaded = LanguageModel.load(model, device="cpu", threads=1)
    loaded.ends = frozenset()

    def write(prompts: list[list[int]]) -> int:
        asked = [Prompt(tokens=tuple(ids), max_tokens=TOKENS, temperature=0) for ids in prompts]
        return sum(len(reply.tokens) for reply in loaded.generate(asked))

    return write


def transformers(model: Path, _: Path) -> Write:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    network: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    network.generation_config.eos_token_id = None

    @torch.inference_mode()
    def write(prompts: list[list[int]]) -> int:
        ids = torch.tensor(prompts)
        made = network.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False, pad_token_id=0
        )
        return int(made[:, PROMPT:].numel())

    return write


def ctranslate2(model: Path, work: Path) -> Write:
    import ctranslate2 as engine
    from ctranslate2.converters import TransformersConverter
    from transformers import AutoTokenizer

    converted = work / "ctranslate2"
    if not converted.exists():
        TransformersConverter(str(model)).convert(str(converted))
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    generator = engine.Generator(str(converted), compute_type="float32", inter_threads=1, intra_threads=1)

    def write(prompts: list[list[int]]) -> int:
        words = [tokenizer.convert_ids_to_tokens(ids) for ids in prompts]
        made = generator.generate_batch(
            words, max_length=TOKENS, min_length=TOKENS, sampling_topk=1, include_prompt_in_result=False
        )
        return sum(len(reply.sequences_ids[0]) for reply in made)

    return write


def onnxruntime_genai(model: Path, work: Path) -> Write:
    import numpy as np
    import onnxruntime_genai as engine

    converted = work / "onnxruntime_genai"
    if not converted.exists():
        builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(model), "-o", str(converted)]
        subprocess.run([*builder, "-p", "fp32", "-e", "cpu", "-c", str(work)], check=True, stdout=sys.stderr)
        config = json.loads((converted / "genai_config.json").read_text())
        config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = 1
        (converted / "genai_config.json").write_text(json.dumps(config))
    loaded = engine.Model(str(converted))

    def write(prompts: list[list[int]]) -> int:
        settings = engine.GeneratorParams(loaded)
        length = PROMPT + TOKENS
        settings.set_search_options(max_length=length, min_length=length, batch_size=len(prompts), do_sample=False)
        generator = engine.Generator(loaded, settings)
        generator.append_tokens(np.array(prompts, np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        return sum(len(generator.get_sequence(row)) - PROMPT for row in range(len(prompts)))

    return write


def measured(write: Write, repeats: int) -> dict[str, float]:
    speeds = {}
    for name, rows in (("alone", 1), (f"batch_{ROWS}", ROWS)):
        seconds = []
        for seed in range(repeats + 1):
            draws = random.Random(seed)
            prompts = [[draws.randrange(100, 40_000) for _ in range(PROMPT)] for _ in range(rows)]
            start = time.process_time()
            made = write(prompts)
            seconds.append(time.process_time() - start)
            if made != rows * TOKENS:
                raise SystemExit(f"it wrote {made} tokens instead of {rows * TOKENS}")
        speeds[name] = rows * TOKENS / median(seconds[1:])  # the first warms up
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    write: Write = globals()[options.engine](options.model, options.work)
    print(json.dumps(measured(write, options.repeats)))


if __name__ == "__main__":
    main()
