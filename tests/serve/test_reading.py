"""Reading writes nothing: every GET route of the app, and every command that only shows something."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from headway.project import Project
from tests.cli.terminal import headway as command
from tests.serve.conftest import Running

WAITING = "2 signals are not counted yet: `headway settle route` does it, and so does the loop (`headway watch`)."
SHOWS = (
    ("status",),
    ("log", "route"),
    ("report", "route"),
    ("explain", "{decision}"),
    ("explain", "{decision}", "--replay"),
    ("experiment", "show", "route"),
    ("data", "stats"),
    ("data", "log", "route"),
    ("doctor",),
    ("keys", "list"),
    ("kits",),
    ("runs", "list"),
)


def stored(project: Project) -> dict[str, str]:
    """A hash of the rows of every table."""
    found = {}
    for name, table in project.database.tables().items():
        rows = project.database.query(f"SELECT * FROM {name} ORDER BY {', '.join(table.key)}")
        found[name] = f"{len(rows)} {hashlib.sha256(repr(rows).encode()).hexdigest()}"
    return found


@pytest.fixture
def read(served: Callable[..., Running]) -> tuple[Running, dict[str, Any]]:
    """A server on a project with a policy, evidence, and two signals that nothing has settled yet."""
    running = served('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    with running.open() as project:
        for number in range(300):
            pick = project.decide("route", f"question {number % 7}")
            project.signal(pick.id, reward=float(pick.action == "large"))
        policy = project.learn("route")
        verdict = project.prove(policy)
        for value in (0.0, 1.0):
            pick = project.decide("route", "new")
            project.signal(pick.id, reward=value)
        known = {"task": "route", "decision": pick.id, "id": pick.id, "policy": policy}
    return running, {**known, "ref": policy, "evidence": verdict.evidence.id if verdict.evidence else "ev"}


def test_no_route_that_reads_writes_and_the_status_says_how_many_signals_wait(
    read: tuple[Running, dict[str, Any]],
) -> None:
    running, known = read
    paths = running.client.get("/openapi.json").json()["paths"]
    reading = [path for path, methods in sorted(paths.items()) if "get" in methods]
    with running.open() as project:
        before, answered = stored(project), set()
        for path in reading:
            filled = re.sub(r"\{(\w+)\}", lambda name: str(known.get(name[1], "none")), path)
            with running.client.stream("GET", filled, headers=running.token) as answer:
                assert answer.status_code < 500, path
                if answer.status_code == 200:
                    answered.add(path)
            assert stored(project) == before, path
        (task,) = running.client.get("/v1/tasks", headers=running.token).json()["tasks"]
        assert (task["outcomes"]["rewarded"], task["outcomes"]["pending"]) == (300, 2)
        assert task["warnings"][0] == WAITING
        assert running.client.get(f"/v1/decisions/{known['id']}", headers=running.token).json()["outcome"] == {
            "status": "rewarded",
            "reward": 1.0,
            "clipped": False,
        }
    assert {"/v1/tasks", "/v1/tasks/{task}", "/v1/decisions", "/v1/reports", "/v1/tasks/{task}/recent"} <= answered
    assert len(answered) > len(reading) / 2, sorted(set(reading) - answered)


def test_no_command_that_shows_something_writes_and_settle_does(read: tuple[Running, dict[str, Any]]) -> None:
    running, known = read
    with running.open() as project:
        before = stored(project)
        for words in SHOWS:
            done = command("-C", running.folder, *(word.format(**known) for word in words))
            assert done.code in (0, 1), (words, done.err)
            assert stored(project) == before, words
        assert WAITING in command("-C", running.folder, "status").out
        done = command("-C", running.folder, "settle")
        assert done.out.splitlines()[0] == "route: 2 outcomes new or changed."
        assert WAITING not in command("-C", running.folder, "status").out
        assert project.status().tasks[0].outcomes["rewarded"] == 302
