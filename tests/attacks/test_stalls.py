"""One key that reads without a pause does not keep another from its decisions and replies."""

from __future__ import annotations

import pytest

from tests.attacks.stalls import HEAVY, WRITING, Stall, attack


def served(stall: Stall) -> None:
    assert stall.refused == 0, stall
    assert sum(stall.answers.values()) > 0, stall


def test_a_key_with_twelve_connections_is_refused_and_another_key_is_not() -> None:
    duels, votes = attack(replies=400, connections=12, seconds=2.0, routes=HEAVY[:2])
    for stall in (duels, votes):
        served(stall)
        assert stall.answers.get(429, 0) > 0, "it has used up its share"
    assert duels.answers.get(201, 0) > 0


@pytest.mark.slow
def test_at_20000_replies_no_route_doubles_the_median_of_another_key() -> None:
    for stall in attack(replies=20_000, connections=12, seconds=6.0):
        served(stall)
        assert max(stall.decide_ratio, stall.reply_ratio) < 2.0, stall


@pytest.mark.slow
def test_at_2000_replies_no_writing_doubles_the_median_of_another_key() -> None:
    for stall in attack(replies=2_000, connections=12, seconds=6.0, routes=tuple(("POST", path) for path in WRITING)):
        served(stall)
        assert max(stall.decide_ratio, stall.reply_ratio) < 2.0, stall
