"""Copy a store to another engine and back: row by row, including the row numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits.data.copy_store import copy
from headway.nouns.errors import Conflict, InvalidInput
from headway.nouns.records import Outcome, Signal
from headway.observe.database import Database
from headway.observe.engines import open_database
from headway.observe.jobs import Jobs
from headway.observe.keys import Keys
from headway.observe.query import Query
from headway.observe.settler import settle
from headway.promote.ledger import Entry, Ledger
from tests.observe.conftest import Ground, lay, make


def fill(ground: Ground, n: int = 60) -> None:
    """Rows in every table, with difficult cases: replaced signals, gaps, escapes, extreme numbers."""
    made = [make(text=f"naïve ✓ \t\n\\ {number}", state={"x": 1e-300 * number}) for number in range(n)]
    ground.add(*made)
    ground.add(make(episode="e", role="coder", seed=2**64 - 1), make(episode="e", text="", assigned="bandit@4f2a"))
    ground.store.end_episode("route", "e", "truncated", 9.5)
    for number, decision in enumerate(made):
        ground.store.signal([Signal(subject=decision.id, name="solved", value=number / 7, at=1.0, label="\\N")])
        if number % 3 == 0:
            ground.store.signal([Signal(subject=decision.id, name="solved", value=-0.0, at=2.0, rater="bob")])
            ground.store.signal([Signal(subject=decision.id, name="solved", value=0.1 + number, at=2.0)])

    def judge(_seq, signals, _age):
        return Outcome(status="rewarded", reward=sum(signals.values()))

    settle(ground.database, ground.query, "route", judge=judge, version="v1", now=2e9, wait_s=1.0)
    Keys(ground.database).add("agent", ["decide"], now=5.0)
    Jobs(ground.database).add("learn", {"task": "route"}, now=5.0)
    ledger = Ledger(ground.database, Query(ground.database))
    ledger.append(Entry(task="route", kind="promote", policy="bandit@aaaa", policy_hash="aaaa", at=1.0))
    ledger.keep_evidence("ev_1", "route", "aaaa", {"difference": 0.25}, 3.0)
    with ground.database.transaction() as connection:  # the last numbers were used and their rows deleted
        connection.execute("DELETE FROM jobs")
        connection.execute("DELETE FROM decisions WHERE seq = (SELECT MAX(seq) FROM decisions)")


def everything(database: Database) -> dict[str, list[tuple[object, ...]]]:
    tables = {
        name: database.query(f"SELECT {', '.join(table.columns)} FROM {name} ORDER BY {', '.join(table.key)}")
        for name, table in database.tables().items()
        if name != "blocks"  # a cache that says how often it was dropped
    }
    with database.transaction() as connection:
        numbered = [name for name, table in database.tables().items() if table.numbered]
        tables["counters"] = [(name, database.counter(connection, name)) for name in numbered]
    return tables


@pytest.fixture
def shared(postgres) -> Database:
    store = open_database(postgres.store())
    yield store
    store.close()


@pytest.fixture
def back(tmp_path: Path) -> Database:
    store = open_database(tmp_path / "back.db")
    yield store
    store.close()


@pytest.fixture
def embedded(tmp_path: Path) -> Ground:
    laid = lay(tmp_path / "headway.db")
    yield laid
    laid.writer.close()
    laid.database.close()


@pytest.mark.kits("postgres")
def test_a_copy_to_postgresql_and_back_keeps_every_row_and_counter(embedded, shared, back):
    fill(embedded)
    before = everything(embedded.database)
    filled = ("candidate_sets", "configs", "decisions", "episodes", "evidence", "keys", "ledger", "marks", "names")
    assert all(before[name] for name in (*filled, "policies", "settled", "signals"))
    copied = copy(embedded.database, shared, size=7)
    assert copied.rows["decisions"] == 61
    assert everything(shared) == before
    copy(shared, back, size=11)
    assert everything(back) == before


@pytest.mark.kits("postgres")
def test_writes_after_a_copy_continue_the_numbering(embedded, shared):
    fill(embedded)
    copy(embedded.database, shared)
    with embedded.database.transaction() as here, shared.transaction() as there:
        for table in ("decisions", "jobs", "signals"):
            assert embedded.database.counter(here, table) == shared.counter(there, table) > 0
    assert Jobs(shared).add("learn", {}, now=1.0).job == 2, "number 1 was used before the copy"


@pytest.mark.kits("postgres")
def test_an_interrupted_copy_resumes_and_a_second_copy_writes_only_changes(embedded, shared):
    fill(embedded)

    class Stopped(Exception):
        pass

    def stop(what: str, done: int, total: int | None) -> None:
        if done > 60:
            raise Stopped

    with pytest.raises(Stopped):
        copy(embedded.database, shared, size=10, progress=stop)
    ours = ("counters", "migrations", "marks")  # a new store has some of these already
    there = sum(len(rows) for name, rows in everything(shared).items() if name not in ours)
    whole = copy(embedded.database, shared, size=10)
    total = sum(whole.rows.values()) - whole.rows["migrations"]
    assert 0 < there < total
    assert total - there - whole.rows["marks"] <= whole.written <= total - there + whole.rows["migrations"]
    assert copy(embedded.database, shared, size=10).written == 0
    (made,) = embedded.add(make())
    embedded.store.signal([Signal(subject=made.id, name="solved", value=1.0, at=1.0)])
    old = embedded.query.decision(made.id)
    first = embedded.database.query("SELECT id FROM decisions ORDER BY seq LIMIT 1")[0][0].hex()
    embedded.store.signal([Signal(subject=f"dec_{first}", name="solved", value=-5.0, at=9.0)])
    assert copy(embedded.database, shared, size=10).written == 4, "one decision, two signals, one that was replaced"
    assert Query(shared).decision(made.id) == old
    assert everything(shared) == everything(embedded.database)


@pytest.mark.kits("postgres")
def test_a_target_with_other_data_is_refused_and_not_changed(embedded, shared, tmp_path):
    fill(embedded, 3)
    copy(embedded.database, shared)
    other = lay(tmp_path / "other.db")
    other.add(make("elsewhere"), make("elsewhere"))
    before = everything(shared)
    with pytest.raises(Conflict) as error:
        copy(other.database, shared)
    assert error.value.code == "copy_not_empty"
    assert everything(shared) == before
    with pytest.raises(Conflict) as error:
        copy(other.database, other.database)
    assert error.value.code == "copy_onto_itself"
    other.writer.close()
    other.database.close()


@pytest.mark.kits("postgres")
def test_writes_during_a_copy_are_detected(embedded, shared):
    fill(embedded, 30)
    written = []

    def report(what: str, done: int, total: int | None) -> None:
        if what == "verify" and not written:
            written.append(embedded.add(make()))

    with pytest.raises(Conflict) as error:
        copy(embedded.database, shared, progress=report)
    assert error.value.code == "copy_differs"
    copy(embedded.database, shared)
    assert everything(shared) == everything(embedded.database)


@pytest.mark.kits("postgres")
def test_a_text_that_postgresql_cannot_store_is_reported(embedded, shared):
    embedded.add(make())
    with embedded.database.transaction() as connection:
        connection.execute("UPDATE decisions SET text = ?", ("nul: \0",))
    with pytest.raises(InvalidInput) as error:
        copy(embedded.database, shared)
    assert error.value.code == "not_storable"
    assert "text of decisions 1" in error.value.message
