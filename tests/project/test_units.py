"""Requests and episodes as units: at the doors, in files, and as they are counted."""

from __future__ import annotations

import json

import pytest

from headway.kits.data.exporter import ExportFilter, export
from headway.nouns import errors
from headway.project import Project
from tests.project.test_claims import Clock

TOML = """[tasks.ask]
unit = "{unit}"
actions = ["a", "b"]
range = [0.0, 1.0]
"""
pytestmark = pytest.mark.engines(slow="postgresql", why="units in both engines: tests/observe/test_units.py")


def opened(folder, unit: str) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "headway.toml").write_text(TOML.format(unit=unit), "utf-8")
    return Project(folder, environ={}, clock=Clock(), seed=1)


@pytest.fixture
def project(tmp_path):
    with opened(tmp_path, "request") as made:
        yield made


def test_the_same_idempotency_key_is_the_same_decision(project):
    first = project.decide("ask", "hello", idempotency_key="req-1")
    assert project.decide("ask", "hello", idempotency_key="req-1") == first
    assert project.decide("ask", "hello", idempotency_key="req-2").id != first.id
    assert project.decide("ask", "hello", idempotency_key="req-1", key="ana").id != first.id
    again = project.record("ask", "hello", action=first.action, propensity=0.5, idempotency_key="req-1")
    assert again.id == first.id
    assert project.query.counts("ask").decisions == 3


def test_an_idempotency_key_with_another_request_is_a_conflict(project):
    project.decide("ask", "hello", idempotency_key="req-1")
    with pytest.raises(errors.HeadwayError) as refused:
        project.decide("ask", "goodbye", idempotency_key="req-1")
    assert refused.value.code == "id_conflict"


def test_later_attempts_are_stored_once_and_do_not_count(project):
    first = project.decide("ask", "hello")
    project.signal(first.id, failed=1.0, cost_usd=0.25)
    second = project.decide("ask", "hello", unit=first.id)
    assert project.decide("ask", "hello", unit=first.id) == second
    third = project.record("ask", "hello", action="b", propensity=1.0, unit=second.id, position=2)
    assert (third.unit, third.position) == (first.id, 2)
    project.signal(third.id, reward=1.0, cost_usd=0.5)
    project.settle("ask")
    counts = project.query.counts("ask")
    assert (counts.decisions, counts.units, counts.by_status["rewarded"]) == (1, 1, 1)
    assert project.explain(first.id).outcome.reward == 1.0


@pytest.mark.parametrize(
    ("unit", "details", "code"),
    [
        ("decision", {"unit": "first"}, "bad_unit"),
        ("episode", {"unit": "first"}, "bad_unit"),
        ("request", {"unit": "first", "key": "ana"}, "unknown_decision"),
        ("request", {"unit": "dec_" + "0" * 32}, "unknown_decision"),
        ("request", {"unit": "first", "position": 0}, "bad_unit"),
        ("request", {"unit": "req-1"}, "bad_id"),
        ("request", {"id": "dec_" + "1" * 32, "idempotency_key": "req-1"}, "bad_id"),
        ("request", {"idempotency_key": ""}, "bad_name"),
    ],
)
def test_a_place_in_a_request_that_cannot_be_is_refused(tmp_path, unit, details, code):
    with opened(tmp_path, unit) as project:
        first = project.decide("ask", "hello")
        details = {name: first.id if value == "first" else value for name, value in details.items()}
        with pytest.raises(errors.HeadwayError) as refused:
            project.decide("ask", "hello", **details)
        assert refused.value.code == code
        assert project.query.counts("ask").decisions == 1


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_an_export_carries_requests_and_an_import_restores_them(tmp_path, project, suffix):
    first = project.decide("ask", "hello")
    second = project.decide("ask", "hello", unit=first.id)
    project.signal(second.id, reward=0.5)
    project.settle("ask")
    file = tmp_path / f"out.{suffix}"
    export(project.database, project.query, file, ExportFilter(), format=suffix, now=project.clock())
    with opened(tmp_path / "other", "request") as other:
        other.import_file(file)
        other.settle("ask")
        stored = other.query.decision(second.id)
        assert (stored.unit, stored.position, stored.draw_id) == (first.id, 1, first.id)
        assert other.query.outcome(other.query.decision(first.id)).reward == 0.5
        assert other.query.counts("ask").units == 1


@pytest.mark.kits("formats")
def test_an_import_knows_a_request_by_its_name(tmp_path, project):
    project.decide("ask", "hello", idempotency_key="req-1")
    rows = [
        {"idempotency_key": name, "text": "hello", "action": "a", "candidates": ["a", "b"], "reward": 1.0}
        for name in ("req-8", "req-9", "req-8")
    ]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    for _ in range(2):
        project.import_file(file, task="ask", columns={"propensity": "unknown"})
    assert project.query.counts("ask").decisions == 3
    assert project.record("ask", "hello", action="a", propensity=0.5, idempotency_key="req-9").source == "imported"


def test_the_steps_of_an_episode_are_one_unit(tmp_path):
    with opened(tmp_path, "episode") as project:
        steps = [project.decide("ask", "hello", episode="e1") for _ in range(3)]
        alone = project.decide("ask", "hello")
        assert [one.position for one in steps] == [0, 1, 2]
        assert alone.unit == ""
        project.signal(project.episode("ask", "e1"), reward=1.0)
        project.settle("ask")
        counts = project.query.counts("ask")
        assert (counts.decisions, counts.units, counts.by_status["rewarded"]) == (4, 2, 1)
