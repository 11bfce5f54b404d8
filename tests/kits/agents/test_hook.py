"""`headway hook`: events of coding agents as signals, without any output that disturbs the agent."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as some

import headway
from headway.cli.main import run
from headway.kits.agents.events import read
from headway.nouns.errors import InvalidInput


def ran(command: str, *, event: str = "PostToolUse", **response: Any) -> dict[str, Any]:
    """A coding agent's event after a shell command."""
    return {
        "session_id": "abc",
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_response": {"stdout": "…", "stderr": "", "interrupted": False, **response},
        "tool_use_id": "toolu_01",
    }


FAILED = "PostToolUseFailure"
SHAPES: list[tuple[dict[str, Any], dict[str, float]]] = [
    ({"signals": {"tests_passed": 1, "minutes": 4.5}}, {"tests_passed": 1.0, "minutes": 4.5}),
    ({"tests": {"passed": 12, "failed": 1}}, {"tests_passed": 0.0, "tests_share": 12 / 13}),
    ({"tests": {"passed": 3}}, {"tests_passed": 1.0, "tests_share": 1.0}),
    ({"tests_passed": True}, {"tests_passed": 1.0}),
    ({"change": "kept"}, {"change_kept": 1.0}),
    ({"change": "reverted"}, {"change_kept": 0.0}),
    (ran("pytest -q"), {"tests_passed": 1.0}),
    (ran("pytest -q", event=FAILED), {"tests_passed": 0.0}),
    (ran("cd app && CI=1 uv run pytest -q 2>&1"), {"tests_passed": 1.0}),
    (ran("cd app; .venv/bin/pytest", event=FAILED), {"tests_passed": 0.0}),
    (ran("npm test", exit_code=1), {"tests_passed": 0.0}),
    (ran("npm test", event="AfterTool", exitCode=0), {"tests_passed": 1.0}),
    (ran("pytest && git commit -am 'Fix it'"), {"tests_passed": 1.0, "change_kept": 1.0}),
    (ran("git reset --hard HEAD~1"), {"change_kept": 0.0}),
    (ran("git revert --no-edit HEAD"), {"change_kept": 0.0}),
    ({"event": "x", "command": ["go", "test", "./..."], "exit_code": 0}, {"tests_passed": 1.0}),
    # events without a signal
    (ran("ls -la"), {}),
    (ran("pytest | tail -3"), {}),
    (ran("pytest || true"), {}),
    (ran("pytest; echo done"), {}),
    (ran("pytest &"), {}),
    (ran("pytest && git push", event=FAILED), {}),
    (ran("git commit -am x", event=FAILED), {}),
    (ran("echo 'pytest'"), {}),
    (ran("pytest 'open quote"), {}),
    (ran("pytest", interrupted=True), {}),
    (ran("pytest", event="PreToolUse"), {}),
    ({**ran("pytest"), "tool_input": {"command": "pytest", "run_in_background": True}}, {}),
    ({"hook_event_name": "Stop", "session_id": "abc"}, {}),
]


@pytest.mark.parametrize(("body", "signals"), SHAPES, ids=lambda value: json.dumps(value)[:60])
def test_a_hook_becomes_signals(body: dict[str, Any], signals: dict[str, float]) -> None:
    assert read(body).signals == pytest.approx(signals)


def test_another_test_command_can_be_set() -> None:
    assert read(ran("just check --all")).signals == {}
    assert read(ran("just check --all"), ["just check"]).signals == {"tests_passed": 1.0}


plain = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20)
anything = plain | some.lists(plain, max_size=2) | some.dictionaries(some.text(max_size=8), plain, max_size=2)
WORDS = ["tests", "tests_passed", "change", "signals", "tool_input", "tool_response", "hook_event_name", "session_id"]


@settings(max_examples=50)
@given(body=some.dictionaries(some.sampled_from([*WORDS, "command", "exit_code"]), anything))
def test_any_hook_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        signals = read(body).signals
    except InvalidInput:
        return
    assert all(isinstance(signal, float) for signal in signals.values())


