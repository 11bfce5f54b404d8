"""Prompt mutation with a real model: does the learned choice beat a uniform one on prompts that it has not seen?

    python benchmarks/mutations.py --json                          # asks the model of `headway models add smollm2`
    python benchmarks/mutations.py --table outcomes.jsonl --json   # what was asked before

Every prompt of a set (`--set tasks`: 84 generated ones, twelve of each class; `--set corpus`: 63 written ones) is
answered greedily by the model after each of its mutations, and the answer is checked (code in a sandbox); reward =
passed - 0.0002 · tokens. Cross-validation by prompt, nine folds: in each, an actor-critic practises by PPO on the
outcomes of the other folds' prompts, seeing embeddings only, and chooses one mutation for each prompt left out.
`gain_*` is its mean reward minus that of choosing uniformly among the mutations that change the prompt, with a 95%
bootstrap interval over prompts; `gain_over_fixed_*` the same against the one mutation that is best on the other folds.
The figures are what they are: the corpus is small and the model is, too.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _contract import arguments, finish, say

from headway.encode import encoder as encoder_of
from headway.learn.fit import Practice, practise
from headway.learn.threads import one_thread
from headway.nouns.spaces import MUTATIONS
from headway.project.generating import local
from headway.worlds.prompts.corpus import CLASSES, Prompt, corpus
from headway.worlds.prompts.outcomes import TOKEN_COST, Outcomes
from headway.worlds.prompts.tasks import tasks
from headway.worlds.prompts.world import PromptsWorld, after, may
from headway.worlds.sandbox import sandbox

FOLDS = 9


def ask(prompts: Sequence[Prompt], model: str, table: Path | None) -> dict[str, dict[str, Any]]:
    """id → passed and tokens after each mutation."""
    asked = Outcomes(local(Path(), model), sandbox("auto"), max_tokens=36, batch=30)
    found: dict[str, dict[str, Any]] = {}
    for begin in range(0, len(prompts), 6):
        part = prompts[begin : begin + 6]
        asked.ask([(each, text) for each in part for text in variants(each)])
        for each in part:
            answers = [asked.known[each.id, text] for text in variants(each)]
            found[each.id] = {
                "id": each.id,
                "passed": [answer.passed for answer in answers],
                "tokens": [answer.tokens for answer in answers],
            }
        say(f"asked about {begin + len(part)} of {len(prompts)} prompts")
    if table is not None:
        table.write_text("".join(json.dumps(row) + "\n" for row in found.values()), "utf-8")
    return found


def variants(prompt: Prompt) -> list[str]:
    return [after(prompt.text, kind) for kind in range(len(MUTATIONS))]


class Known:
    """A judge that looks the outcome up."""

    def __init__(self, rewards: dict[str, np.ndarray]) -> None:
        self.rewards = rewards

    def judge(self, subjects: Any, kinds: Any, texts: Any, changed: Any, rng: Any) -> Any:
        del texts, changed, rng
        found = np.array([self.rewards[each.id][kind] for each, kind in zip(subjects, kinds, strict=True)])
        return found, np.ones(len(found), dtype=np.bool_)


def learned(train: list[Prompt], test: list[Prompt], rewards: dict[str, np.ndarray], encoder: Any, seed: int) -> Any:
    """[test prompt, mutation]: the probabilities that a policy which practised on `train` gives."""
    fitted = practise(
        lambda count: PromptsWorld(count, train, encoder, Known(rewards), most_steps=1),
        Practice(
            steps=12_288, envs=64, horizon=16, epochs=4, minibatch=256, rate=1e-3, schedule="linear", gamma=1.0,
            entropy=0.01, hidden=(32,), activation="relu", normalise_rewards=False, decay=0.01,
        ),
        seed,
    )  # fmt: skip
    x = encoder.encode([each.text for each in test]).astype(np.float32)
    masks = np.array([may(each.text) for each in test])
    outputs = np.where(masks, fitted.engine.outputs(fitted.stage.scales.seen(x, np.float32)), -np.inf)
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    rng = np.random.default_rng(7)
    means = values[rng.integers(len(values), size=(4000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)


def main() -> None:
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--set", choices=("tasks", "corpus"), default="tasks")
    parser.add_argument("--encoder", default="hashing")
    parser.add_argument("--table", type=Path, help="outcomes to read, or to write where there are none yet")
    given = parser.parse_args()
    prompts = corpus() if given.set == "corpus" else tasks(84, seed=7)
    if given.quick:
        prompts = [each for each in prompts if int(each.id.rpartition("-")[2]) <= 3]
    if given.table is not None and given.table.exists():
        table = {row["id"]: row for row in map(json.loads, given.table.read_text("utf-8").splitlines())}
        prompts = [each for each in prompts if each.id in table]
    else:
        table = ask(prompts, given.model, given.table)
    earned = {
        key: np.array(row["passed"], dtype=float) - TOKEN_COST * np.array(row["tokens"]) for key, row in table.items()
    }
    rewards = {key: row[-len(MUTATIONS) :] for key, row in earned.items()}
    matrix = np.array([rewards[each.id] for each in prompts])
    masks = np.array([may(each.text) for each in prompts])
    uniform = (matrix * masks).sum(axis=1) / masks.sum(axis=1)
    encoder = encoder_of(given.encoder, models=Path(".venv/headway-cache") if Path(".venv").exists() else None)
    folds = np.array([place for place, _ in enumerate(prompts)]) % FOLDS
    policy, greedy, fixed = (np.zeros(len(prompts)) for _ in range(3))
    with one_thread():
        for fold in range(FOLDS):
            out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            train, test = [prompts[each] for each in rest], [prompts[each] for each in out]
            best = int(np.where(masks[rest], matrix[rest], np.nan).mean(axis=0, where=masks[rest]).argmax())
            fixed[out] = np.where(masks[out, best], matrix[out, best], uniform[out])
            for seed in range(given.seeds):
                shares = learned(train, test, rewards, encoder, seed)
                policy[out] += (shares * matrix[out]).sum(axis=1) / given.seeds
                greedy[out] += matrix[out, shares.argmax(axis=1)] / given.seeds
    figures: dict[str, float] = {
        "prompts": len(prompts),
        "uniform": float(uniform.mean()),
        "policy": float(policy.mean()),
        "greedy": float(greedy.mean()),
        "fixed": float(fixed.mean()),
        "best_of_five": float(np.where(masks, matrix, -np.inf).max(axis=1).mean()),
    }
    for name, values in (
        ("gain", policy - uniform),
        ("gain_greedy", greedy - uniform),
        ("gain_over_fixed", policy - fixed),
    ):
        figures[name], figures[f"{name}_low"], figures[f"{name}_high"] = interval(values)
    for place, kind in enumerate(MUTATIONS):
        figures[f"passed_{kind}"] = float(
            np.mean([table[each.id]["passed"][place - len(MUTATIONS)] for each in prompts])
        )
    for kind in CLASSES:
        mine = [place for place, each in enumerate(prompts) if each.kind == kind]
        if mine:
            figures[f"gain_{kind.replace(' ', '_')}"] = float((policy - uniform)[mine].mean())
    finish("mutations", figures, {}, as_json=given.json)


if __name__ == "__main__":
    main()
