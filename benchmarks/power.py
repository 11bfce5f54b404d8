"""How soon does the shipped loop promote what is better, and how soon does it notice that the world has changed?

    python benchmarks/power.py --json                            100 runs of every case
    python benchmarks/power.py --quick                           3 runs each, the long ones shortened
    python benchmarks/power.py --only steady,equal               some of the cases
    python benchmarks/power.py --resume FILE                     keeps every run in FILE and continues it
    python benchmarks/power.py --resume FILE --kept --write      the table of FILE, into docs/explanation/proof.md

Every run is a project of its own: a client decides and reports outcomes, and the loop is checked after each batch, on a
clock that the benchmark moves. Nothing is configured but the task's actions and rules, and `promote = "auto"`. Beside
it, with the same arms: a 50/50 test of fixed size and a sequential one, Vowpal Wabbit, and LiteLLM's adaptive router.
A mean reward is the mean of the chances of success of what was chosen, so that luck does not count. Where the
package litellm is not installed (`requirements/bench.txt` says how), its column is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from _contract import arguments, finish, say
from _power.cases import CASES
from _power.summary import figures, ratios, table

__all__ = ["BEGIN", "END", "PAGE", "chosen", "kept", "measure", "parser", "write"]

FULL, QUICK = 100, 3
PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "proof.md"
BEGIN, END = "<!-- power: begin -->", "<!-- power: end -->"
Numbers = dict[str, float]
Key = tuple[str, int]  # case, run


def play(key: Key, seed: int, quick: bool) -> Numbers:
    """One run. Seeds never meet: neither those of different base seeds nor those of different cases."""
    name, place = key
    case = CASES[name]
    return ((quick and case.shorter) or case.play)(seed * 100_000 + list(CASES).index(name) * 1_000 + place)


def measure(
    cases: Sequence[str], *, runs: int, seed: int, quick: bool, jobs: int = 2, resume: Path | None = None
) -> dict[str, list[Numbers]]:
    """The numbers of every run, by case."""
    wanted = [(name, place) for place in range(runs) for name in cases]
    played = _kept(resume, seed, quick)
    missing = [key for key in wanted if key not in played]
    started = time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        playing = {pool.submit(play, key, seed, quick): key for key in missing}
        for done, future in enumerate(as_completed(playing), start=1):
            key = playing[future]
            played[key] = future.result()
            if resume is not None:
                row = {"key": key, "seed": seed, "quick": quick, "numbers": played[key]}
                with resume.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            if done % 20 == 0 or done == len(missing):
                passed = time.monotonic() - started
                print(f"{done:,} of {len(missing):,} in {passed:,.0f} s", file=sys.stderr, flush=True)
    return {name: [played[name, place] for place in range(runs)] for name in cases}


def kept(cases: Sequence[str], *, seed: int, quick: bool, resume: Path) -> dict[str, list[Numbers]]:
    """The numbers of the runs that a file has, by case; cases without any are left out."""
    rows = _kept(resume, seed, quick)
    results = {name: [numbers for (case, _), numbers in sorted(rows.items()) if case == name] for name in cases}
    return {name: runs for name, runs in results.items() if runs}


def _kept(resume: Path | None, seed: int, quick: bool) -> dict[Key, Numbers]:
    """Runs of the same base seed and length that an earlier call has kept."""
    if resume is None or not resume.exists():
        return {}
    rows = [json.loads(line) for line in resume.read_text("utf-8").splitlines()]
    return {tuple(row["key"]): row["numbers"] for row in rows if (row["seed"], row["quick"]) == (seed, quick)}


def parser(description: str) -> argparse.ArgumentParser:
    """The flags of a benchmark, and those of its cases."""
    options = arguments(description)
    options.add_argument("--only", default="", metavar="NAMES", help="some cases, separated by commas")
    options.add_argument("--runs", type=int, help=f"of every case (default {FULL}; {QUICK} with --quick)")
    options.add_argument("--seed", type=int, default=1, help="base seed of the runs (default 1)")
    options.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options.add_argument("--resume", type=Path, metavar="FILE", help="keep runs in FILE and continue it")
    options.add_argument("--kept", action="store_true", help="play nothing: the runs that FILE of --resume has")
    options.add_argument("--write", action="store_true", help="put the table into docs/explanation/proof.md")
    return options


def chosen(names: str) -> list[str]:
    """The cases of these names, all without any; an unknown name is an error."""
    wanted = [name for name in names.split(",") if name]
    if unknown := set(wanted) - set(CASES):
        raise SystemExit(f"No such case: {', '.join(sorted(unknown))}. Known: {', '.join(CASES)}")
    return [name for name in CASES if not wanted or name in wanted]


def write(rows: str, options: argparse.Namespace, page: Path) -> None:
    """Replace the tables between the two marks of a page."""
    head, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} lacks its marks {BEGIN} and {END}")
    many = "" if options.kept else f" --runs {_runs(options)}"
    command = f"python benchmarks/power.py --seed {options.seed}{many}"
    page.write_text(f"{head}{BEGIN}\n\n{rows}\n\nMeasured with `{command}`.\n\n{END}{tail}", "utf-8")


def _runs(options: argparse.Namespace) -> int:
    return int(options.runs or (QUICK if options.quick else FULL))


def main() -> None:
    options = parser((__doc__ or "").partition("\n")[0]).parse_args()
    cases, seed, quick, resume = chosen(options.only), options.seed, options.quick, options.resume
    if options.kept:
        if resume is None or not resume.exists():
            raise SystemExit("--kept needs --resume FILE with runs")
        results = kept(cases, seed=seed, quick=quick, resume=resume)
    else:
        results = measure(cases, runs=_runs(options), seed=seed, quick=quick, jobs=options.jobs, resume=resume)
    say(table(results))
    if options.write:
        write(table(results), options, PAGE)
    finish("power", figures(results), ratios(results), packages=("vowpalwabbit", "litellm"), as_json=options.json)


if __name__ == "__main__":
    main()
