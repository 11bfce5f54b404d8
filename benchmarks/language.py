"""A local language model: how fast it is trained from ratings, against TRL's KTOTrainer, and how fast it writes.

    python benchmarks/language.py --json [--quick] [--device cuda] [--model FOLDER]

Each side runs in a process of its own, in turn, with the same settings (benchmarks/_language/training.py). On a CPU the
model is the embedded one (smollm2), on CUDA a random Llama of one billion weights in bfloat16. Ratios are ours over
TRL's; `memory_vs_trl` is TRL's peak memory over ours.

    python benchmarks/language.py --json --part generation        # or training; without --part, both

measures generation with an adapter on, against transformers with PEFT (benchmarks/_language/generation.py). `--part
texts` compares only the texts of both, and what float16 and int8 change. `--part engines` measures the base alone
against transformers, ctranslate2 and onnxruntime-genai in float32 (benchmarks/_language/engines.py), those that are
installed.

    python benchmarks/language.py --json --user kto,sft,ppo [--seeds 3] [--first-seed 11]

plays the synthetic user (benchmarks/_language/user_study.py): after 60 ratings, a blind comparison with the base.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from _contract import arguments, finish, say

SIDES = ("headway", "trl")
PACKAGES = ("torch", "transformers", "peft", "trl")
PEERS = ("ctranslate2", "onnxruntime_genai")
SCRIPT = Path(__file__).parent / "_language" / "training.py"


def smollm2() -> Path:
    from headway import settings
    from headway.kits import models

    return models.add("smollm2", settings.load(Path()).cache).folder


def random_billion(folder: Path, tokenizer_from: Path | None) -> Path:
    """A random Llama of one billion weights, with a small vocabulary's tokeniser."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=49_152, hidden_size=2048, intermediate_size=5632, num_hidden_layers=20, num_attention_heads=16,
        num_key_value_heads=8, max_position_embeddings=4096, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    if tokenizer_from is not None:
        AutoTokenizer.from_pretrained(tokenizer_from).save_pretrained(folder)
    return folder


def trained(side: str, model: Path, *, steps: int, batch: int, device: str) -> dict[str, float]:
    """One run of one side, in its own process."""
    line = [sys.executable, str(SCRIPT), side, "--model", str(model), "--steps", str(steps), "--batch", str(batch)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"} if device == "cpu" else dict(os.environ)
    done = subprocess.run([*line, "--device", device], capture_output=True, text=True, env=environ, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    told: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def engines(model: Path, work: Path, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Tokens per CPU second of each engine that is installed, each in its own process, in turn."""
    script = Path(__file__).parent / "_language" / "engines.py"
    present = ["headway", "transformers", *(name for name in PEERS if find_spec(name))]
    for name in sorted(set(PEERS) - set(present)):
        say(f"{name} is not installed: `make bench` installs it")
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in present}
    for _ in range(repeats):
        for name in present:
            line = [sys.executable, str(script), name, "--model", str(model), "--work", str(work)]
            environ = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(line, capture_output=True, text=True, env=environ, check=False)
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
            runs[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
            say(f"{name}: {runs[name][-1]}")
    speed = {name: {size: median(run[size] for run in each) for size in each[0]} for name, each in runs.items()}
    figures = {f"base_{size}_tokens_per_s_{name}": each for name in speed for size, each in speed[name].items()}
    ratios = {
        f"base_{size}_vs_{name}": speed["headway"][size] / each
        for name in present[1:]
        for size, each in speed[name].items()
    }
    return figures, ratios


def play(options: Namespace) -> None:
    """The synthetic user, for each learner and seed."""
    import torch
    from _language.user_study import study

    torch.set_num_threads(1)
    figures: dict[str, float] = {}
    for learner in options.user.split(","):
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            told = study(options.model or smollm2(), learner, seed=seed)
            say(json.dumps(told))
            for name in ("wins", "losses", "e_value", "kl", "perplexity_ratio", "train_cpu_s", "empty"):
                figures[f"{learner}_{seed}_{name}"] = float(told[name])
    finish("language", figures, {}, packages=("torch", "transformers"), as_json=options.json)


def main() -> None:
    parser = arguments(__doc__ or "", seeds=3)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder")
    parser.add_argument("--tokenizer", type=Path, help="on cuda: the folder whose tokeniser the random model gets")
    parser.add_argument("--user", default="", metavar="LEARNERS", help="play the synthetic user with these learners")
    parser.add_argument(
        "--part", default="", choices=("", "training", "generation", "texts", "engines"), help="measure only this"
    )
    parser.add_argument("--first-seed", type=int, default=11)
    options = parser.parse_args()
    if options.user:
        play(options)
        return
    repeats, steps = (1, 4) if options.quick else (options.seeds, 8 if options.device == "cpu" else 24)
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = options.model
        if model is None:
            model = smollm2() if options.device == "cpu" else random_billion(Path(folder), options.tokenizer)
        if options.part == "engines":
            figures, ratios = engines(model, Path(folder), repeats)
            finish("language", figures, ratios, packages=("transformers", *PEERS), as_json=options.json)
            return
        if options.part != "training":
            from _language.generation import generation

            figures, ratios = generation(
                model, repeats=repeats, quick=options.quick, device=options.device, speed=options.part != "texts"
            )
        if options.part in ("generation", "texts"):
            finish("language", figures, ratios, packages=PACKAGES[:3], device=options.device, as_json=options.json)
            return
        runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for _ in range(repeats):
            for side in SIDES:
                runs[side].append(trained(side, model, steps=steps, batch=4, device=options.device))
                say(f"{side}: {runs[side][-1]}")
    speed = {side: median(run["tokens_per_s"] for run in runs[side]) for side in SIDES}
    memory = {side: max(run["peak_mb"] for run in runs[side]) for side in SIDES}
    figures |= {
        **{f"train_tokens_per_s_{side}": speed[side] for side in SIDES},
        **{f"train_peak_mb_{side}": memory[side] for side in SIDES},
    }
    ratios |= {"tokens_vs_trl": speed["headway"] / speed["trl"], "memory_vs_trl": memory["trl"] / memory["headway"]}
    finish("language", figures, ratios, packages=PACKAGES, device=options.device, as_json=options.json)


if __name__ == "__main__":
    main()
