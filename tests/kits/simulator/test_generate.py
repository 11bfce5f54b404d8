"""Generated problems: different, the same for the same seed, and with solutions that differ on the tests."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from headway.kits.simulator.families import FAMILIES
from headway.kits.simulator.generate import generate
from headway.kits.simulator.problem import TRAITS, CodeProblem, read_problems, traits_of, write_problems
from headway.nouns.errors import HeadwayError
from tests.cli.terminal import headway


@pytest.fixture(scope="module")
def problems() -> list[CodeProblem]:
    return list(generate(120, seed=3))


def passed(problem: CodeProblem, source: str, *, hidden: bool) -> bool:
    """Whether a source of ours passes the tests; here without a sandbox, because it is our own."""
    space: dict[str, Any] = {}
    exec(source, space)
    try:
        return all(
            json.dumps(space[problem.entry](*deepcopy(case.args)), sort_keys=True)
            == json.dumps(case.returns, sort_keys=True)
            for case in (problem.hidden if hidden else problem.visible)
        )
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return False


def test_every_family_and_difficulty_is_there(problems: list[CodeProblem]) -> None:
    assert {problem.family for problem in problems} == set(FAMILIES)
    assert len(FAMILIES) >= 12
    assert {(problem.family, problem.difficulty) for problem in problems} == {
        (family, difficulty) for family in FAMILIES for difficulty in range(1, 6)
    }


def test_no_two_statements_are_alike(problems: list[CodeProblem]) -> None:
    assert len({problem.statement for problem in problems}) == len(problems)


def test_references_pass_and_wrong_solutions_fail_the_hidden_tests(problems: list[CodeProblem]) -> None:
    for problem in problems:
        assert passed(problem, problem.reference, hidden=True), problem.id
        assert passed(problem, problem.reference, hidden=False), problem.id
        assert len(problem.wrong) >= 3
        for wrong in problem.wrong:
            assert not passed(problem, wrong, hidden=True), f"{problem.id}\n{wrong}"


def test_visible_tests_reject_some_wrong_solutions_and_not_others(problems: list[CodeProblem]) -> None:
    for problem in problems:
        shown = [passed(problem, wrong, hidden=False) for wrong in problem.wrong]
        assert any(shown), problem.id
        assert not all(shown), problem.id


def test_statements_hide_family_difficulty_and_tests(problems: list[CodeProblem]) -> None:
    for problem in problems:
        assert "difficulty" not in problem.statement.lower()
        assert "reference" not in problem.statement.lower()
        assert problem.reference not in problem.statement


def test_traits_are_found_in_statements(problems: list[CodeProblem]) -> None:
    counts = [len(traits_of(problem.statement)) for problem in problems]
    assert set(counts) == {0, 1, 2}
    assert {kind for problem in problems for kind in traits_of(problem.statement)} == set(range(len(TRAITS)))


def test_the_same_seed_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from headway.kits.simulator.generate import generate; "
        "from headway.kits.simulator.problem import write_problems; write_problems(Path(sys.argv[1]), generate(24, 5))"
    )
    digests = set()
    for number in ("1", "2"):
        path = tmp_path / number
        environment = {**os.environ, "PYTHONHASHSEED": number}
        subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=environment)
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    write_problems(tmp_path / "here", generate(24, 5))
    assert digests == {hashlib.sha256((tmp_path / "here").read_bytes()).hexdigest()}


def test_an_exhausted_family_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.kits.simulator.generate._ATTEMPTS", 1)
    with pytest.raises(HeadwayError, match="'dates' has no new problem") as refused:
        list(generate(400, seed=1, families=("dates",)))
    assert refused.value.code == "family_exhausted"


@pytest.mark.slow
def test_twelve_hundred_problems_are_all_different(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    assert write_problems(path, generate(1_200, seed=42)) == 1_200
    problems = read_problems(path)
    assert len({problem.statement for problem in problems}) == 1_200
    for problem in problems:
        assert passed(problem, problem.reference, hidden=True), problem.id
        assert not any(passed(problem, wrong, hidden=True) for wrong in problem.wrong), problem.id


# -- the command


def test_generate_writes_a_file_and_names_the_next_command(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    done = headway("sim", "generate", "--count", "12", "--seed", "1", "--out", str(path))
    assert done.code == 0
    assert "12 problems" in done.out
    assert f"headway sim validate {path}" in done.out
    assert [problem.family for problem in read_problems(path)] == list(FAMILIES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--family", "grphs"), "Did you mean 'graphs'?"),
        (("--count", "0"), "0 is not in the range"),
        (("--seed", "-1"), "-1 is not in the range"),
    ],
)
def test_bad_options_of_generate_write_nothing(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    path = tmp_path / "problems.jsonl"
    done = headway("sim", "generate", "--out", str(path), *arguments)
    assert done.code != 0
    assert said in done.out + done.err
    assert not path.exists()
