"""A valid file is valid, and a broken problem is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headway.kits.simulator.generate import generate
from headway.kits.simulator.outcomes import outcomes, outcomes_path, recorded
from headway.kits.simulator.problem import CodeProblem, sealed, write_problems
from headway.kits.simulator.validate import validate
from headway.nouns.errors import HeadwayError
from tests.cli.terminal import headway
from tests.kits.simulator.conftest import own_code


@pytest.fixture
def problems() -> list[CodeProblem]:
    return list(generate(12, seed=8))


def broken(problem: CodeProblem, how: str) -> CodeProblem:
    if how == "reference":
        return sealed(msgspec.structs.replace(problem, reference=problem.wrong[0]))
    return sealed(msgspec.structs.replace(problem, wrong=[*problem.wrong, problem.reference + "# the same\n"]))


@pytest.mark.parametrize(
    ("how", "said"), [("reference", "the reference does not pass"), ("wrong", "passes the hidden")]
)
def test_a_broken_problem_is_named(tmp_path: Path, problems: list[CodeProblem], how: str, said: str) -> None:
    problems[3] = broken(problems[3], how)
    found = validate(problems, tmp_path / "problems.jsonl", own_code)
    assert list(found.broken) == [problems[3].id]
    assert said in found.broken[problems[3].id]


def test_two_problems_with_one_statement_are_named(tmp_path: Path, problems: list[CodeProblem]) -> None:
    twin = sealed(msgspec.structs.replace(problems[0], id="twin"))
    found = validate([*problems, twin], tmp_path / "problems.jsonl", own_code)
    assert found.broken == {"twin": f"its statement is that of {problems[0].id!r}"}


def test_results_are_kept_and_only_new_solutions_are_run(tmp_path: Path, problems: list[CodeProblem]) -> None:
    path = tmp_path / "problems.jsonl"
    first = outcomes(problems[:8], path, own_code)
    assert first.judged == sum(1 + len(problem.wrong) for problem in problems[:8])
    with outcomes_path(path).open("ab") as file:
        file.write(b'{"problem": "cut o')
    second = outcomes(problems, path, own_code)
    assert second.judged == sum(1 + len(problem.wrong) for problem in problems[8:])
    assert (second.hidden[:8, : first.hidden.shape[1]] == first.hidden).all()
    assert recorded(problems, path).hidden.sum() == len(problems)


def test_an_error_of_the_judge_is_not_written_down(tmp_path: Path, problems: list[CodeProblem]) -> None:
    path = tmp_path / "problems.jsonl"
    found = validate(problems[:2], path, lambda pairs: (("error", "error", "no memory") for _ in pairs))
    assert "error (no memory)" in found.broken[problems[0].id]
    with pytest.raises(HeadwayError) as refused:
        recorded(problems[:2], path)
    assert refused.value.code == "not_judged"


def test_validate_runs_solutions_in_a_sandbox_and_fails_for_a_broken_problem(
    tmp_path: Path, problems: list[CodeProblem]
) -> None:
    path = tmp_path / "problems.jsonl"
    write_problems(path, problems[:3])
    done = headway("sim", "validate", path, "--json")
    if done.code and done.error["code"] == "sandbox_missing":
        pytest.skip("there is no sandbox here")
    assert (done.code, done.json["problems"], done.json["broken"]) == (0, 3, {})
    assert headway("sim", "validate", path, "--json").json["judged"] == 0
    write_problems(path, [problems[0], broken(problems[1], "reference")])
    failed = headway("sim", "validate", path)
    assert failed.code == 1
    assert f"{problems[1].id}: the reference does not pass" in failed.out


@pytest.mark.slow
def test_one_and_two_workers_write_the_same_bytes(tmp_path: Path, problems: list[CodeProblem]) -> None:
    files = []
    for workers in ("1", "2"):
        path = tmp_path / workers / "problems.jsonl"
        path.parent.mkdir()
        write_problems(path, problems[:12])
        done = headway("sim", "validate", path, "--workers", workers, "--json")
        if done.code and done.error["code"] == "sandbox_missing":
            pytest.skip("there is no sandbox here")
        files.append(path.with_name("problems.outcomes.jsonl").read_bytes())
    assert files[0] == files[1]
    assert files[0].count(b"\n") >= 12 * 4


def test_bad_input_of_validate_is_refused(tmp_path: Path) -> None:
    assert headway("sim", "validate", tmp_path / "none.jsonl", "--json").error["code"] == "bad_problem"
    assert headway("sim", "validate", tmp_path / "none.jsonl", "--workers", "0").code == 2
