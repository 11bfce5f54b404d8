"""Predictions against outcomes, and the rounds of improvers, over HTTP and by the Python client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headway
from headway.client import Client
from headway.kits.demo.synth import synthesise
from headway.kits.next_action.improve.run_state import RoundResult
from headway.kits.next_action.predictions import predictions
from headway.nouns.errors import UnknownName
from headway.observe.experience import part_of, split_by
from tests.kits.next_action.played import IMPROVER, write_run
from tests.kits.next_action.test_ranker import ACTIONS, TOML
from tests.serve.conftest import Running


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project whose ranker has made 12 of its decisions itself, and its reference."""
    folder = tmp_path_factory.mktemp("predictions")
    (folder / "headway.toml").write_text(TOML + 'gate = "off"\n' + IMPROVER, "utf-8")
    with headway.open(folder) as project:
        synthesise(project, "next-action", rows=600, seed=42, world="projects")
        ref = project.learn("next-action", architecture="linear")
        before = predictions(project, "next-action")
        assert (before.predictions, before.overall) == ((), None)
        assert before.left_out["without a policy that predicts rewards"] > 400
        project.promote(ref)
        for number in range(12):
            pick = project.decide("next-action", "", ACTIONS, state={"composite_score": number / 12})
            project.signal(pick.id, composite_delta=0.01 if number % 3 else -0.01)
        project.settle("next-action")
    return folder, ref


def test_only_rows_that_training_never_read_are_compared(learned: tuple[Path, str]) -> None:
    folder, ref = learned
    with headway.open(folder) as project:
        report = predictions(project, "next-action", limit=1000)
        by = split_by(project.query, "next-action")
        imported = [row for row in report.predictions if row.origin == "held out"]
        parts = {part_of(project.query.decision(row.decision), by) for row in imported}
    assert len(imported) > 50
    assert parts == {"prove"}
    assert report.left_out["read in training, or not later"] > 100
    assert report.left_out["with a mined label"] > 0
    assert {row.policy for row in report.predictions} == {ref}


def test_a_policy_is_held_to_what_it_predicted_for_its_own_decisions(learned: tuple[Path, str]) -> None:
    folder, ref = learned
    with headway.open(folder) as project:
        report = predictions(project, "next-action", limit=12)
        assert [row.origin for row in report.predictions] == ["decided"] * 12
        last = report.predictions[-1]
        shown = project.rank("next-action", ACTIONS, state={"composite_score": 11 / 12}, policy=ref)
    (same,) = [row for row in shown if row.name == last.action]
    assert (last.predicted, last.low, last.high) == (same.predicted, same.low, same.high)
    overall = report.overall
    assert overall is not None
    assert (overall.predicted, overall.majority) == (12, pytest.approx(8 / 12))
    inside = [row.low <= row.reward <= row.high for row in report.predictions if row.low is not None and row.high]
    assert overall.coverage == pytest.approx(sum(inside) / 12)
    assert [(window.first, window.last) for window in report.windows] == [(1, 10), (11, 12)]


def test_another_policy_can_be_asked(learned: tuple[Path, str]) -> None:
    folder, ref = learned
    with headway.open(folder) as project:
        asked = predictions(project, "next-action", policy=ref, limit=12)
        assert {row.origin for row in asked.predictions} == {"held out"}
        with pytest.raises(UnknownName):
            predictions(project, "next-action", policy="ranker@00000000")


@pytest.fixture(scope="module")
def running(learned: tuple[Path, str]) -> Iterator[Running]:
    server = Running(learned[0])
    yield server
    server.stop()


def test_predictions_are_served(learned: tuple[Path, str], running: Running) -> None:
    with Client(running.url) as client:
        body = client.predictions("next-action", limit=12)
    assert len(body["predictions"]) == 12
    assert {"decision", "at", "policy", "origin", "predicted", "low", "high", "reward"} <= body["predictions"][0].keys()
    assert body["overall"]["predicted"] == 12
    for path in ("nope/predictions", "next-action/predictions?policy=ranker@00000000"):
        assert running.client.get(f"/v1/tasks/{path}").status_code == 404
    assert running.client.get("/v1/tasks/next-action/predictions?limit=0").status_code == 422
    assert running.client.get("/v1/improve/down/rounds").json()["error"]["code"] == "unknown_improver"


def test_rounds_are_served_with_their_reasons(learned: tuple[Path, str], running: Running) -> None:
    with Client(running.url) as client:
        (improver,) = client.improvers()
        assert (improver["rounds"], improver["runs"], client.rounds("up")) == (0, 0, [])
        told = {"decision": "dec_1", "propensity": 0.5, "type": "fix"}
        kept = RoundResult(round=1, proposal="A", verdict="kept", why="won", before=1.0, after=2.0, reward=1.0, **told)
        why = "it changes 'eval.sh'"
        refused = RoundResult(round=2, proposal="B", verdict="refused", why=why, code="read_only_file", **told)
        write_run(learned[0] / ".headway", [kept, refused])
        (improver,) = client.improvers()
        first, second = client.rounds("up")
        assert client.rounds("up", limit=1) == [second]
    assert (improver["metric"], improver["direction"], improver["task"]) == ("score", "maximise", "next-action")
    assert (improver["branch"], improver["ended"]) == ("improve/up-001", "no proposal is left")
    assert improver["verdicts"] == {"kept": 1, "refused": 1}
    assert (first["verdict"], first["before"], first["after"], first["run"]) == ("kept", 1.0, 2.0, "001")
    assert (second["verdict"], second["code"], second["before"], second["why"]) == ("refused", refused.code, None, why)
