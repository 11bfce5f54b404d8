"""An outage of what a task chooses is told as one, and is no change of quality."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headway.kits.proxy.outages import OutageLog
from headway.project import Project, task_story

TOML = """[tasks.route]
actions = ["small", "large"]
fallback = "small"
reward_after_s = 3600
[upstreams.small]
url = "http://127.0.0.1:1/v1"
model = "s"
[upstreams.large]
url = "http://127.0.0.1:1/v1"
model = "l"
"""
START = 1.75e9


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Iterator[Project]:
    (tmp_path / "headway.toml").write_text(TOML)
    with Project(tmp_path, environ={}, clock=clock, seed=3) as opened:
        yield opened


def serve(project: Project, clock: Clock, n: int, solved: float, offered: list[str] | None = None) -> None:
    """Requests, one a second, of which this share is solved."""
    rng = np.random.default_rng(int(clock.now) % 1000)
    for _ in range(n):
        clock.now += 1.0
        pick = project.decide("route", "hello", offered)
        project.signal(pick.id, reward=float(rng.random() < solved))
    project.settle("route")


def test_outcomes_during_an_outage_raise_no_alarm(project: Project, clock: Clock) -> None:
    log = OutageLog(project)
    serve(project, clock, 400, 0.9)
    began = clock.now + 0.5
    serve(project, clock, 80, 0.2)  # `small` fails, and its fallback answers worse
    outage = log.begin("small", began, clock.now, "upstream_status", 80, 80)
    serve(project, clock, 100, 0.3, ["large"])
    project.writer.probe()
    assert project.check_alarm("route") is None
    log.end(outage, clock.now, 80, 180)
    project.writer.probe()
    serve(project, clock, 100, 0.9)
    assert project.check_alarm("route") is None
    serve(project, clock, 200, 0.2)  # a real change, afterwards
    since = clock.now - 200
    assert project.check_alarm("route") is not None
    (alarm,) = project.alarms("route")
    assert abs(alarm.since - since) < 30.0


def test_the_same_outcomes_without_an_outage_raise_an_alarm(project: Project, clock: Clock) -> None:
    serve(project, clock, 400, 0.9)
    serve(project, clock, 80, 0.2)
    assert project.check_alarm("route") is not None


def test_a_change_during_a_long_outage_is_found(project: Project, clock: Clock) -> None:
    serve(project, clock, 300, 0.9)
    OutageLog(project).begin("small", clock.now + 0.5, clock.now + 0.6, "upstream_status", 5, 0)
    serve(project, clock, 300, 0.8, ["large"])
    assert project.check_alarm("route") is None
    serve(project, clock, 150, 0.1, ["large"])
    assert project.check_alarm("route") is not None
    (alarm,) = project.alarms("route")
    assert abs(alarm.since - (clock.now - 150)) < 30.0


def test_an_outage_is_part_of_the_status_for_a_day_and_of_the_story_for_ever(project: Project, clock: Clock) -> None:
    serve(project, clock, 2, 1.0)
    log = OutageLog(project)
    outage = log.begin("small", clock.now, clock.now + 1.0, "upstream_status", 5, 2)
    log.begin("elsewhere", clock.now, clock.now + 1.0, "upstream_status", 5, 2)  # no action of this task
    project.writer.probe()
    assert [one.upstream for one in project.status().tasks[0].outages] == ["small"]
    clock.now += 600.0
    log.end(outage, clock.now, 9, 30)
    project.writer.probe()
    clock.now += 80_000.0
    assert [one.open for one in project.status().tasks[0].outages] == [False]
    clock.now += 10_000.0
    assert project.status().tasks[0].outages == ()
    told = [event.text for event in task_story(project, "route").events if event.kind == "outage"]
    times = "from 2025-06-15 15:06:42 until 2025-06-15 15:16:42 UTC"
    said = f"Outage: 'small' was down {times} (upstream_status): 9 calls failed, 30 requests went elsewhere."
    assert told == [said, "'small' answers again."]
