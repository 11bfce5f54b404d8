"""`headway log` tells what happened to a task, and HTTP tells the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import headway
from headway.nouns.wire import document
from headway.observe.erase import DeletionFilter
from headway.project import task_story
from headway.project.alarm import end_alarm, raise_alarm
from tests.cli.terminal import headway as run
from tests.cli.test_states import DRIFT, EARLY, keep
from tests.promote.test_gate import check

pytestmark = pytest.mark.kits("agents")

TOML = '[tasks.route]\nactions = ["small", "large"]\nfloor = {floor}\n[tasks.other]\nactions = ["a", "b"]\n'


def decided(folder: Path, floor: float, count: int) -> list[str]:
    (folder / "headway.toml").write_text(TOML.format(floor=floor))
    with headway.open(folder, environ={}, seed=3) as project:
        ids = []
        for ask in headway.sample("route", n=count, seed=7):
            pick = project.decide("route", ask.text)
            project.decide("other", ask.text)
            project.signal(pick.id, reward=ask.outcome(pick.action))
            ids.append(pick.id)
    return ids


def test_the_story_of_a_task_is_told_in_sentences_with_times_and_names(empty: Path) -> None:
    ids = decided(empty, 0.02, 30)
    with headway.open(empty, environ={}, seed=3) as project:
        policy = project.learn("route")
        keep(project, "route", policy, {})
        project.canary(policy, share=0.2, who="ann")
        project.canary(policy, share=0.0, who="ann")
        project.promote(policy, who="ann", at_once=True)
        raise_alarm(project, "route", DRIFT, who="loop")
        end_alarm(project, "route", why="it was a holiday", who="ann")
        project.rollback("route", why="tickets went up", who="bob")
        project.erase(DeletionFilter(decision=ids[0]), rewrite=False)
    decided(empty, 0.05, 30)
    told = run("-C", empty, "log", "route", "--json")
    assert told.code == 0, told.err
    events = told.json["events"]
    kinds = [event["kind"] for event in events]
    assert kinds == [
        "started", "learned", "proven", "canary", "canary", "promoted", "alarm", "alarm", "rolled back", "deleted",
        "settings",
    ]  # fmt: skip
    text = dict(zip(kinds, (event["text"] for event in events), strict=True))
    assert text["proven"].startswith(f"{policy} is better than")
    assert text["promoted"].startswith(f"{policy} was promoted and decides now")
    assert text["rolled back"].endswith(f"in place of {policy}: tickets went up.")
    assert "1 decision and 1 signal were" in text["deleted"]
    assert "floor, from 0.02 to 0.05" in text["settings"]
    assert [event["who"] for event in events if event["kind"] == "rolled back"] == ["bob"]
    shown = run("-C", empty, "log", "route", "--last", "1")
    assert "Settings changed" in shown.out
    assert policy not in shown.out
    with headway.open(empty, environ={}) as project:
        assert [event["kind"] for event in document(task_story(project, "other"))["events"]] == ["started"]


def test_looks_of_the_guard_are_not_told_and_report_shows_what_promoted(empty: Path) -> None:
    decided(empty, 0.02, 30)
    with headway.open(empty, environ={}, seed=3) as project:
        policy = project.learn("route", who="watch")
        keep(project, "route", policy, {**EARLY, "id": "evi_first", "needed": 900})
        keep(project, "route", policy, {**EARLY, "id": "evi_again", "diagnostics": (check("calibration", ok=False),)})
        keep(project, "route", policy, {"id": "evi_better"})
        project.promote(policy, at_once=True)
        body = {**(project.ledger.evidence("evi_first") or {}), "id": "evi_guard"}
        project.ledger.keep_evidence("evi_guard", "route", body["candidate_hash"], body, project.clock())
        assert project.ledger.latest_evidence("route") == "evi_guard"
    events = run("-C", empty, "log", "route", "--json").json["events"]
    assert [event["word"] for event in events if event["kind"] == "proven"] == ["too early", "better"]
    assert [event["who"] for event in events if event["kind"] == "learned"] == ["watch"]
    assert run("-C", empty, "report", "route").out.partition("\n")[2].startswith("BETTER")


def test_nothing_has_happened_yet(empty: Path) -> None:
    (empty / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\n')
    run("-C", empty, "init")
    done = run("-C", empty, "log", "route")
    assert done.code == 0, done.err
    assert "Nothing has happened to route yet." in done.out
