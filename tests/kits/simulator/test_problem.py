"""Problem files: what is written is read back, and a wrong line is named with its field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.kits.simulator.problem import CodeCase, CodeProblem, read_problems, sealed, write_problems
from headway.nouns.errors import HeadwayError


def problem(**changes: Any) -> CodeProblem:
    fields: dict[str, Any] = {
        "id": "arithmetic-000001",
        "family": "arithmetic",
        "difficulty": 1,
        "statement": "Write `double(n)` that returns twice n — für alle n.",
        "entry": "double",
        "reference": "def double(n):\n    return 2 * n\n",
        "wrong": [f"def double(n):\n    return n + {number}\n" for number in range(3)],
        "visible": [CodeCase(args=[1], returns=2)],
        "hidden": [CodeCase(args=[7], returns=14), CodeCase(args=[-1], returns=-2)],
    }
    return sealed(CodeProblem(**(fields | changes)))


def changed(tmp_path: Path, **changes: Any) -> Path:
    """A file whose second line has other values; its checksum fits them."""
    path = tmp_path / "problems.jsonl"
    write_problems(path, [problem(), problem(**({"id": "arithmetic-000002"} | changes))])
    return path


def refusal(path: Path) -> HeadwayError:
    with pytest.raises(HeadwayError) as refused:
        read_problems(path)
    return refused.value


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    problems = [problem(), problem(id="arithmetic-000002")]
    path = tmp_path / "problems.jsonl"
    assert write_problems(path, problems) == 2
    assert read_problems(path) == problems
    assert [file.name for file in tmp_path.iterdir()] == ["problems.jsonl"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"id": "../../etc"}, "id"),
        ({"id": "arithmetic-000001"}, "id"),
        ({"family": " "}, "family"),
        ({"difficulty": 6}, "difficulty"),
        ({"statement": ""}, "statement"),
        ({"entry": "class"}, "entry"),
        ({"reference": "\n"}, "reference"),
        ({"hidden": []}, "hidden"),
        ({"wrong": ["pass"]}, "wrong"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    error = refusal(changed(tmp_path, **changes))
    assert error.code == "bad_problem"
    assert error.message.startswith(f"problems.jsonl:2: the field {field!r}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "problems.jsonl:1: "),
        ("[]", "Expected `object`"),
        ('{"id": 3}', "the field 'id'"),
        ('{"id": "a", "colour": "red"}', "the field 'colour'"),
        ('{"id": "a"}', "the field 'family'"),
    ],
)
def test_a_line_that_is_no_problem_is_refused(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text(line + "\n", "utf-8")
    assert said in refusal(path).message


def test_a_wrong_type_inside_a_test_is_named(tmp_path: Path) -> None:
    path = changed(tmp_path)
    first, second = path.read_text("utf-8").splitlines()
    document = json.loads(second)
    document["hidden"][1]["args"] = 5
    path.write_text(f"{first}\n{json.dumps(document)}\n", "utf-8")
    assert "problems.jsonl:2: the field 'hidden[1].args'" in refusal(path).message


def test_a_changed_line_does_not_fit_its_checksum(tmp_path: Path) -> None:
    path = changed(tmp_path)
    path.write_text(path.read_text("utf-8").replace('"returns":-2', '"returns":-3'), "utf-8")
    error = refusal(path)
    assert error.code == "problem_damaged"
    assert "problems.jsonl:1: the field 'checksum' of 'arithmetic-000001'" in error.message


def test_a_missing_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jsonl").code == "bad_problem"
    (tmp_path / "empty.jsonl").write_text("\n")
    assert "is empty" in refusal(tmp_path / "empty.jsonl").message


def test_nothing_is_half_written(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    write_problems(path, [problem()])
    before = path.read_bytes()
    with pytest.raises((TypeError, ValueError)):
        write_problems(path, [msgspec.structs.replace(problem(), family=float("nan"))])  # type: ignore[arg-type]
    assert path.read_bytes() == before
    with pytest.raises(HeadwayError, match="cannot be written"):
        write_problems(tmp_path / "none" / "problems.jsonl", [problem()])
