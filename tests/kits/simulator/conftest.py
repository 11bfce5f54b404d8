"""Problems of a small file whose solutions were judged, here in this process: they are our own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.kits.simulator.generate import generate
from headway.kits.simulator.outcomes import outcomes
from headway.kits.simulator.problem import CodeProblem, write_problems
from headway.kits.simulator.split import ProblemPart, problem_part


def own_code(pairs: Iterable[tuple[CodeProblem, str]]) -> Iterator[tuple[str, str, str]]:
    """Runs sources without a sandbox."""
    for problem, source in pairs:
        space: dict[str, Any] = {}
        exec(source, space)
        yield _status(problem, space, hidden=False), _status(problem, space, hidden=True), ""


def _status(problem: CodeProblem, space: dict[str, Any], *, hidden: bool) -> str:
    try:
        for case in problem.hidden if hidden else problem.visible:
            value = space[problem.entry](*json.loads(json.dumps(case.args)))
            if json.dumps(value, sort_keys=True) != json.dumps(case.returns, sort_keys=True):
                return "failed"
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return "failed"
    return "passed"


@pytest.fixture(scope="session")
def problem_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sim") / "problems.jsonl"
    problems = list(generate(180, seed=77))
    write_problems(path, problems)
    outcomes(problems, path, own_code)
    return path


@pytest.fixture(scope="session")
def practice_part(problem_file: Path) -> ProblemPart:
    return problem_part(problem_file, "train")
