"""The judge: verdicts, values that travel, and solutions that attack it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.kits.sandbox.launch import interpreter
from headway.kits.sandbox.pair_runners import WarmPairs
from headway.kits.simulator import pair
from headway.kits.simulator.judge import CodeJudge, JudgeJob, JudgeResult
from headway.kits.simulator.problem import CodeProblem
from headway.nouns.errors import Unavailable
from tests.kits.sandbox.test_sandbox import _user_can_run
from tests.kits.simulator import attack_sources
from tests.kits.simulator.attacks import FORGERS, GUESS, GUESS_CODE, LIMITED, LIMITS, LOOK, PLANT, PROBLEM  # fmt: skip


@pytest.fixture(scope="module")
def judge(need_tool: Callable[..., str]) -> Iterator[CodeJudge]:
    need_tool("bwrap", package="bubblewrap")
    with CodeJudge("bubblewrap") as warm:
        judged(warm, PROBLEM.reference)  # it is started here, not by the first test
        yield warm


def judged(judge: CodeJudge, solution: str, problem: CodeProblem = PROBLEM, *, hidden: bool = True) -> JudgeResult:
    return judge.judge(JudgeJob(key="k", problem=problem, solution=solution, hidden=hidden, limits=LIMITS))


def box_id(judge: CodeJudge) -> int:
    """The process id of the box; it changes when a new one is started."""
    assert isinstance(judge._pairs, WarmPairs)
    return 0 if judge._pairs._warm is None else judge._pairs._warm._process.pid


def with_tests(tests: str) -> CodeProblem:
    return msgspec.structs.replace(GUESS_CODE, tests=tests)


def test_results_come_in_the_order_of_the_jobs_with_what_was_used(judge: CodeJudge) -> None:
    sources = {"right": PROBLEM.reference, "wrong": "def double(n): return n + n % 2 * n", "broken": "def double("}
    jobs = [JudgeJob(key=key, problem=PROBLEM, solution=source, limits=LIMITS) for key, source in sources.items()]
    results = list(judge.run(jobs))
    assert [(result.key, result.status, result.passed, result.total) for result in results] == [
        ("right", "passed", 3, 3), ("wrong", "failed", 2, 3), ("broken", "failed", 0, 3),
    ]  # fmt: skip
    assert results[1].why == "double(2): gave 2, expected 4"
    assert "SyntaxError" in results[2].why
    assert all(0 < result.cpu_s < 2 and result.peak_memory_bytes > 1 << 20 for result in results)


def test_only_the_visible_tests_are_run_if_asked(judge: CodeJudge) -> None:
    right_for_one = "def double(number): return 2"
    assert judged(judge, right_for_one, hidden=False).status == "passed"
    assert judged(judge, right_for_one).status == "failed"


def test_tests_that_are_code_get_typed_values_and_exceptions(judge: CodeJudge) -> None:
    tests = """
def check(candidate):
    assert candidate((1, 2)) == (1, 2) and type(candidate((1, 2))) is tuple
    assert candidate({1: {2.5}, "a": b"x"}) == {1: {2.5}, "a": b"x"}
    assert candidate(2 ** 70) == 2 ** 70 and candidate(1j) == 1j and candidate(float("inf")) == float("inf")
    assert list(candidate(number=range(3))) == [0, 1, 2]
    try:
        candidate("boom")
    except ZeroDivisionError:
        return
    assert False, "it did not raise"
