"""Rewards are derived: a new definition and a rescore change them, and no stored signal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.project import Project

Opened = Callable[..., Project]
_SIGNALS = "SELECT seq, subject, name_id, value, label, rater_id, at, key, withdrawn_by FROM signals ORDER BY seq"
TOML = '[tasks.route]\nactions = ["small", "large"]\nreward = {}\n'


def stored(project: Project) -> list[tuple[Any, ...]]:
    return [tuple(bytes(cell) if isinstance(cell, memoryview) else cell for cell in row)
            for row in project.database.query(_SIGNALS)]  # fmt: skip


def rewards(project: Project) -> list[float | None]:
    return [row.reward for row in project.query.settled("route")]


def test_rescoring_changes_no_stored_signal_and_the_old_definition_restores_the_old_rewards(opened: Opened) -> None:
    first = opened(TOML.replace("{}", '"reward_v1"'))
    for n in range(30):
        pick = first.decide("route", f"ask {n}")
        first.signal(pick.id, trajectory_reward=n / 30, verification_passed=n % 2, cost_usd=0.001 * n, latency_s=n)
        if n % 3 == 0:
            first.signal(pick.id, retries=n, timeout=float(n % 2), rater="watchdog", label="slow")
        if n % 5 == 0:
            first.withdraw(pick.id, "verification_passed")
    first.settle("route")
    before, version_1 = stored(first), rewards(first)
    second = opened(TOML.replace("{}", '"reward_v2"'))
    assert second.rescore("route") > 0
    assert stored(second) == before
    assert rewards(second) != version_1
    third = opened(TOML.replace("{}", "{ trajectory_reward = 1.0 }") + "consensus = true\n")
    third.rescore("route")
    assert stored(third) == before
    again = opened(TOML.replace("{}", '"reward_v1"'))
    again.rescore("route")
    assert stored(again) == before
    assert sorted(map(str, rewards(again))) == sorted(map(str, version_1))
