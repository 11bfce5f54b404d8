"""Problem files in the shapes of HumanEval and MBPP."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headway.kits.simulator.foreign_problems import read_foreign
from headway.kits.simulator.judge import CodeJudge, JudgeJob
from headway.kits.simulator.problem import read_problems
from headway.nouns.errors import HeadwayError
from tests.cli.terminal import headway

HUMAN_EVAL = {
    "task_id": "HumanEval/900",
    "prompt": 'def twice(n: int) -> int:\n    """Return two times n."""\n',
    "entry_point": "twice",
    "canonical_solution": "    return 2 * n\n",
    "test": "def check(candidate):\n    assert candidate(4) == 8\n",
}
MBPP = {
    "task_id": 7,
    "text": "Write a function to double a number.",
    "code": "def double(n):\r\n  return n * 2",
    "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
    "test_setup_code": "",
    "challenge_test_list": [],
}


def written(tmp_path: Path, *rows: object, packed: bool = False) -> Path:
    content = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    path = tmp_path / ("problems.jsonl.gz" if packed else "problems.jsonl")
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def run_check(source: str, tests: str, entry: str) -> None:
    space: dict[str, Any] = {}
    exec(source, space)
    judge: dict[str, Any] = {}
    exec(tests, judge)
    judge["check"](space[entry])


@pytest.mark.parametrize("packed", [False, True])
def test_human_eval_becomes_a_problem_with_a_check(tmp_path: Path, packed: bool) -> None:
    imported = read_foreign(written(tmp_path, HUMAN_EVAL, packed=packed))
    assert (imported.shape, imported.skipped) == ("human-eval", {})
    [problem] = imported.problems
    assert (problem.id, problem.entry, problem.source) == ("HumanEval/900", "twice", "human-eval")
    assert problem.statement == HUMAN_EVAL["prompt"]
    run_check(problem.reference, problem.tests, problem.entry)


def test_mbpp_asserts_become_a_check(tmp_path: Path) -> None:
    [problem] = read_foreign(written(tmp_path, MBPP)).problems
    assert (problem.id, problem.entry, problem.source) == ("MBPP/7", "double", "mbpp")
    run_check(problem.reference, problem.tests, problem.entry)
    with pytest.raises(AssertionError):
        run_check("def double(n):\n    return n + 2\n", problem.tests, problem.entry)


def test_tests_that_need_more_than_the_function_are_skipped_with_the_reason(tmp_path: Path) -> None:
    code = "class Pair:\n    pass\n\ndef chain(pair):\n    return 0\n"
    classy = {**MBPP, "task_id": 8, "code": code, "test_list": ["assert chain(Pair()) == 0"]}
    uncalled = {**MBPP, "task_id": 9, "test_list": ["assert True"]}
    imported = read_foreign(written(tmp_path, MBPP, classy, uncalled))
    assert [problem.id for problem in imported.problems] == ["MBPP/7"]
    assert "'Pair'" in imported.skipped["8"]
    assert "call no function" in imported.skipped["9"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**HUMAN_EVAL, "entry_point": None}, "problems.jsonl:2: the field 'entry_point'"),
        ({**HUMAN_EVAL, "test": ""}, "problems.jsonl:2: the field 'test'"),
        ([1], "problems.jsonl:2: it is not an object"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: object, said: str) -> None:
    with pytest.raises(HeadwayError) as refused:
        read_foreign(written(tmp_path, HUMAN_EVAL, row))
    assert refused.value.code == "bad_problem"
    assert said in refused.value.message


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content in (b"{", b'{"id": 1}\n', b"\x1f\x8bdamaged", b"\xff\xfe", b""):
        path = tmp_path / "odd.jsonl"
        path.write_bytes(content)
        with pytest.raises(HeadwayError) as refused:
            read_foreign(path)
        assert refused.value.code == "bad_problem"


def test_import_writes_problems_and_says_what_was_skipped(tmp_path: Path) -> None:
    path, out = written(tmp_path, MBPP, {**MBPP, "task_id": 9, "test_list": ["assert True"]}), tmp_path / "ours.jsonl"
    done = headway("sim", "import", path, "--out", out, "--json")
    assert (done.code, done.json["problems"], list(done.json["skipped"])) == (0, 1, ["9"])
    assert [problem.id for problem in read_problems(out)] == ["MBPP/7"]
    failed = headway("sim", "import", tmp_path / "none.jsonl", "--out", tmp_path / "other.jsonl")
    assert failed.code == 1
    assert not (tmp_path / "other.jsonl").exists()


HIDING = {
    "a failed assertion": "    try:\n        assert candidate(4) == 8\n    except:\n        pass\n",
    "the end of the solution": "    try:\n        candidate(4)\n    except BaseException:\n        return\n"
    "    assert candidate(4) == 8\n",
}


@pytest.mark.parametrize("name", HIDING)
def test_a_check_of_a_file_hides_nothing_from_the_judge(tmp_path: Path, name: str) -> None:
    tests = "def check(candidate):\n" + HIDING[name]
    [problem] = read_foreign(written(tmp_path, {**HUMAN_EVAL, "test": tests})).problems
    wrong = "def twice(n):\n    return 3 * n\n" if "assertion" in name else "import os\nos._exit(0)\n"
    with CodeJudge("process") as judge:
        assert judge.judge(JudgeJob(key="", problem=problem, solution=problem.reference)).status == "passed"
        assert judge.judge(JudgeJob(key="", problem=problem, solution=wrong)).status == "failed"


def test_a_check_that_asks_nothing_is_skipped_or_an_error(tmp_path: Path) -> None:
    silent = {**HUMAN_EVAL, "task_id": "silent", "test": "def check(candidate):\n    candidate(4)\n"}
    idle = {**HUMAN_EVAL, "test": "def check(candidate):\n    assert True\n"}
    imported = read_foreign(written(tmp_path, silent, idle))
    assert imported.skipped == {"silent": "its tests assert nothing"}
    with CodeJudge("process") as judge:
        result = judge.judge(JudgeJob(key="", problem=imported.problems[0], solution=HUMAN_EVAL["prompt"] + "    pass"))
    assert (result.status, "never call the solution" in result.why) == ("error", True)
