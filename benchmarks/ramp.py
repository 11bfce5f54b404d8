"""Does a promotion in steps stop where an arm gets worse with its share, and how long does a good one take?

    python benchmarks/ramp.py --json                  200 runs
    python benchmarks/ramp.py --quick                 10 runs
    python benchmarks/ramp.py --resume FILE --write   keeps every run in FILE, and puts the table into proof.md

Every run is a project of its own, used through `headway.Project` (`_situations/ramps.py`). One action earns .60. The
other is proven at .85 with a tenth of the traffic; then it earns .30 above a quarter of the traffic, .85 as before, or
.60 from the promotion on. "The steps alone" are the same steps, tests and looks on arrays, without a store and a
learner, so that there are enough runs for a share.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from _contract import arguments, finish, say
from _situations.ramps import equal, equal_alone, good, saturating, saturating_alone
from _situations.trial import Ending

__all__ = ["measure", "parser", "run"]

WORLDS = {
    "saturating": saturating,
    "equal": equal,
    "good": good,
    "saturating_alone": partial(saturating_alone, rows=800),
    "equal_alone": partial(equal_alone, rows=800),
    "saturating_alone_long": partial(saturating_alone, rows=4000),
    "equal_alone_long": partial(equal_alone, rows=4000),
}
FEWER = {"equal": 10, "good": 10}  # these projects are played so many times less often
CALLED = {
    "saturating": "`b` earns .85 below a quarter of the traffic, .30 above",
    "equal": "`b` earns .60 from the promotion on, as much as `a`",
    "good": "`b` earns .85 at every share",
    "saturating_alone": "saturated above a quarter, the steps alone, after a proof of 800 decisions",
    "equal_alone": "equal, the steps alone, after a proof of 800 decisions",
    "saturating_alone_long": "saturated above a quarter, the steps alone, after a proof of 4,000 decisions",
    "equal_alone_long": "equal, the steps alone, after a proof of 4,000 decisions",
}
FULL, QUICK = 200, 10
PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "proof.md"
BEGIN, END = "<!-- ramps: begin -->", "<!-- ramps: end -->"


def play(key: tuple[str, int], seed: int) -> Ending:
    world, replication = key
    return WORLDS[world](seed * 100_000 + replication)


def measure(runs: int, seed: int, jobs: int, resume: Path | None, only: Sequence[str] = ()) -> dict[str, list[Ending]]:
    """The endings of every world, or of those named."""
    known: dict[tuple[str, int], Ending] = {}
    if resume is not None and resume.exists():
        for line in resume.read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["seed"] == seed:
                known[tuple(row["key"])] = Ending(**row["ending"])
    counts = {world: max(min(runs, 5), runs // (1 if only else FEWER.get(world, 1))) for world in only or WORLDS}
    keys = [(world, replication) for world, count in counts.items() for replication in range(count)]
    missing = [key for key in keys if key not in known]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for key, ending in zip(missing, pool.map(play, missing, [seed] * len(missing)), strict=True):
            known[key] = ending
            if resume is not None:
                with resume.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "seed": seed, "ending": asdict(ending)}) + "\n")
    return {world: [known[world, replication] for replication in range(count)] for world, count in counts.items()}


def figures(endings: list[Ending]) -> dict[str, Any]:
    """Shares and medians over the runs in which the candidate was proven."""
    proven = [ending.notes for ending in endings if "proof" in ending.notes]
    stopped = [notes for notes in proven if "stopped" in notes]
    reached = [notes["at 1"] / notes["proof"] for notes in proven if "at 1" in notes]
    turned = [notes["stopped"] - notes["at 0.25"] for notes in stopped if "at 0.25" in notes]
    return {
        "runs": len(proven),
        "stopped": len(stopped) / max(1, len(proven)),
        "complete": sum(ending.promoted for ending in endings) / max(1, len(proven)),
        "decisions_after_quarter": median(turned) if turned else None,
        "decisions_after_quarter_80": sorted(turned)[int(0.8 * (len(turned) - 1))] if turned else None,
        "times_proof_to_last_step": median(reached) if reached else None,
        "times_proof_to_last_step_80": sorted(reached)[int(0.8 * (len(reached) - 1))] if reached else None,
    }


def table(results: dict[str, dict[str, Any]]) -> str:
    head = (
        "| after the promotion | runs | stopped | decisions from the 25% step to the stop: median, 80% of runs | "
        "complete | decisions to the 100% step, as a multiple of the proof's: median, 80% of runs |"
    )
    lines = [head, "|---|---|---|---|---|---|"]
    for world, numbers in results.items():
        stop, late = numbers["decisions_after_quarter"], numbers["decisions_after_quarter_80"]
        whole, slow = numbers["times_proof_to_last_step"], numbers["times_proof_to_last_step_80"]
        lines.append(
            f"| {CALLED[world]} | {numbers['runs']} | {numbers['stopped']:.3f} | "
            f"{'–' if stop is None else f'{stop:.0f}, {late:.0f}'} | {numbers['complete']:.3f} | "
            f"{'–' if whole is None else f'{whole:.2f}, {slow:.2f}'} |"
        )
    return "\n".join(lines)


def parser(description: str) -> argparse.ArgumentParser:
    options = arguments(description)
    options.add_argument("--runs", type=int, help=f"of each world (default {FULL}; {QUICK} with --quick)")
    options.add_argument("--only", nargs="+", default=[], choices=list(WORLDS), help="these worlds, --runs of each")
    options.add_argument("--seed", type=int, default=1, help="base seed (default 1)")
    options.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options.add_argument("--resume", type=Path, metavar="FILE", help="keep every run in FILE and continue it")
    options.add_argument("--write", action="store_true", help="put the table into docs/explanation/proof.md")
    return options


def run(options: argparse.Namespace) -> dict[str, float]:
    """Play the worlds, print the table, and give its numbers."""
    runs = options.runs or (QUICK if options.quick else FULL)
    endings = measure(runs, options.seed, options.jobs, options.resume, options.only)
    results = {world: figures(ended) for world, ended in endings.items()}
    rows = table(results)
    say(rows)
    if options.write:
        head, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
        _, end, tail = rest.partition(END)
        command = f"python benchmarks/ramp.py --seed {options.seed} --runs {runs}"
        PAGE.write_text(f"{head}{begin}\n\n{rows}\n\nMeasured with `{command}`.\n\n{end}{tail}", "utf-8")
    return {
        f"{world}_{name}": float(value)
        for world, numbers in results.items()
        for name, value in numbers.items()
        if value is not None
    }


def main() -> None:
    options = parser((__doc__ or "").partition("\n")[0]).parse_args()
    finish("ramp", run(options), {}, as_json=options.json)


if __name__ == "__main__":
    main()
