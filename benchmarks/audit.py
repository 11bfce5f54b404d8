"""How often `headway audit` calls a useless router better, and how often it finds a better one, in every log format.

    python benchmarks/audit.py --json

Every replay writes a log of known value in the shape of one program, and audits the files as the command does.

- `PROGRAM_null_better`: replays of 600 decisions in which the router earns exactly what the best single action does
  (the others earn less), or the treatment of an experiment exactly what the control does. At most .05 is promised.
- `PROGRAM_equal_better`: the same where every action earns the same.
- `PROGRAM_found`: replays of 3,000 decisions with an uplift of .1 that are called better.

1,000 replays of the null, 200 of equal actions, 50 of better routers; `--quick` does a tenth.
The seeds are the same in every format: formats are compared on the same draws, and are not independent of one another.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import tempfile
from pathlib import Path

from _contract import ROOT, arguments, finish, say

sys.path.insert(0, str(ROOT))  # the logs of the tests

from headway.kits.audit.audit import audit_files
from headway.kits.audit.options import AuditOptions
from tests.kits.audit.worlds import EXPERIMENTS, PROGRAMS, write_log


def better(program: str, seed: int, *, uplift: float, rows: int, tight: bool = False) -> bool:
    """Whether the audit of one replay says "better"."""
    with tempfile.TemporaryDirectory() as folder:
        paths, options = write_log(program, Path(folder), uplift=uplift, rows=rows, seed=seed, tight=tight)
        audit = audit_files(paths, options=AuditOptions(**options))
    assert audit.shape.name == program, f"{program} was taken for {audit.shape.name}"
    return audit.state == "better"


def main() -> None:
    given = arguments(__doc__ or "").parse_args()
    many, few = (100, 20) if given.quick else (1000, 200)
    figures: dict[str, float] = {}
    for program in PROGRAMS:
        null = sum(better(program, seed, uplift=0.0, rows=600, tight=True) for seed in range(many))
        figures[f"{program}_null_better"] = null / many
        if program not in EXPERIMENTS:
            equal = sum(better(program, seed, uplift=0.0, rows=600) for seed in range(10_000, 10_000 + few))
            figures[f"{program}_equal_better"] = equal / few
        found = sum(better(program, seed, uplift=0.1, rows=3_000) for seed in range(20_000, 20_000 + few // 4))
        figures[f"{program}_found"] = found / (few // 4)
        say(f"{program}: {null} of {many} null replays called better, {found} of {few // 4} better routers found")
    finish("audit", figures, {}, as_json=given.json)


if __name__ == "__main__":
    main()
