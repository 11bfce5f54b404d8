"""Do requests and episodes count as what they are: counts, money, quality and proofs, where upstreams fail?

    python benchmarks/units.py --json                    1,000 projects for money, 200 for each proof
    python benchmarks/units.py --quick                   40 and 10
    python benchmarks/units.py --only money              one of: money, rescue, "canary by episode", …
    python benchmarks/units.py --resume FILE             keeps every project in FILE and continues it
    python benchmarks/units.py --proxy 20 --json         20 projects through a real server and the OpenAI SDK

Every project is used through `headway.Project`, as the proxy uses it, with outages, fallbacks, retries, timeouts, cut
streams and clients that leave. Its counts and its money must equal what was really made and paid; the 95% intervals of
savings and quality are compared with the truth, where the sentence does not say that they are unknown. Rescued
requests, and experiments and canaries by episode, have candidates that are not better: promotions there are false.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from _contract import arguments, finish, say
from _units.measure import figures, keys, measure

__all__ = ["parser", "run"]

PROJECTS, TRIALS = 1000, 200
QUICK_PROJECTS, QUICK_TRIALS = 40, 10


def parser(description: str) -> argparse.ArgumentParser:
    options = arguments(description)
    options.add_argument("--only", default="", metavar="NAMES", help="some of it, separated by commas")
    options.add_argument("--projects", type=int, help=f"for counts and money (default {PROJECTS})")
    options.add_argument("--trials", type=int, help=f"of each proof (default {TRIALS})")
    options.add_argument("--seed", type=int, default=1, help="base seed (default 1)")
    options.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options.add_argument("--proxy", type=int, default=0, metavar="N", help="N projects through the proxy instead")
    options.add_argument("--resume", type=Path, metavar="FILE", help="keep projects in FILE and continue it")
    return options


def run(options: argparse.Namespace) -> dict[str, float]:
    """The figures of the projects that the options ask for."""
    if options.proxy:
        return through_proxy(options.proxy, options.seed)
    projects = options.projects or (QUICK_PROJECTS if options.quick else PROJECTS)
    trials = options.trials or (QUICK_TRIALS if options.quick else TRIALS)
    wanted = list(keys(projects, trials, [name for name in options.only.split(",") if name]))
    return figures(measure(wanted, seed=options.seed, jobs=options.jobs, resume=options.resume))


def through_proxy(projects: int, seed: int) -> dict[str, float]:
    """Projects whose every number is compared with what model servers and client have really seen."""
    from _units.through_proxy import play

    compared, wrong = 0, list[str]()
    for place in range(projects):
        checked = play(seed + place)
        compared += checked.compared
        wrong += [f"project {seed + place}: {line}" for line in checked.wrong]
        say(f"project {seed + place}: {checked.compared} numbers, {len(checked.wrong)} wrong")
    for line in wrong:
        say(line)
    return {"proxy_projects": projects, "proxy_numbers": compared, "proxy_wrong": len(wrong)}


def main() -> None:
    options = parser((__doc__ or "").partition("\n")[0]).parse_args()
    finish("units", run(options), {}, as_json=options.json)


if __name__ == "__main__":
    main()