# -- the command


class Hook(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Hook]:
    """Runs `headway hook` in this process, which is faster than a new one per event."""

    def call(folder: Path, stdin: object, *options: str) -> Hook:
        text = stdin if isinstance(stdin, str) else json.dumps(stdin)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return Hook(run(["-C", str(folder), "hook", *options]), *capsys.readouterr())

    return call


@pytest.fixture
def decided(tmp_path: Path) -> tuple[Path, str]:
    """A project with a decision in the session "abc"."""
    with headway.open(tmp_path, environ={}) as project:
        return tmp_path, project.decide("route", "Fix it", ["small", "large"], episode="abc").id


def test_hook_is_a_command(decided: tuple[Path, str]) -> None:
    folder, pick = decided
    done = subprocess.run(
        [sys.executable, "-m", "headway", "-C", str(folder), "hook", "--strict"],
        input=json.dumps({"decision": pick, "tests_passed": True}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert f"tests_passed=1 for {pick}" in done.stderr


def test_a_session_is_an_episode_and_a_repeated_event_counts_once(
    decided: tuple[Path, str], hook: Callable[..., Hook]
) -> None:
    folder, _ = decided
    for _ in range(2):
        done = hook(folder, ran("pytest"), "--task", "route")
        assert (done.returncode, done.stdout) == (0, "")
        assert "tests_passed=1" in done.stderr
    with headway.open(folder, environ={}) as project:
        (signal,) = project.query.signals(project.episode("route", "abc"))
    assert (signal.name, signal.value, signal.rater, signal.label) == ("tests_passed", 1.0, "hook", "PostToolUse")


def test_a_decision_can_be_named_or_be_the_latest(decided: tuple[Path, str], hook: Callable[..., Hook]) -> None:
    folder, pick = decided
    assert hook(folder, {"decision": pick, "tests_passed": True}).returncode == 0
    done = hook(folder, {"session_id": "unheard of", "change": "kept"}, "--task", "route", "--latest", "--json")
    report = json.loads(done.stdout)
    assert (report["id"], report["signals"], report["new"]) == (pick, {"change_kept": 1.0}, 1)
    with headway.open(folder, environ={}) as project:
        assert {signal.name for signal in project.query.signals(pick)} == {"tests_passed", "change_kept"}


@pytest.mark.parametrize(
    ("stdin", "options", "reason"),
    [
        ("not JSON", [], "not JSON"),
        ("", [], "not JSON"),
        ("[" * 100_000, [], "not JSON"),
        ([1, 2], [], "expected a JSON object"),
        ({"change": "maybe"}, [], "expected kept or reverted"),
        ({"tests_passed": True}, [], "names neither a decision nor a task"),
        ({"tests_passed": True, "session_id": "other"}, ["--task", "route"], "belongs to the session"),
        ({"decision": "nonsense", "tests_passed": True}, [], "not a decision id"),
        ({"tests_passed": True}, ["--no-such-option"], "not an option"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_agent_is_never_disturbed(
    decided: tuple[Path, str], hook: Callable[..., Hook], stdin: object, options: list[str], reason: str
) -> None:
    folder, _ = decided
    done = hook(folder, stdin, *options)
    assert (done.returncode, done.stdout) == (0, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert hook(folder, stdin, *options, "--strict").returncode == 1


def test_without_a_project_nothing_is_created(tmp_path: Path, hook: Callable[..., Hook]) -> None:
    done = hook(tmp_path, {"tests_passed": True, "session_id": "abc"}, "--task", "route")
    assert done.returncode == 0
    assert "There is no project" in done.stderr
    assert not (tmp_path / ".headway").exists()


def test_an_event_without_signals_prints_nothing(tmp_path: Path, hook: Callable[..., Hook]) -> None:
    done = hook(tmp_path, ran("ls"), "--task", "route", "--strict")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
