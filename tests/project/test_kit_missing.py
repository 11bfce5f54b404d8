"""If the kit of the current policy is missing, the rules decide, and status and doctor report it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headway.loop.due import Due, Marks, due
from headway.nouns.errors import UnknownName
from headway.nouns.protocols import Learned
from headway.project import Project
from headway.project.publish import add_candidate

TOML = """
[tasks.route]
actions = ["small", "large"]
rules = [{ when = "task_complexity_score > 0.8", use = "large" }]
"""
Opened = Callable[..., Project]


def publish_vanished(project: Project) -> str:
    """Make a bundle of an unknown family current in the ledger; returns its reference."""
    learned = Learned(family="vanished", tensors={}, knobs={}, metrics={}, baselines={}, trained_on={}, extra={})
    made = project.add_bundle(learned, task="route", kind="choice", encoder="", seed=0)
    add_candidate(project, made, why="learned elsewhere", detail={"upto": 0})
    project.record_change("route", "promote", made.ref, made.digest, why="a test")
    return made.ref


def test_the_rules_decide_and_status_gives_the_reason(opened: Opened) -> None:
    project = opened(TOML)
    ref = publish_vanished(project)
    pick = project.decide("route", "hello", state={"task_complexity_score": 0.9})
    assert (pick.policy, pick.action) == ("rules@0", "large")
    assert project.replay(pick.id).exact
    (task,) = project.status().tasks
    assert (task.current, task.kit_missing, task.next.verb) == ("rules@0", "vanished", "doctor")
    assert project.current("route").ref == ref, "the ledger still names the promoted policy"
    assert "'vanished'" in task.next.why


def test_a_reinstalled_kit_decides_again(opened: Opened) -> None:
    project = opened(TOML)
    project.decide("route", "hello")
    ref = publish_vanished(project)
    assert project.status().tasks[0].kit_missing == "vanished"
    project.rollback("route", why="the kit is gone")
    (task,) = project.status().tasks
    assert (task.current, task.kit_missing) == ("rules@0", None)
    with pytest.raises(UnknownName, match="vanished"):
        project.promote(ref, task="route")


def test_the_loop_skips_a_task_whose_kit_is_missing(opened: Opened) -> None:
    project = opened(TOML)
    publish_vanished(project)
    standing = replace(project.standing("route"), since=1000, settled=1000)
    assert due(standing, Marks()) == Due()
