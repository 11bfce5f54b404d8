"""Runs a solver on a file of problems: solutions judged by several workers, results kept as they come.

    done = run_problems(problems, crew=catalogue().crew(2), out=Path("results.jsonl"))
    done.counts                     # {"passed": 998, "failed": 2, "timeout": 0, "error": 0}

Problems are judged in parts of `PART`, each by one worker in its own warm sandbox. Results are written in the order of
the problems, so they do not depend on the number of workers. A run that was killed is resumed by the same call.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headway.kits.sandbox import Limits, sandbox
from headway.kits.simulator.judge import LIMITS, CodeJudge, JudgeJob, JudgeResult
from headway.kits.simulator.problem import CodeProblem
from headway.kits.simulator.results import ResultsFile
from headway.kits.simulator.solve import REFERENCE, check_solver, solution_of
from headway.nouns.errors import Unavailable
from headway.nouns.protocols import Crew, Progress

__all__ = ["PART", "RunShard", "SimRun", "judge_shard", "run_problems"]

PART = 8  # problems; a worker that is killed repeats at most so many
STATUSES = ("passed", "failed", "timeout", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShard:
    """Problems for one worker."""

    problems: tuple[CodeProblem, ...]
    solver: str
    sandbox: str
    limits: Limits
    folder: Path = Path()  # of the project whose settings name the models


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRun:
    """What a run gave: the rows of its results, in the order of the problems."""

    out: Path
    solver: str
    sandbox: str
    workers: int
    rows: tuple[dict[str, Any], ...]
    resumed: int  # rows that were there before
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        seen = Counter(row["status"] for row in self.rows)
        return {status: seen[status] for status in STATUSES}

    def by_family(self) -> dict[str, dict[str, int]]:
        families: dict[str, Counter[str]] = {}
        for row in self.rows:
            families.setdefault(row["family"], Counter())[row["status"]] += 1
        return {name: {status: seen[status] for status in STATUSES} for name, seen in sorted(families.items())}


def run_problems(
    problems: Sequence[CodeProblem],
    *,
    crew: Crew,
    out: Path,
    solver: str = REFERENCE,
    sandbox_name: str = "auto",
    limits: Limits = LIMITS,
    progress: Progress | None = None,
    folder: Path = Path(),
) -> SimRun:
    """Judge one solution of each problem; `sandbox_missing` before anything runs if there is no sandbox."""
    check_solver(solver, folder)
    box = sandbox(sandbox_name).name
    begun = time.monotonic()
    with ResultsFile(out, _key(problems, solver, box, limits)) as results:
        done = results.done
        left = [problem for problem in problems if problem.id not in done]
        shards = [
            RunShard(problems=tuple(left[at : at + PART]), solver=solver, sandbox=box, limits=limits, folder=folder)
            for at in range(0, len(left), PART)
        ]
        finished = len(done)
        for rows in crew.map("headway.kits.simulator.run:judge_shard", shards):
            results.append(rows)
            finished += len(rows)
            if progress is not None:
                progress("judge", finished, len(problems))
        final = results.finish([problem.id for problem in problems])
    return SimRun(
        out=out, solver=solver, sandbox=box, workers=crew.workers, rows=tuple(final), resumed=len(done),
        seconds=time.monotonic() - begun,
    )  # fmt: skip


def judge_shard(shard: RunShard) -> list[dict[str, Any]]:
    """The rows of one part; runs in a worker, which keeps its sandbox warm."""
    return [_row(problem, shard) for problem in shard.problems]


def _row(problem: CodeProblem, shard: RunShard) -> dict[str, Any]:
    try:
        source = solution_of(shard.solver, problem, shard.folder)
    except Unavailable as error:
        judged = JudgeResult(key=problem.id, status="error", why=f"the solver did not answer: {error.message}")
    else:
        job = JudgeJob(key=problem.id, problem=problem, solution=source, limits=shard.limits)
        judged = _judge(shard.sandbox).judge(job)
    values = asdict(judged)
    del values["key"], values["wrong_cases"]
    about = {"id": problem.id, "family": problem.family, "difficulty": problem.difficulty, "solver": shard.solver}
    return {**about, **values}


@cache
def _judge(name: str) -> CodeJudge:
    """The judge of this process; it ends with the process."""
    return CodeJudge(name)


def _key(problems: Sequence[CodeProblem], solver: str, box: str, limits: Limits) -> dict[str, Any]:
    """What results must have in common to be of the same run."""
    digest = hashlib.sha256("\n".join(problem.checksum for problem in problems).encode()).hexdigest()
    return {
        "problems": digest, "count": len(problems), "solver": solver, "sandbox": box, "limits": asdict(limits),
    }  # fmt: skip
