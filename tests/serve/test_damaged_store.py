"""Damaged values in a store are answered as such, not as an internal error."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.serve.conftest import Running

TOML = '[tasks.route]\nactions = ["small", "large"]\nreward = { reward = 1.0 }\n'


@pytest.mark.parametrize(
    ("column", "value"), [("at", "yesterday"), ("action", 10**17), ("source", b"\xff"), ("state", "9" * 100_000)]
)
def test_a_damaged_value_is_no_internal_error(served: Callable[..., Running], column: str, value: object) -> None:
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
