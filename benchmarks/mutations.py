"""Prompt mutation with a real model: does the learned choice beat a uniform one on held-out prompts?

    python benchmarks/mutations.py --json                    # asks the model of `headway models add smollm2`
    python benchmarks/mutations.py --sets tasks --encoders hashing --keep outcomes

Every prompt of a set (`tasks`: 84 generated ones, twelve of each class; `corpus`: 63 written ones) is answered greedily
by the model after each of its mutations, and the answer is checked (code in a sandbox); reward = passed - 0.0002 ·
tokens. Cross-validation by prompt, nine folds: in each, an actor-critic practises by PPO on the outcomes of the other
folds' prompts, from embeddings only, and chooses one mutation for each held-out prompt. `SET_ENCODER_gain` is its
mean reward minus that of choosing uniformly among the mutations that change the prompt, with a 95% bootstrap interval
over prompts; `…_gain_over_fixed` the same against the one mutation that is best on the other folds.

The sets and the model are small. The tasks were written after the result on the corpus was known, to test whether many
prompts of a kind help; they are not a sample of real prompts. `--keep DIR` stores answers and reuses them, so a run can
be interrupted. `--quick` takes three tasks of each class.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _contract import ROOT, arguments, finish, say

from headway.encode import encoder as encoder_of
from headway.kits.practice.fit import Practice, practise_in
from headway.kits.practice.threads import one_thread
from headway.kits.prompts import MUTATIONS
from headway.kits.prompts.checked_prompts import CheckedPrompt, corpus, simple_tasks
from headway.kits.prompts.outcomes import TOKEN_COST, Outcomes
from headway.kits.prompts.world import PromptsWorld, after, may
from headway.kits.reply.generators import local
from headway.kits.sandbox import sandbox
from headway.settings import cache_folder

FOLDS, AT_ONCE = 9, 6
MOST_TOKENS = {"tasks": 36, "corpus": 40}  # of an answer


def ask(name: str, prompts: Sequence[CheckedPrompt], model: str, keep: Path | None) -> dict[str, dict[str, Any]]:
    """id → passed and tokens after each mutation; a row is written as soon as it is known."""
    path = None if keep is None else keep / f"{name}.jsonl"
    lines = path.read_text("utf-8").splitlines() if path is not None and path.exists() else []
    rows = {row["id"]: row for row in map(json.loads, lines)}
    missing = [prompt for prompt in prompts if prompt.id not in rows]
    if not missing:
        return rows
    outcomes = Outcomes(local(Path(), model), sandbox("auto"), max_tokens=MOST_TOKENS[name], batch=AT_ONCE * 5)
    for begin in range(0, len(missing), AT_ONCE):
        part = missing[begin : begin + AT_ONCE]
        outcomes.ask([(prompt, text) for prompt in part for text in variants(prompt)])
        for prompt in part:
            answers = [outcomes.known[prompt.id, text] for text in variants(prompt)]
            passed, tokens = [answer.passed for answer in answers], [answer.tokens for answer in answers]
            rows[prompt.id] = {"id": prompt.id, "passed": passed, "tokens": tokens}
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[prompt.id]) + "\n")
        say(f"{name}: asked about {begin + len(part)} of {len(missing)} prompts, {time.process_time():.0f} CPU s")
    return rows


def variants(prompt: CheckedPrompt) -> list[str]:
    return [after(prompt.text, kind) for kind in range(len(MUTATIONS))]


class Known:
    """A judge that looks up the outcome."""

    def __init__(self, rewards: dict[str, np.ndarray]) -> None:
        self.rewards = rewards

    def judge(self, subjects: Any, kinds: Any, texts: Any, changed: Any, rng: Any) -> Any:
        del texts, changed, rng
        rewards = np.array([self.rewards[prompt.id][kind] for prompt, kind in zip(subjects, kinds, strict=True)])
        return rewards, np.ones(len(rewards), dtype=np.bool_)


def learned(
    train: list[CheckedPrompt], test: list[CheckedPrompt], rewards: dict[str, np.ndarray], encoder: Any, seed: int
) -> Any:
    """[test prompt, mutation]: the probabilities of a policy that practised on `train`."""
    fitted = practise_in(
        lambda count: PromptsWorld(count, train, encoder, Known(rewards), most_steps=1),
        Practice(
            steps=12_288, envs=64, horizon=16, epochs=4, minibatch=256, rate=1e-3, schedule="linear", gamma=1.0,
            entropy=0.01, hidden=(32,), activation="relu", normalise_rewards=False, decay=0.01,
        ),
        seed,
    )  # fmt: skip
    x = encoder.encode([prompt.text for prompt in test]).astype(np.float32)
    masks = np.array([may(prompt.text) for prompt in test])
    outputs = np.where(masks, fitted.engine.outputs(fitted.stage.scales.seen(x, np.float32)), -np.inf)
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    rng = np.random.default_rng(7)
    means = values[rng.integers(len(values), size=(4000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def judged(
    prompts: list[CheckedPrompt], table: dict[str, dict[str, Any]], names: list[str], seeds: int
) -> dict[str, float]:
    """The figures of one set."""
    rewards = {
        prompt.id: np.array(table[prompt.id]["passed"], dtype=float) - TOKEN_COST * np.array(table[prompt.id]["tokens"])
        for prompt in prompts
    }
    matrix = np.array([rewards[prompt.id] for prompt in prompts])
    masks = np.array([may(prompt.text) for prompt in prompts])
    uniform = (matrix * masks).sum(axis=1) / masks.sum(axis=1)
    folds = np.arange(len(prompts)) % FOLDS
    fixed = np.zeros(len(prompts))
    for fold in range(FOLDS):
        out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        best = int(np.mean(matrix[rest], axis=0, where=masks[rest]).argmax())
        fixed[out] = np.where(masks[out, best], matrix[out, best], uniform[out])
    figures = {
        "prompts": float(len(prompts)),
        "uniform": float(uniform.mean()),
        "fixed": float(fixed.mean()),
        "best_of_five": float(np.where(masks, matrix, -np.inf).max(axis=1).mean()),
    }
    for place, kind in enumerate(MUTATIONS):
        figures[f"passed_{kind}"] = float(np.mean([table[prompt.id]["passed"][place] for prompt in prompts]))
    for name in names:
        encoder, policy = encoder_of(name, models=cache_folder()), np.zeros(len(prompts))
        for fold in range(FOLDS):
            out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            train, test = [prompts[row] for row in rest], [prompts[row] for row in out]
            for seed in range(seeds):
                shares = learned(train, test, rewards, encoder, seed)
                policy[out] += (shares * matrix[out]).sum(axis=1) / seeds
        figures[f"{name}_policy"] = float(policy.mean())
        for what, values in (("gain", policy - uniform), ("gain_over_fixed", policy - fixed)):
            for part, value in zip(("", "_low", "_high"), interval(values), strict=True):
                figures[f"{name}_{what}{part}"] = value
        say(f"{name}: {figures[f'{name}_gain']:+.3f} over uniform, {time.process_time():.0f} CPU s")
    return figures


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], seeds=3)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--sets", nargs="+", choices=list(MOST_TOKENS), default=list(MOST_TOKENS))
    parser.add_argument("--encoders", nargs="+", default=["hashing", "minilm"])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="store answers there, and reuse stored ones")
    options = parser.parse_args()
    fetched = ROOT / ".venv" / "headway-cache"  # the models that this checkout's tests use
    if fetched.exists():
        os.environ.setdefault("HEADWAY_CACHE", str(fetched))
    figures: dict[str, float] = {"seeds": float(options.seeds)}
    for name in ["tasks"] if options.quick else options.sets:
        prompts = corpus() if name == "corpus" else simple_tasks()
        if options.quick:
            prompts = [prompt for prompt in prompts if int(prompt.id.rpartition("-")[2]) <= 3]
        table = ask(name, prompts, options.model, options.keep)
        with one_thread():
            results = judged(prompts, table, options.encoders, options.seeds)
        figures |= {f"{name}_{key}": value for key, value in results.items()}
    finish("mutations", figures, {}, packages=("torch", "transformers", "onnxruntime"), as_json=options.json)


if __name__ == "__main__":
    main()
