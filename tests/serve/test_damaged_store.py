"""Damaged values in a store: no request of the page or of a client ends in an unexplained error."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import headway
from tests.cli.test_damaged_store import DAMAGE, damage, whole  # noqa: F401 — a fixture
from tests.serve.conftest import Running

TOML = '[tasks.route]\nactions = ["small", "large"]\nreward = { reward = 1.0 }\n'
OPENAPI = json.loads((Path(__file__).parents[1] / "golden" / "openapi.json").read_text("utf-8"))
STREAM = "/v1/events"  # never ends


def answers(running: Running, names: dict[str, str]) -> Iterator[httpx.Response]:
    """Every GET whose path is known, and what clients send."""
    for path, operations in OPENAPI["paths"].items():
        asked = path
        for name, value in names.items():
            asked = asked.replace(f"{{{name}}}", value)
        if "get" in operations and "{" not in asked and asked != STREAM:
            yield running.client.get(asked, headers=running.token)
    yield running.decide()
    decision = f"/v1/decisions/{names['decision']}"
    yield running.client.post(f"{decision}/signals", json={"reward": 1.0})


def attacked(served: Callable[..., Running], whole: Path, folder: Path) -> dict[int, int]:  # noqa: F811
    with headway.open(whole) as project:
        names = {"task": "route", "decision": next(iter(project.query.decisions("route"))).id}
    running = served(folder=folder)
    counts: dict[int, int] = {}
    for answer in answers(running, names):
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        assert answer.status_code != 500, (answer.request.url, answer.text)
        if answer.status_code == 503:
            assert "damaged" in answer.json()["error"]["code"], answer.text
    assert "Traceback" not in running.stop()
    return counts


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", "yesterday"),
        *(
            pytest.param(column, value, marks=pytest.mark.slow)
            for column, value in (("action", 10**17), ("source", b"\xff"), ("state", "9" * 100_000))
        ),
    ],
)
def test_a_damaged_value_is_no_internal_error(
    served: Callable[..., Running],
    column: str,
    value: object,
) -> None:
    running = served(TOML)
    body = {"task": "route", "text": "Summarise", "state": {"a": 1}}
    made = [running.client.post("/v1/decisions", json=body).json()["id"] for _ in range(5)]
    with closing(sqlite3.connect(running.folder / ".headway" / "headway.db", isolation_level=None)) as store:
        store.execute(f"UPDATE decisions SET {column} = ?", (value,))
    answers = [
        running.client.get(path, headers=running.token)
        for path in (f"/v1/decisions/{made[0]}", "/v1/decisions?task=route", "/v1/status", "/v1/tasks/route")
    ]
    codes = [answer.json().get("error", {}).get("code", "") for answer in answers]
    assert "store_damaged" in codes
    assert set(codes) <= {"store_damaged", "", "not_found"}, codes
    assert running.client.post("/v1/decisions", json=body).status_code == 201


def test_requests_that_meet_a_damaged_value_say_so(
    whole: Path,  # noqa: F811
    tmp_path: Path,
    served: Callable[..., Running],
) -> None:
    counts = attacked(served, whole, damage(whole, tmp_path / "damaged", *DAMAGE[0]))
    assert counts.get(503), counts


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column", "value"), DAMAGE[1:])
def test_no_damaged_value_ends_in_an_unexplained_error(
    whole: Path,  # noqa: F811
    tmp_path: Path,
    served: Callable[..., Running],
    table: str,
    column: str,
    value: object,
) -> None:
    attacked(served, whole, damage(whole, tmp_path / "damaged", table, column, value))