"""
    source = "def double(number):\n    if number == 'boom': 1 / 0\n    return number"
    assert judged(judge, source, with_tests(tests)).status == "passed"
    assert judged(judge, "def double(number): return number", with_tests(tests)).why == (
        "AssertionError: it did not raise"
    )


def test_broken_tests_are_an_error_of_the_problem_and_not_a_verdict(judge: CodeJudge) -> None:
    result = judged(judge, PROBLEM.reference, with_tests("def check("))
    assert (result.status, "tests of this problem" in result.why) == ("error", True)


def test_tests_without_a_verdict_are_failed(judge: CodeJudge) -> None:
    tests = "import os\ndef check(candidate): os._exit(0)"
    assert judged(judge, PROBLEM.reference, with_tests(tests)).status == "failed"


@pytest.mark.parametrize("attack", LIMITED)
def test_a_solution_that_exceeds_a_limit_or_ends_early_harms_only_itself(judge: CodeJudge, attack: str) -> None:
    assert judged(judge, PROBLEM.reference).status == "passed"
    before = box_id(judge)
    result = judged(judge, LIMITED[attack])
    assert result.status in {"failed", "timeout"}, (attack, result)
    assert judged(judge, PROBLEM.reference).status == "passed"
    assert box_id(judge) == before, "the box was ended"


@pytest.mark.parametrize("problem", [GUESS, GUESS_CODE], ids=["data", "code"])
@pytest.mark.parametrize("attack", FORGERS)
def test_a_solution_cannot_read_the_tests_or_forge_a_verdict(
    judge: CodeJudge, attack: str, problem: CodeProblem
) -> None:
    assert judged(judge, problem.reference, problem).status == "passed"
    before = box_id(judge)
    result = judged(judge, FORGERS[attack], problem)
    assert result.status in {"failed", "timeout"}, (attack, result)
    assert box_id(judge) == before, "the box was ended"


def test_nothing_of_one_run_is_there_in_the_next(judge: CodeJudge) -> None:
    for _ in range(2):
        planted = judged(judge, PLANT)
        assert planted.status in {"passed", "failed"}, planted
        looked = judged(judge, LOOK)
        assert looked.status == "passed", looked


def test_a_box_that_is_killed_is_started_again_and_nothing_is_lost(need_tool: Callable[..., str]) -> None:
    need_tool("bwrap", package="bubblewrap")
    with CodeJudge("bubblewrap") as warm:
        assert judged(warm, PROBLEM.reference).status == "passed"
        before = box_id(warm)
        os.kill(before, signal.SIGKILL)
        assert judged(warm, PROBLEM.reference).status == "passed"
        assert box_id(warm) != before


def test_a_box_ends_with_its_judge(need_tool: Callable[..., str]) -> None:
    need_tool("bwrap", package="bubblewrap")
    with CodeJudge("bubblewrap") as warm:
        judged(warm, PROBLEM.reference)
        pid = box_id(warm)
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bubblewrap", "process"])
def test_one_start_for_each_solution_gives_the_same_verdicts(
    judge: CodeJudge, name: str, need_tool: Callable[..., str]
) -> None:
    need_tool("bwrap", package="bubblewrap")
    sources = [PROBLEM.reference, *LIMITED.values()]
    with CodeJudge(name, warm=False) as single:
        for source in sources:
            warm, cold = judged(judge, source), judged(single, source)
            assert (warm.status == "passed") == (cold.status == "passed"), (source, warm, cold)
            assert cold.status != "error", cold


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="root tries it as another user; a user tries it in the other tests")
def test_the_attacks_do_no_harm_where_a_user_runs_the_judge(need_tool: Callable[..., str], root: Path) -> None:
    need_tool("bwrap", package="bubblewrap")
    need_tool("setpriv", package="util-linux")
    _user_can_run()
    done = subprocess.run(
        [
            *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"),
            *(interpreter(for_everybody=True), "-B", attack_sources.__file__),
        ],
        cwd="/",
        env={"PYTHONPATH": f"{root / 'src'}:{root}", "PATH": os.environ["PATH"], "TMPDIR": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if "does not start here" in done.stderr:
        pytest.skip(f"this machine gives users no namespaces: {done.stderr[-200:]}")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_missing_sandbox_is_an_error_before_anything_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable) as caught:
        CodeJudge("docker")
    assert caught.value.code == "sandbox_missing"


# -- values


VALUES: list[Any] = [
    None, True, 0, -5, 2**53, -(2**200), 1.5, float("inf"), "", "ä\ud800", b"\x00", [], [1, [2]], (1, (2,)),
    {1: {2: 3}}, {(1, 2): "x"}, {1, 2}, frozenset({3}), 2 + 3j,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_travel_unchanged(value: Any) -> None:
    again = pair.decode(json.loads(json.dumps(pair.encode(value))))
    assert (again, type(again)) == (value, type(value))


@pytest.mark.parametrize("wrong", [{"t": "int", "v": "zz"}, {"t": "eval", "v": "1"}, {"v": 1}, {"t": "dict", "v": [1]}])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(pair.NotPlain):
        pair.decode(wrong)
    with pytest.raises(pair.NotPlain):
        pair.encode(object())


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        (1, 1.0, True), (True, 1, False), ((1, 2), [1, 2], True), ([1], [1, 2], False), ({"a": (1,)}, {"a": [1]}, True),
        (10**400, 1.5, False), (10**400, 10**400, True), (0.1 + 0.2, 0.3, True), ("1", 1, False), ({1}, [1], False),
    ],
)  # fmt: skip
def test_equality_of_plain_data(value: Any, expected: Any, equal: bool) -> None:
    assert pair.same(value, expected) is equal
