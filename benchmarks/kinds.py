"""Kinds of evidence without propensities: how often a useless policy passes, through the public interface.

    python benchmarks/kinds.py --json

- `world_false_promotions`: a coin against another of the same chance, a look after every 50 of at most 1,000 episodes;
  even coins, coins that nearly always pay, and coins that rarely do. α = .001 for the first candidate.
- `shuffled_promotions`: of 20 policies that practised in the prompts world with rewards shuffled between prompts.
- `noise_promotions`: of 20 policies per family, learned from imported rows without probabilities and with noise labels.

`--quick` does a tenth of each.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _contract import ROOT, arguments, finish, say

sys.path.insert(0, str(ROOT))  # the coins of the tests

from headway.encode.hashing import HashingEncoder
from headway.kits.practice.fit import practise_in
from headway.kits.practice.learner import on_text
from headway.kits.prompts import MUTATIONS
from headway.kits.prompts.commands import SETTINGS
from headway.kits.prompts.practise_synthetic import WIDTH, _practice, publish_practised
from headway.kits.prompts.synthetic import synthetic
from headway.nouns.evidence import Verdict
from headway.project import Project
from tests.kits.practice.coins import coin_project, publish

CHANCES = (0.5, 0.97, 0.03)
FAMILIES = ("outcome", "clone", "bandit")


def coin(chance: float, seed: int) -> Verdict:
    """A policy that takes the left coin against uniform choice between two equal ones."""
    with tempfile.TemporaryDirectory() as folder, coin_project(Path(folder)) as project:
        publish(project, "left", chances=[chance, chance], low=-1e-6 * seed)  # another hash, other episodes
        return project.prove(task="coins")


class Shuffled:
    """A world whose rewards go to other copies."""

    def __init__(self, world: Any, seed: int) -> None:
        self._world, self._rng = world, np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def step(self, actions: Any) -> tuple[Any, ...]:
        observations, rewards, *rest = self._world.step(actions)
        return observations, self._rng.permutation(rewards), *rest


def shuffled(seed: int, *, shuffle: bool = True) -> Verdict:
    """A policy that practised on rewards that say nothing about its actions."""
    encoder = HashingEncoder(WIDTH)

    def make(count: int) -> Any:
        world = synthetic("train", count=count, prompts=700, seed=seed, encoder=encoder)
        return Shuffled(world, seed) if shuffle else world

    fitted = practise_in(make, replace(_practice(16_384), hidden=(32,)), seed)
    learned = on_text(fitted, encoder, arms=MUTATIONS)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "headway.toml").write_text(SETTINGS, "utf-8")
        with Project(Path(folder), source="synthetic") as project:
            publish_practised(
                project, learned, task="mutate", kind="choice", encoder=encoder.version, world="prompts", seed=seed,
                fresh={"part": "test", "prompts": 2100, "seed": seed},
            )  # fmt: skip
            return project.prove(task="mutate")


def noise(family: str, seed: int, *, rows: int = 1200) -> Verdict:
    """A policy learned from imported rows whose actions and rewards have nothing to do with their state."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "headway.toml").write_text(
            f'[tasks.route]\nactions = ["a", "b", "c"]\nfamily = "{family}"\nrange = [0.0, 1.0]\non_failure = 0.0\n',
            "utf-8",
        )
        lines = [
            {"id": f"{number}", "text": f"row {number}", "action": "abc"[int(rng.integers(3))],
             "reward": float(rng.random() < 0.5), "x": float(rng.random()), "y": float(rng.random())}
            for number in range(rows)
        ]  # fmt: skip
        (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
        columns = {"propensity": "unknown", "state.x": "x", "state.y": "y"}
        with Project(folder) as project:
            project.import_file(
                folder / "log.jsonl", format="columns", task="route", columns=columns, candidates=("a", "b", "c")
            )
            project.learn("route")
            return project.prove(task="route")


def main() -> None:
    given = arguments(__doc__ or "").parse_args()
    reps, few = (20, 2) if given.quick else (200, 20)
    figures: dict[str, float] = {}
    for chance in CHANCES:
        passed = sum(coin(chance, seed).passed for seed in range(1_000, 1_000 + reps))
        figures[f"world_false_promotions_{chance:g}"] = passed / reps
        say(f"coins that pay {chance:.0%}: {passed} of {reps} promoted")
    figures["shuffled_promotions"] = sum(shuffled(seed).passed for seed in range(100, 100 + few))
    say(f"shuffled rewards: {figures['shuffled_promotions']:g} of {few} promoted")
    for family in FAMILIES:
        figures[f"noise_promotions_{family}"] = sum(noise(family, seed).passed for seed in range(100, 100 + few))
        say(f"noise labels, {family}: {figures[f'noise_promotions_{family}']:g} of {few} promoted")
    figures["honest_promotions"] = sum(shuffled(seed, shuffle=False).passed for seed in range(max(1, few // 10)))
    finish("kinds", figures, {}, as_json=given.json)


if __name__ == "__main__":
    main()
