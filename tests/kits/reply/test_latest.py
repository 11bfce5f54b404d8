"""Comparisons and the latest rewards are found without reading a task's other decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headway
from headway.kits.reply.duels import comparisons, latest_even_pairs, latest_rewards
from headway.observe.sqlite import SQLite


def test_even_draws_between_two_are_found_by_an_index_that_other_decisions_are_not_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []
    with headway.open(tmp_path) as project:
        for number in range(30):
            pair = number % 3 == 0
            offered = ["new", "old"] if number % 2 else ["old", "new"]
            project.decide("route", f"text {number}", offered if pair else ["only", "these", f"three {number}"])
        project.record("route", "uneven", ["new", "old"], action="new", propensity=0.7)
        read = SQLite.query

        def query(self: SQLite, sql: str, values: Any = ()) -> Any:
            asked.append((sql, values))
            return read(self, sql, values)

        monkeypatch.setattr(SQLite, "query", query)
        found = latest_even_pairs(project.database, project.query, "route", 100)
        assert latest_even_pairs(project.database, project.query, "route", 4) == found[-4:]
        monkeypatch.undo()
        assert [project.query.by_seq(seq).situation.text for seq in found] == [f"text {n}" for n in range(0, 30, 3)]
        every = comparisons(project.database, project.query, "route")
        assert [project.query.by_seq(seq).situation.text for seq in every[len(found) :]] == ["uneven"]
        for sql, values in asked:
            if "FROM decisions" in sql:
                plan = str(project.database.query(f"EXPLAIN QUERY PLAN {sql}", values))
                assert "even_pairs" in plan, plan


def test_the_latest_rewards_are_those_that_still_count(tmp_path: Path) -> None:
    with headway.open(tmp_path) as project:
        ids = [project.decide("route", f"text {number}", ["a", "b"]).id for number in range(6)]
        for number in (3, 0, 5, 1):
            project.signal(ids[number], reward=1.0)
            project.settle("route")
        project.signal(ids[0], reward=0.5)  # replaces what was settled
        project.settle("route")
        latest = latest_rewards(project.database, project.query, "route", 3)
        assert [project.query.by_seq(seq).id for seq in latest] == [ids[5], ids[1], ids[0]]
