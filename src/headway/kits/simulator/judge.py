"""Judges solutions of programming problems by running them beside their tests in a sandbox.

    with CodeJudge("auto") as judge:                                        # docker or bubblewrap; never the bare host
        for result in judge.run([JudgeJob(key="a", problem=problem, solution=source)]):
            result.status                                               # passed | failed | timeout | error

Tests that are data (`visible`, `hidden`) are compared, and tests that are code (`tests`) run, in another process than
the solution, which learns the arguments of a call and nothing else. Numbers are equal within 1e-9, tuples equal lists,
True is not 1. Under bubblewrap one start serves many problems; see headway.kits.sandbox.pair_runners.

`error` means that the sandbox could not run, or that the tests of the problem cannot be loaded. A solution cannot
cause it: one that ends its sandbox has failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import msgspec

from headway.kits.sandbox import Limits, PairReport, Status, pairs
from headway.kits.simulator.problem import CodeProblem

LIMITS = Limits(wall_s=5.0, cpu_s=3.0, memory_bytes=256 << 20, processes=8, disk_bytes=16 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeJob:
    """One solution to judge: on the hidden tests, or only on the visible ones."""

    key: str
    problem: CodeProblem
    solution: str
    hidden: bool = True
    limits: Limits = LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeResult:
    """The verdict on a solution. CPU time and memory are those of the solution and its tests together."""

    key: str
    status: Status
    passed: int = 0
    total: int = 0
    why: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    wrong_cases: tuple[int, ...] = ()  # the numbers of the cases that failed, where tests are data and all were asked


class CodeJudge:
    """Runs solutions one after the other in one sandbox. Not thread-safe; keep it in the thread that made it."""

    def __init__(self, sandbox: str = "auto", *, warm: bool = True) -> None:
        """Raises `sandbox_missing` if this machine does not have it. Without `warm`: one start for each solution."""
        self._pairs = pairs(sandbox, _source(), warm=warm)
        self.sandbox = self._pairs.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._pairs.close()

    def run(self, jobs: Iterable[JudgeJob]) -> Iterator[JudgeResult]:
        """The results in the order of the jobs."""
        for job in jobs:
            yield self.judge(job)

    def judge(self, job: JudgeJob) -> JudgeResult:
        problem = job.problem
        cases = problem.hidden if job.hidden else problem.visible
        code = problem.tests if job.hidden else ""
        if not cases and not code:
            return JudgeResult(key=job.key, status="passed")  # there is nothing to check
        asked = {"entry": problem.entry, "cases": [msgspec.to_builtins(case) for case in cases], "tests": code}
        solution = {"entry": problem.entry, "source": job.solution}
        given = json.dumps(solution).encode(), json.dumps(asked).encode()
        report = self._pairs.run(job.limits, *given, apart=bool(code))
        return _result(job.key, report, 1 if code else len(cases))


def _result(key: str, report: PairReport, total: int) -> JudgeResult:
    verdict = _verdict(report.verdict)
    status: Status = "failed"
    passed, why = verdict.passed, report.why or verdict.why[:600]
    if report.status != "ended":
        status, passed = report.status, 0
    elif verdict.broken:
        status = "error"
    elif verdict.total == total and passed == total:
        status = "passed"
    elif not why:
        why = "the tests ended without a verdict"
    return JudgeResult(
        key=key, status=status, passed=passed, total=total, why="" if status == "passed" else why,
        seconds=report.seconds, cpu_s=report.cpu_s, peak_memory_bytes=report.peak_memory_bytes,
        wrong_cases=tuple(verdict.failed) if report.status == "ended" else (),
    )  # fmt: skip


def _verdict(content: bytes) -> _Verdict:
    """What the tests wrote. Test code comes from files of others: whatever is not a verdict counts as none."""
    try:
        return msgspec.json.decode(content, type=_Verdict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Verdict()


class _Verdict(msgspec.Struct, frozen=True):
    passed: int = 0
    total: int = -1
    why: str = ""
    broken: str = ""
    failed: list[int] = []


@cache
def _source() -> str:
    return Path(__file__).with_name("pair.py").read_text("utf-8")
