"""Decisions in the order in which they were made, and the moment up to which they may be judged."""

from __future__ import annotations

import numpy as np

from headway.kits.data.exporter import ExportFilter, export
from headway.observe.draws import Draws, draws_of
from headway.project import Project


def rows(final: list[bool], action: list[int] | None = None) -> Draws:
    n = len(final)
    number = np.arange(n, dtype=np.int64)
    actions = np.array(action if action is not None else [0] * n, dtype=np.int64)
    return Draws(number, number, actions, np.array(final, dtype=np.bool_))


def test_without_open_outcomes_every_row_is_mature() -> None:
    assert rows([True] * 30).mature() == 30
    assert rows([]).mature() == 0


def test_the_mark_is_before_the_first_open_decision() -> None:
    assert rows([True] * 20 + [False] + [True] * 20).mature() == 20
    assert rows([False] * 5).mature() == 0


def test_one_percent_of_an_action_may_be_open() -> None:
    assert rows([True] * 50 + [False] + [True] * 49).mature() == 100, "one of 100"
    assert rows([True] * 50 + [False] + [True] * 48).mature() == 50, "one of 99"


def test_every_action_is_counted_on_its_own() -> None:
    """A rare action with open outcomes holds the mark back, though it is far below 1% of all rows."""
    final = [True] * 1_000
    action = [0] * 1_000
    action[500], final[500] = 1, False
    assert rows(final, action).mature() == 500


def test_rows_are_read_in_the_order_of_the_decisions_with_open_ones_pending(tmp_path, environ) -> None:
    moment = [1_900_000_000.0]
    with Project(tmp_path, environ=environ, seed=1, clock=lambda: moment[0]) as project:
        ids = []
        for number in range(6):
            moment[0] += 1.0
            ids.append(project.decide("route", f"text {number}", ["a", "b"]).id)
        for number in (4, 1, 3):  # outcomes become known in another order
            project.signal(ids[number], reward=number / 10)
        project.settle("route")
        order = draws_of(project.query.frame("route"))
        assert len(order) == 6
        assert order.final.tolist() == [False, True, False, True, True, False]
        outcomes = list(project.query.outcomes(order.seq.tolist(), raters=True))
        assert [row.decision.id for row in outcomes] == ids
        assert [row.reward for row in outcomes] == [None, 0.1, None, 0.3, 0.4, None]
        assert [row.status for row in outcomes] == ["pending", *["rewarded", "pending"], *["rewarded"] * 2, "pending"]
        project.signal(ids[1], reward=0.9)
        project.settle("route")
        again = next(row for row in project.query.outcomes(order.seq.tolist()) if row.decision.id == ids[1])
        assert again.reward == 0.9
        assert again.first == outcomes[1].seq, "a correction does not change when the decision first settled"


def test_a_decision_that_is_imported_later_keeps_its_own_time(tmp_path, environ) -> None:
    with Project(tmp_path / "old", environ={}, seed=1, clock=lambda: 1_700_000_000.0) as old:
        pick = old.decide("route", "then", ["a", "b"])
        old.signal(pick.id, reward=1.0)
        old.settle("route")
        export(
            old.database, old.query, tmp_path / "old.jsonl", ExportFilter(),
            format="jsonl", writer=None, now=old.clock(), version="0",
        )  # fmt: skip
    with Project(tmp_path / "new", environ=environ, seed=1, clock=lambda: 1_900_000_000.0) as project:
        project.decide("route", "now", ["a", "b"])
        project.import_file(tmp_path / "old.jsonl")
        order = draws_of(project.query.frame("route"))
        assert [row.decision.situation.text for row in project.query.outcomes(order.seq.tolist())] == ["then", "now"]
