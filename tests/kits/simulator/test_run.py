"""`headway sim run`: every result once, whatever happens to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.kits.crews.processes import ProcessCrew
from headway.kits.simulator.problem import CodeProblem, read_problems, sealed, write_problems
from headway.kits.simulator.run import PART, ResultsFile, run_problems
from headway.nouns.errors import Conflict, HeadwayError
from tests.cli.terminal import headway
from tests.kits.crews.crew_work import MortalCrew
from tests.kits.simulator.attacks import PROBLEM
from tests.loop.running import until

MEASURED = ("seconds", "cpu_s", "peak_memory_bytes")


def numbered(count: int, **changes: Any) -> list[CodeProblem]:
    return [
        sealed(msgspec.structs.replace(PROBLEM, id=f"p-{number:03}", source="test", **changes))
        for number in range(count)
    ]


@pytest.fixture
def tasks(tmp_path: Path, need_tool: Callable[..., str]) -> Path:
    """A file of problems, one of which has a wrong reference."""
    need_tool("bwrap", package="bubblewrap")
    problems = numbered(2 * PART + 3)
    problems[3] = sealed(msgspec.structs.replace(problems[3], reference="def double(number): return 7"))
    path = tmp_path / "problems.jsonl"
    write_problems(path, problems)
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert "run" in rows[0]
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in rows[1:]]


def test_one_and_two_workers_give_the_same_results(tasks: Path) -> None:
    files = []
    for workers in ("1", "2"):
        out = tasks.with_name(f"{workers}.jsonl")
        done = headway("sim", "run", "--tasks", str(tasks), "--workers", workers, "--out", str(out), "--json")
        document = json.loads(done.out)
        assert document["counts"] == {"passed": 2 * PART + 2, "failed": 1, "timeout": 0, "error": 0}
        assert document["sandbox"] in {"docker", "bubblewrap"}
        files.append(rows_of(out))
    assert files[0] == files[1]
    assert [row["id"] for row in files[0]] == [problem.id for problem in read_problems(tasks)]
    assert (files[0][3]["status"], files[0][3]["why"]) == ("failed", "double(0): gave 7, expected 0")


@pytest.mark.slow
def test_a_run_that_is_killed_is_resumed_and_has_every_result_once(tasks: Path) -> None:
    problems = numbered(4 * PART)
    slow = "import time\ndef double(number):\n    time.sleep(0.05)\n    return 2 * number"
    write_problems(tasks, [sealed(msgspec.structs.replace(problem, reference=slow)) for problem in problems])
    out = tasks.with_name("results.jsonl")
    command = [
        sys.executable,
        "-m",
        "headway",
        "sim",
        "run",
        "--tasks",
        str(tasks),
        "--out",
        str(out),
        "--workers",
        "2",
    ]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: out.exists() and out.read_bytes().count(b"\n") > PART, "the first results")
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    with out.open("ab") as file:
        file.write(b'{"id": "p-031", "status": "pas')  # the last line was cut
    before = len(rows_of_whole_lines(out))
    assert PART <= before < 4 * PART
    document = json.loads(headway("sim", "run", "--tasks", str(tasks), "--out", str(out), "--json").out)
    assert (document["resumed"], document["counts"]["passed"]) == (before, 4 * PART)
    assert [row["id"] for row in rows_of(out)] == [problem.id for problem in problems]


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_result(
    tasks: Path, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root))
    problems = read_problems(tasks)
    marks = tmp_path / "marks"
    marks.mkdir()
    mortal = MortalCrew(2, marks)
    run_problems(problems, crew=mortal, out=tmp_path / "mortal.jsonl", sandbox_name="bubblewrap")
    run_problems(problems, crew=ProcessCrew(1), out=tmp_path / "one.jsonl", sandbox_name="bubblewrap")
    assert rows_of(tmp_path / "mortal.jsonl") == rows_of(tmp_path / "one.jsonl")
    assert mortal.killed == 2


def rows_of_whole_lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[1:-1]


def test_a_finished_run_is_not_repeated_and_errors_are(tasks: Path) -> None:
    out = tasks.with_name("results.jsonl")
    arguments = ("sim", "run", "--tasks", str(tasks), "--out", str(out), "--limit", "3", "--json")
    assert json.loads(headway(*arguments).out)["resumed"] == 0
    lines = out.read_text("utf-8").splitlines()
    broken = json.loads(lines[2]) | {"status": "error", "why": "the upstream was down"}
    out.write_text("\n".join([*lines[:2], json.dumps(broken), *lines[3:]]) + "\n", "utf-8")
    document = json.loads(headway(*arguments).out)
    assert (document["resumed"], document["counts"]["passed"]) == (2, 3)
    assert [row["status"] for row in rows_of(out)] == ["passed"] * 3


@pytest.mark.slow
def test_broken_tests_end_with_status_1_and_a_next_step(tasks: Path) -> None:
    write_problems(tasks, [sealed(msgspec.structs.replace(PROBLEM, tests="def check(", hidden=[], source="test"))])
    done = headway("sim", "run", "--tasks", str(tasks))
    assert done.code == 1
    assert "cannot be loaded" in done.out
    assert "headway sim run" in done.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--workers", "0"), "bad_workers"),
        (("--sandbox", "bubblewarp"), "unknown_sandbox"),
        (("--solver", "refrence"), "unknown_solver"),
        (("--crew", "proceses"), "unknown_crew"),
        (("--out", "no/such/folder/x.jsonl"), "results_not_written"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(tasks: Path, arguments: tuple[str, ...], says: str) -> None:
    done = headway("sim", "run", "--tasks", str(tasks), *arguments, "--json")
    assert (done.code, done.error["code"]) == (1, says)
    assert list(tasks.parent.iterdir()) == [tasks]


def test_a_bad_line_is_named(tasks: Path) -> None:
    lines = tasks.read_text("utf-8").splitlines()
    tasks.write_text("\n".join([lines[0], lines[1].replace("twice", "thrice")]) + "\n", "utf-8")
    done = headway("sim", "run", "--tasks", str(tasks))
    assert done.code == 1
    assert "problems.jsonl:2" in done.err
    assert "checksum" in done.err


def test_a_missing_engine_is_an_error_and_nothing_is_written(tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("docker") is not None:
        monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    done = headway("sim", "run", "--tasks", str(tasks), "--sandbox", "docker", "--json")
    assert (done.code, done.error["code"]) == (1, "sandbox_missing")
    assert list(tasks.parent.iterdir()) == [tasks]


def test_results_of_another_run_are_not_touched(tasks: Path) -> None:
    out = tasks.with_name("results.jsonl")
    out.write_text("precious\n", "utf-8")
    done = headway("sim", "run", "--tasks", str(tasks), "--out", str(out), "--json")
    assert (done.code, done.error["code"]) == (1, "other_results")
    assert out.read_text("utf-8") == "precious\n"


def test_two_runs_do_not_write_the_same_file(tmp_path: Path) -> None:
    key = {"solver": "x"}
    with ResultsFile(tmp_path / "r.jsonl", key), pytest.raises(Conflict) as caught:
        ResultsFile(tmp_path / "r.jsonl", key).__enter__()
    assert caught.value.code == "results_in_use"
    assert isinstance(caught.value, HeadwayError)
