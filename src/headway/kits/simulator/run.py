"""Runs a solver on a file of problems: solutions judged by several workers, results kept as they come.

    done = run_problems(problems, crew=crew(catalogue(), 2), out=Path("results.jsonl"))
    done.counts                     # {"passed": 998, "failed": 2, "timeout": 0, "error": 0}

Problems are judged in parts of `PART`, each by one worker in its own warm sandbox. Results are written in the order of
the problems, so they do not depend on the number of workers. A run that was killed is resumed by the same call.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from headway.files import read_regular, write_whole
from headway.kits.sandbox import Limits, sandbox
from headway.kits.simulator.judge import LIMITS, CodeJudge, JudgeJob, JudgeResult
from headway.kits.simulator.problem import CodeProblem
from headway.kits.simulator.solvers import SCRIPTED, check_model, known_models, model_source, scripted
from headway.nouns import Crew, Progress, errors


class ResultsFile:
    """Results on disk; only one process writes a file at a time."""

    def __init__(self, path: Path, key: dict[str, Any]) -> None:
        self.path, self._key = path, key
        self.rows: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        self._lock = self._locked()
        try:
            self._read()
            self._write()
            self._file = self.path.open("ab", buffering=0)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock_path().unlink(missing_ok=True)
        os.close(self._lock)

    @property
    def done(self) -> set[str]:
        return {name for name, row in self.rows.items() if row["status"] != "error"}

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add results; they survive a kill of this process."""
        fresh = {row["id"]: row for row in rows}
        self.rows |= fresh
        self._file.write(b"".join(map(_line, fresh.values())))

    def finish(self, order: Sequence[str]) -> list[dict[str, Any]]:
        """Write the file again in this order, as a whole; returns its rows."""
        self.rows = {name: self.rows[name] for name in order if name in self.rows}
        self._write()
        return list(self.rows.values())

    def _lock_path(self) -> Path:
        return self.path.with_name(f".{self.path.name}.lock")

    def _locked(self) -> int:
        try:
            lock = os.open(self._lock_path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise errors.InvalidInput(
                f"The results {str(self.path)!r} cannot be written: {error.strerror}.",
                code="results_not_written",
                hint="Name a file in a folder that exists and that you may write to, with --out.",
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise errors.Conflict(
                f"Another run writes {str(self.path)!r}.",
                code="results_in_use",
                hint="Wait for it, or name another file.",
            ) from error
        return lock

    def _read(self) -> None:
        if not self.path.exists():
            return
        whole, _, _ = read_regular(self.path).rpartition(b"\n")
        try:
            first, *rest = [json.loads(line) for line in whole.splitlines()] or [{"run": self._key}]
            rows = {str(row["id"]): row for row in rest if row["status"]}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._foreign() from error
        if not isinstance(first, dict) or first.get("run") != self._key:
            raise self._foreign()
        self.rows = rows

    def _foreign(self) -> errors.Conflict:
        return errors.Conflict(
            f"{str(self.path)!r} is not a file of this run's results: the problems, the solver or the sandbox differ.",
            code="other_results",
            hint="Name another file with --out, or remove this one.",
        )

    def _write(self) -> None:
        write_whole(self.path, b"".join(map(_line, [{"run": self._key}, *self.rows.values()])))


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


REFERENCE = "reference"


def solver_names() -> tuple[str, ...]:
    """The solvers that need no model."""
    return (REFERENCE, *SCRIPTED)


def check_solver(name: str, folder: Path = Path()) -> None:
    """Refuse an unknown solver, or a local model that is not here, before anything runs."""
    if name in solver_names():
        return
    models = known_models(folder)
    if name not in models:
        names = (*solver_names(), *models)
        raise errors.UnknownName(
            f"There is no solver {name!r}.", code="unknown_solver", hint=errors.did_you_mean(name, names)
        )
    check_model(folder, name)


def solution_of(name: str, problem: CodeProblem, folder: Path = Path()) -> str:
    """The source that a solver hands in for a problem."""
    if name == REFERENCE:
        return problem.reference
    if name in SCRIPTED:
        return scripted(name, problem, problem.statement)
    return model_source(folder, name, problem)


PART = 8  # problems; a worker that is killed repeats at most these
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

    def document(self) -> dict[str, Any]:
        fresh = len(self.rows) - self.resumed
        return {
            "results": str(self.out),
            "solver": self.solver,
            "sandbox": self.sandbox,
            "workers": self.workers,
            "problems": len(self.rows),
            "resumed": self.resumed,
            "counts": self.counts,
            "families": self.by_family(),
            "seconds": self.seconds,
            "problems_per_s": fresh / self.seconds if self.seconds > 0 else None,
            "cpu_s": sum(row["cpu_s"] for row in self.rows),
            "peak_memory_bytes": max((row["peak_memory_bytes"] for row in self.rows), default=0),
        }

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
    except errors.Unavailable as error:
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
