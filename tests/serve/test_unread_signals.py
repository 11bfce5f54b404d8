"""A signal that nothing reads is stored, and every door says so and names the nearest one that is read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.client import Client
from tests.cli.terminal import headway as command
from tests.serve.conftest import Running

TOML = """
[tasks.route]
actions = ["small", "large"]
reward = { solved = 1.0 }
[tasks.route.guards.harm]
tolerance = 0.01
"""
SENTENCE = (
    "Nothing reads the signal 'sovled' of the task 'route': it is stored and changes no reward or guard. "
    "Did you mean 'solved'?"
)


def test_the_server_and_its_client_warn(
    served: Callable[..., Running], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = served(TOML)
    made = [server.client.post("/v1/decisions", json={"task": "route"}).json()["id"] for _ in range(3)]

    answer = server.client.post(f"/v1/decisions/{made[0]}/signals", json={"sovled": 1})
    assert (answer.status_code, answer.headers["headway-warning"]) == (204, SENTENCE)
    answer = server.client.post(f"/v1/decisions/{made[0]}/signals", json={"solved": 1, "harm": 0, "latency_s": 2})
    assert (answer.status_code, "headway-warning" in answer.headers) == (204, False)

    batch = {"signals": [{"subject": subject, "signals": {"sovled": 1}} for subject in made]}
    answer = server.client.post("/v1/signals", json=batch)
    assert (answer.status_code, answer.json()) == (200, {"new": 2, "warnings": [SENTENCE]})

    with Client(server.url) as client, caplog.at_level(logging.WARNING, "headway.client"):
        assert client.signal(made[1], sovled=0.5) == 1
        assert client.signal(made[2], sovled=0.5) == 1
    assert [record.message for record in caplog.records] == [SENTENCE], "told once"

    (task,) = server.client.get("/v1/tasks", headers=server.token).json()["tasks"]
    assert SENTENCE in task["warnings"]
    assert all(name not in " ".join(task["warnings"]) for name in ("'harm'", "'latency_s'"))


def test_the_terminal_warns_and_status_and_doctor_repeat_it(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(TOML)
    with headway.open(tmp_path, environ={}) as project:
        pick = project.decide("route")
    said = command("-C", tmp_path, "signal", pick.id, "sovled=1")
    assert (said.code, f"Warning: {SENTENCE}" in said.out) == (0, True)
    assert command("-C", tmp_path, "signal", pick.id, "sovled=1", "--json").json["warnings"] == [SENTENCE]
    assert f"warning: {SENTENCE}" in command("-C", tmp_path, "status").out
    doctor = command("-C", tmp_path, "doctor", "--json").json
    (finding,) = [check for check in doctor["checks"] if check["name"] == "signals of route"]
    assert (finding["ok"], finding["found"]) == (None, SENTENCE)


def test_a_function_may_read_any_signal(tmp_path: Path) -> None:
    (tmp_path / "own_reward.py").write_text("def score(decision, signals):\n    return signals.get('sovled', 0.0)\n")
    (tmp_path / "headway.toml").write_text(
        '[tasks.route]\nactions = ["small", "large"]\nreward = "own_reward:score"\n', "utf-8"
    )
    with headway.open(tmp_path, environ={}) as project:
        pick = project.decide("route")
        project.signal(pick.id, sovled=1.0)
        assert project.unread_signals(pick.id, ["sovled"]) == []
        project.settle("route")
        assert project.status().tasks[0].warnings == ()


@pytest.mark.kits("agents")
def test_an_agent_over_mcp_is_told(tmp_path: Path) -> None:
    from headway.kits.agents.mcp import Tools

    (tmp_path / "headway.toml").write_text(TOML)
    with headway.open(tmp_path, environ={}) as project:
        pick = project.decide("route")
        tools = Tools(project)
        assert tools.signal(pick.id, {"sovled": 1.0}) == {"new": 1, "warnings": [SENTENCE]}
        assert tools.signal(pick.id, {"solved": 1.0}) == {"new": 1}
