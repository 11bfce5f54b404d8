"""Proves for each problem of a file that the reference passes and that every wrong solution fails.

    with judges("auto", workers=2) as (run, sandbox):
        validate(problems, path, run).broken                       # id → what is wrong with it

The results are kept beside the file (outcomes.py), where practice finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import msgspec

from headway.kits.simulator.judge import CodeJudge, JudgeJob
from headway.kits.simulator.outcomes import OutcomeRow, RunSource, outcomes
from headway.kits.simulator.problem import CodeProblem
from headway.nouns import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Problems that were checked, and what is wrong with the broken ones."""

    problems: int
    solutions: int
    judged: int  # how many solutions were run now; the results of the others were known
    broken: dict[str, str]


@contextmanager
def judges(sandbox: str, workers: int) -> Iterator[tuple[RunSource, str]]:
    """(how to run sources, the sandbox's name): `workers` sandboxes side by side, each in a thread of its own."""
    with ExitStack() as stack:
        idle: Queue[CodeJudge] = Queue()
        for _ in range(workers):
            idle.put(stack.enter_context(CodeJudge(sandbox)))
        name = idle.queue[0].sandbox
        pool = stack.enter_context(ThreadPoolExecutor(workers))

        def one(pair: tuple[CodeProblem, str]) -> tuple[str, str, str]:
            judge = idle.get()
            try:
                return _both(judge, *pair)
            finally:
                idle.put(judge)

        yield lambda pairs: pool.map(one, pairs), name


def _both(judge: CodeJudge, problem: CodeProblem, source: str) -> tuple[str, str, str]:
    """(status on the visible tests, on the hidden tests, why): one run where that tells both."""
    if problem.tests:
        result = judge.judge(JudgeJob(key="", problem=problem, solution=source))
        return "passed", result.status, result.why
    shown = len(problem.visible)
    whole = msgspec.structs.replace(problem, hidden=[*problem.visible, *problem.hidden])
    result = judge.judge(JudgeJob(key="", problem=whole, solution=source))
    if result.status == "passed":
        return "passed", "passed", ""
    if result.wrong_cases:
        visible = "failed" if min(result.wrong_cases) < shown else "passed"
        return visible, "failed" if max(result.wrong_cases) >= shown else "passed", result.why
    # It did not answer all cases: the two sets of tests are asked apart.
    apart = [judge.judge(JudgeJob(key="", problem=problem, solution=source, hidden=hidden)) for hidden in (False, True)]
    return apart[0].status, apart[1].status, apart[1].why or apart[0].why


def validate(
    problems: Sequence[CodeProblem], path: Path, run: RunSource, progress: Progress | None = None
) -> Validation:
    """Judge every solution of every problem."""
    table = outcomes(problems, path, run, progress)
    broken: dict[str, str] = {}
    statements: dict[str, str] = {}
    for problem, rows in zip(problems, table.rows, strict=True):
        first = statements.setdefault(problem.statement, problem.id)
        why = _fault(rows) or (f"its statement is that of {first!r}" if first != problem.id else "")
        if why:
            broken[problem.id] = why
    return Validation(problems=len(problems), solutions=sum(map(len, table.rows)), judged=table.judged, broken=broken)


def _fault(rows: Sequence[OutcomeRow]) -> str:
    """What is wrong with a problem, by the outcomes of the reference and of the wrong solutions."""
    for name, status in (("visible", rows[0].visible), ("hidden", rows[0].hidden)):
        if status != "passed":
            told = f" ({rows[0].why})" if rows[0].why else ""
            return f"the reference does not pass the {name} tests: {status}{told}"
    for number, row in enumerate(rows[1:], 1):
        if row.hidden == "passed":
            return f"the wrong solution {number} passes the hidden tests"
        if "error" in (row.hidden, row.visible):
            return f"the wrong solution {number} could not be judged: {row.why}"
    return ""
