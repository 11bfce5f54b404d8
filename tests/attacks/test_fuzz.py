"""Malformed and hostile requests get no 500."""

from __future__ import annotations

import pytest

from tests.attacks.fuzz import attack


def no_500(requests: int) -> None:
    seen = attack(requests=requests, seed=1)
    assert seen["alive"] == 200
    assert "500" not in seen["statuses"]


def test_500_hostile_requests_get_no_500() -> None:
    no_500(500)


@pytest.mark.slow
def test_20_000_hostile_requests_get_no_500() -> None:
    no_500(20_000)
