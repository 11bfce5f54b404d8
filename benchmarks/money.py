"""How often do the 95% intervals of the money sentence hold the truth, and how often does it say "unknown"?

    python benchmarks/money.py --seed 7 --replications 60       every world; --only silent,late: some of them

Every replication is a project of its own with 1,500 decisions, used through `headway.Project`.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from _contract import arguments, finish, say
from _situations.money import MONEY, Sentence, sentence


def play(name: str, seed: int) -> Sentence:
    return sentence(next(world for world in MONEY if world.name == name), seed)


def shares(answers: list[bool | None]) -> tuple[float, float]:
    """Of those that are shown, how many hold the truth (1 if none is shown); and the share of "unknown"."""
    shown = [answer for answer in answers if answer is not None]
    return (sum(shown) / len(shown) if shown else 1.0), 1.0 - len(shown) / len(answers)


def main() -> None:
    options = arguments((__doc__ or "").partition("\n")[0])
    options.add_argument("--only", default="", metavar="NAMES", help="some worlds, separated by commas")
    options.add_argument("--replications", type=int, help="of every world (default 60; 10 with --quick)")
    options.add_argument("--seed", type=int, default=1, help="base seed (default 1)")
    options.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    given = options.parse_args()
    count = given.replications or (10 if given.quick else 60)
    wanted = [world for world in MONEY if not given.only or world.name in given.only.split(",")]
    lines = [
        "| world | runs | savings: coverage | unknown | quality: coverage | unknown | for example |",
        "|---|---|---|---|---|---|---|",
    ]
    figures: dict[str, float] = {}
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for world in wanted:
            seeds = [given.seed * 100_000 + place for place in range(count)]
            answers = list(pool.map(play, repeat(world.name), seeds))
            saved, unknown = shares([answer.saved for answer in answers])
            kept, unrated = shares([answer.quality for answer in answers])
            lines.append(
                f"| {world.about} | {count} | {'–' if unknown == 1.0 else f'{saved:.2f}'} | {unknown:.2f} | "
                f"{'–' if unrated == 1.0 else f'{kept:.2f}'} | {unrated:.2f} | {answers[0].text} |"
            )
            figures |= {
                f"{world.name}_saved_coverage": saved,
                f"{world.name}_saved_unknown": unknown,
                f"{world.name}_quality_coverage": kept,
                f"{world.name}_quality_unknown": unrated,
            }
    say("\n".join(lines))
    finish("money", figures, {}, as_json=given.json)


if __name__ == "__main__":
    main()
