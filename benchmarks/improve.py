"""How often does a run of `headway improve` keep a proposal without effect, and how many pairs does a real effect take?

    python benchmarks/improve.py --json      300 runs of 50 proposals without effect, per kind of noise
    python benchmarks/improve.py --quick     40 runs

The test and its error budget alone, on simulated measurements, in the order in which a run would make them: without a
sandbox there are enough runs for a share. `drift` makes every measurement slower than the one before it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _contract import arguments, finish, say

from headway.kits.next_action.improve.paired_test import PairedTest, share_of

ALPHA, PAIRS, PROPOSALS = 0.05, 30, 50
EFFECTS = (0.5, 1.0, 2.0, 4.0)
Noise = Callable[[np.random.Generator], Iterator[float]]


def normal(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.normal(size=64).tolist()


def heavy(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.standard_t(1.5, size=64).tolist()


def drift(rng: np.random.Generator) -> Iterator[float]:
    """A machine that heats: every measurement loses half a standard deviation."""
    for place, value in enumerate(normal(rng)):
        yield value - 0.5 * place


def play(rng: np.random.Generator, noise: Iterator[float], alpha: float, effect: float = 0.0) -> PairedTest:
    """One proposal, whose pairs are measured in a drawn order."""
    test = PairedTest(alpha=alpha, repeats=PAIRS)
    while test.ruling == "open":
        first, second = next(noise), next(noise)
        ours, theirs = (first, second) if rng.random() < 0.5 else (second, first)
        test.add(ours + effect, theirs)
    return test


def run_of_nulls(rng: np.random.Generator, noise: Noise) -> int:
    """How many of 50 proposals without effect a run keeps."""
    kept, measured = 0, noise(rng)
    for tested in range(PROPOSALS):
        alpha = share_of(ALPHA, tested=tested, kept=kept, rounds=PROPOSALS)
        kept += play(rng, measured, alpha).ruling == "kept"
    return kept


def parser() -> argparse.ArgumentParser:
    parser = arguments("The error budget of improve.")
    parser.add_argument("--seed", type=int, default=20261116)
    return parser


def main() -> int:
    given = parser().parse_args()
    runs, figures = 40 if given.quick else 300, {}
    for noise in (normal, heavy, drift):
        rng = np.random.default_rng([given.seed, 1])
        kept = [run_of_nulls(rng, noise) for _ in range(runs)]
        figures[f"runs of {PROPOSALS} nulls that keep something, {noise.__name__}"] = float(np.mean(np.array(kept) > 0))
        rng = np.random.default_rng([given.seed, 2])
        single = [play(rng, noise(rng), ALPHA).ruling == "kept" for _ in range(runs * 5)]
        figures[f"single tests that keep a null, {noise.__name__}"] = float(np.mean(single))
    for rounds in (1, 20):
        alpha = share_of(ALPHA, tested=0, kept=0, rounds=rounds)
        for effect in (0.0, *EFFECTS):
            rng = np.random.default_rng([given.seed, 3])
            tests = [play(rng, normal(rng), alpha, effect) for _ in range(runs * 5)]
            name = f"{effect:g} sd better, {rounds} rounds"
            figures[f"kept: {name}"] = float(np.mean([test.ruling == "kept" for test in tests]))
            figures[f"pairs: {name}"] = float(np.mean([test.pairs for test in tests]))
    if not given.json:
        say(f"{runs} runs, {runs * 5} single tests each:")
    finish("improve", figures, {}, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
