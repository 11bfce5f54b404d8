"""The summary of the latest decisions, compared with sums computed directly."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import fmean, stdev

import pytest

from headway.observe.recent_rows import RunningMean, recent
from headway.project import Project


@pytest.fixture
def project(tmp_path: Path, environ: dict[str, str]) -> Project:
    opened = Project(tmp_path, environ=environ, seed=3)
    random = Random(3)
    for number in range(130):
        pick = opened.decide("route", f"ask {number}", ["small", "large"])
        if number % 10:
            opened.signal(pick.id, reward=random.random(), cost_usd=0.1 if pick.action == "small" else 0.5)
    opened.settle("route")
    return opened


def test_the_summary_covers_the_latest_decisions(project: Project) -> None:
    with project:
        summary = recent(project.database, project.query, "route", window=100, points=4)
        rows = list(project.query.settled("route", signals=True))[-100 + 10 :]
        latest = {decision.id for decision in project.query.latest("route", 100)}
    rows = [row for row in rows if row.decision.id in latest]
    assert (summary.decisions, sum(action.decisions for action in summary.actions), summary.signals) == (
        130,
        100,
        ["cost_usd", "reward"],
    )
    for part in summary.actions:
        rewards = [row.reward for row in rows if row.decision.action == part.name and row.reward is not None]
        assert part.reward.value == pytest.approx(fmean(rewards))
        assert part.reward.interval is not None
        assert part.reward.interval[1] - fmean(rewards) == pytest.approx(1.96 * stdev(rewards) / len(rewards) ** 0.5)
        assert part.signals["cost_usd"].value == pytest.approx(0.1 if part.name == "small" else 0.5)
    assert [part.name for part in summary.policies] == ["uniform@0"]


def test_buckets_end_with_the_newest_decision_and_only_the_oldest_may_be_smaller(project: Project) -> None:
    with project:
        summary = recent(project.database, project.query, "route", window=130, points=4)
        few = recent(project.database, project.query, "route", window=45, points=60)
    assert [(bucket.upto, bucket.decisions) for bucket in summary.trend] == [(31, 31), (64, 33), (97, 33), (130, 33)]
    assert all(bucket.away / bucket.decisions == pytest.approx(0.5) for bucket in summary.trend)
    assert [(bucket.upto, bucket.decisions) for bucket in few.trend] == [(110, 20), (130, 20)]


def test_no_interval_of_a_mean_reward_leaves_the_declared_range(project: Project) -> None:
    with project:
        summary = recent(project.database, project.query, "route", window=60, points=60, reward_range=(0.45, 0.55))
        free = recent(project.database, project.query, "route", window=60, points=60)
    assert any(bucket.reward.high > 0.55 for bucket in free.trend if bucket.reward.high is not None)
    means = [bucket.reward for bucket in summary.trend] + [part.reward for part in summary.actions + summary.policies]
    for mean in means:
        value, low, high = mean.value, mean.low, mean.high
        assert value is not None
        assert low is not None
        assert high is not None
        assert low <= value <= high
        assert low >= min(0.45, value)
        assert high <= max(0.55, value)


def test_the_summary_of_an_empty_store_is_empty(tmp_path: Path, environ: dict[str, str]) -> None:
    with Project(tmp_path, environ=environ) as project:
        summary = recent(project.database, project.query, "route", window=100, points=10)
    assert (summary.decisions, summary.trend, summary.actions, summary.signals) == (0, [], [], [])
    assert RunningMean().value is None
    assert RunningMean().interval is None


def test_a_withdrawn_signal_is_not_summed(tmp_path: Path, environ: dict[str, str]) -> None:
    with Project(tmp_path, environ=environ) as project:
        pick = project.decide("route", "ask", ["small", "large"])
        project.signal(pick.id, reward=1.0)
        project.withdraw(pick.id, "reward")
        project.settle("route")
        summary = recent(project.database, project.query, "route", window=100, points=10)
    assert summary.signals == []
    assert summary.actions[0].reward.value is None
