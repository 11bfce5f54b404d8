"""A loop that keeps decoded decisions reads what anyone else reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.nouns.records import Decision
from headway.observe import decoded
from headway.observe.decoded import DecodedDecisions
from headway.observe.erase import DeletionFilter
from headway.project import Project


@pytest.fixture
def project(tmp_path: Path, environ):
    with Project(tmp_path, environ=environ, seed=1) as opened:
        for number in range(12):
            pick = opened.decide("route", f"text {number}", ["a", "b"], state={"turn": number})
            if number % 4:
                opened.signal(pick.id, reward=number / 12)
        opened.settle("route")
        yield opened


def read(project: Project) -> tuple[list[object], list[object]]:
    order = project.query.draws("route").seq.tolist()
    return list(project.query.settled("route", signals=True)), list(project.query.outcomes(order, raters=True))


def test_kept_decisions_are_the_stored_ones_with_their_present_outcomes(project: Project) -> None:
    before = read(project)
    project.query.decoded.keep()
    assert read(project) == before, "read for the first time"
    assert read(project) == before, "from memory"
    rated = project.query.latest("route", 1)[0]
    project.signal(rated.id, reward=0.25)
    project.settle("route")
    settled, outcomes = read(project)
    assert (settled[-1].decision, settled[-1].reward) == (rated, 0.25)
    assert outcomes[-1].reward == 0.25


def test_a_deleted_decision_does_not_come_back_from_memory(project: Project) -> None:
    project.query.decoded.keep()
    gone = project.query.latest("route", 2)[1]
    assert gone.id in {row.decision.id for row in read(project)[1]}
    project.erase(DeletionFilter(decision=gone.id))
    settled, outcomes = read(project)
    assert gone.id not in {row.decision.id for row in (*settled, *outcomes)}
    assert len(outcomes) == 11
    assert gone.seq not in project.query.decoded._kept, "nor does it stay there"
    assert len(project.query.decoded._kept) == 11


def test_a_full_memory_keeps_the_newest(project: Project) -> None:
    kept = project.query.decoded
    kept.keep(5 * decoded._EACH + 5 * 200)
    before = read(project)
    assert read(project) == before
    newest = [decision.seq for decision in reversed(project.query.latest("route", 5))]
    assert sorted(kept._kept) == newest
    assert kept._bytes == sum(map(decoded._size, kept._kept.values())) <= kept._most


def test_without_being_told_to_nothing_is_kept(project: Project) -> None:
    read(project)
    assert project.query.decoded._kept == {}


def test_a_number_without_a_row_is_left_out(project: Project) -> None:
    kept = DecodedDecisions(project.database)
    kept.keep()
    ((row, decision),) = kept.beside([(1,), (999,)], 0)
    assert (row, decision) == ((1,), replace(project.query.by_seq(1)))
    assert isinstance(decision, Decision)
