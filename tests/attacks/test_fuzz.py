"""Malformed and hostile requests get no 500."""

from __future__ import annotations

import pytest

from tests.attacks.fuzz import attack
from tests.postgres import Server


def no_500(requests: int, seed: int = 1) -> None:
    seen = attack(requests=requests, seed=seed)
    assert seen["alive"] == 200
    assert "500" not in seen["statuses"]


def test_500_hostile_requests_get_no_500() -> None:
    no_500(500)


@pytest.mark.slow
def test_20_000_hostile_requests_get_no_500() -> None:
    no_500(20_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_20_000_hostile_requests_to_a_server_on_postgresql_get_no_500(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_STORE_URL", postgres.store())
    no_500(20_000, seed=2)
