"""The loop never promotes by what a client claims: it asks, or draws for itself."""

from __future__ import annotations

import pytest

from headway.loop.cycle import cycle
from headway.loop.due import Due, Marks, due
from headway.project import Project
from tests.project.test_claims import TOML, Clock, claim, draw


@pytest.fixture
def project(tmp_path):
    (tmp_path / "headway.toml").write_text(TOML + 'promote = "auto"\nramp = "off"\n', "utf-8")
    with Project(tmp_path, environ={}, clock=Clock(), seed=1) as opened:
        yield opened


def test_auto_waits_for_a_person_where_a_client_makes_all_decisions(project):
    claim(project, 900)
    candidate = project.learn("ask")
    done = cycle(project, "ask", Due(prove=True), Marks())
    assert done.verdict.passed
    assert not done.promoted
    assert done.waits
    assert done.next.command == f"headway promote ask --policy {candidate} --trust-claims"
    assert project.ledger.experiment("ask") is None


def test_auto_draws_for_itself_where_a_client_makes_some_decisions_and_then_promotes(project):
    claim(project, 1200)
    draw(project, 60)
    candidate = project.learn("ask")
    marks = Marks()
    done = cycle(project, "ask", Due(prove=True), marks)
    assert done.verdict.passed
    assert not done.promoted
    assert done.experiment.startswith(f"{candidate} decides on")
    for seed in range(3, 15):
        draw(project, 100, seed=seed)
        claim(project, 20, {"a": 0.1, "b": 0.9}, seed=seed)
        project.settle("ask")
        work = due(project.standing("ask"), marks)
        if work.prove:
            done = cycle(project, "ask", work, marks)
        if done.promoted:
            break
    assert done.promoted == candidate
    assert "accepted" not in project.ledger.current("ask").detail
