"""Behaviour that only a server has: commits out of order, lost connections, passwords, shared loops."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

import headway
from headway.loop.lock import alone
from headway.nouns.errors import Conflict, HeadwayError, InvalidSettings, Unavailable
from headway.nouns.records import Outcome, Signal
from headway.observe.engines import open_database
from headway.observe.insert import Interner
from headway.observe.settler import settle
from headway.observe.signals import put_signal
from tests.observe.conftest import lay, make
from tests.postgres import Server

pytestmark = pytest.mark.engines("postgresql", why="it is about the server")
SECRET = "pa55/w@rd:%41"


def judge(_seq, signals, _age):
    return Outcome(status="rewarded", reward=sum(signals.values()))


def settled(ground) -> int:
    return settle(ground.database, ground.query, "route", judge=judge, version="v", now=2e9, wait_s=None)


PUT = "INSERT INTO signals (subject, name_id, value, rater_id, at, key) VALUES (%s, %s, 1.0, %s, 1, 'k') RETURNING seq"


def test_without_the_lock_a_row_falls_below_the_mark_and_is_lost(ground, place):
    """The reason for the lock: two writes from plain connections, of which the first commits last."""
    first, second = ground.add(make(), make())
    ground.store.signal([Signal(subject=first.id, name="solved", value=1.0, at=1.0)])  # interns the names
    settled(ground)
    names = [ground.query.name_id("signal", "solved"), ground.query.name_id("rater", "")]
    with psycopg.connect(place) as slow, psycopg.connect(place) as quick:
        (low,) = slow.execute(PUT, (bytes.fromhex(second.id[4:]), *names)).fetchone()
        (high,) = quick.execute(PUT, (bytes.fromhex(first.id[4:]), *names)).fetchone()
        quick.commit()
        settled(ground)
        slow.commit()
    assert low < high
    settled(ground)
    assert ground.query.outcome(second).status == "pending", "its signal is stored, and is never read"


def test_with_the_lock_the_second_writer_waits_and_no_row_is_lost(ground, place):
    first, second = ground.add(make(), make())
    other = lay(place)
    order, inside, go_on = [], threading.Event(), threading.Event()

    def slowly(connection):
        put_signal(
            connection, Interner(connection, {}, {}),
            Signal(subject=second.id, name="solved", value=1.0, at=1.0), bytes.fromhex(second.id[4:]),
        )  # fmt: skip
        inside.set()
        assert go_on.wait(20)
        order.append("slow")

    slow = threading.Thread(target=other.writer.write, args=(slowly,))
    slow.start()
    assert inside.wait(20)

    def quickly():
        ground.store.signal([Signal(subject=first.id, name="solved", value=1.0, at=1.0)])
        order.append("quick")

    settler = lay(place)  # reads while the first write is open, and moves its marks as far as it saw
    others = [threading.Thread(target=quickly), threading.Thread(target=settled, args=(settler,))]
    waiting = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    until = time.monotonic() + 20
    for count, thread in enumerate(others, 1):
        thread.start()
        while ground.database.query(waiting)[0][0] < count:
            assert time.monotonic() < until, "a writer did not wait"
    go_on.set()
    for thread in (slow, *others):
        thread.join()
    assert order == ["slow", "quick"]
    settled(ground)
    assert [ground.query.outcome(decision).status for decision in (first, second)] == ["rewarded", "rewarded"]
    for store in (other, settler):
        store.writer.close()
        store.database.close()


def test_a_batch_after_a_rollback_has_numbers_without_gaps(ground):
    made = make()
    (stored,) = ground.add(made)
    with pytest.raises(Conflict):
        ground.add(make(), make(id=made.id, text="other"))
    batch = ground.add(make(), make(), make())
    assert [decision.seq for decision in batch] == list(range(batch[0].seq, batch[0].seq + 3))
    assert batch[0].seq > stored.seq
    assert [ground.query.decision(decision.id).seq for decision in batch] == [decision.seq for decision in batch]


def test_the_version_changes_with_every_commit_even_out_of_order(ground, place):
    with psycopg.connect(place) as slow, psycopg.connect(place) as quick:
        slow.execute("INSERT INTO names (kind, name) VALUES ('x', 'slow')")
        quick.execute("INSERT INTO names (kind, name) VALUES ('x', 'quick')")
        seen = [ground.database.version()]
        for writer in (quick, slow):
            writer.commit()
            seen.append(ground.database.version())
    assert len(set(seen)) == 3
    assert ground.database.version() == ground.database.version()


def test_a_restart_of_the_server_is_reported_and_loses_nothing(tmp_path):
    with Server.started() as server:
        ground = lay(server.store())
        first, second = ground.add(make(), make())
        for _ in range(20):
            ground.add(make())
        server.stop()  # a crash, right after the last acknowledgement: what was only in memory is gone
        for work in (lambda: ground.add(make()), lambda: ground.query.decision(first.id)):
            with pytest.raises(Unavailable) as error:
                work()
            assert error.value.code in ("store_unreachable", "store_unavailable")
            assert error.value.hint
        futures = [ground.store.submit_decisions([make()], {"c0": "{}"}) for _ in range(300)]
        assert all(isinstance(future.exception(30), Unavailable) for future in futures), (
            "every caller gets the error, and quickly"
        )
        server.start()
        until = time.monotonic() + 20
        while True:  # there is no new attempt to connect for a second after a failure
            try:
                (third,) = ground.add(make())
                break
            except Unavailable:
                assert time.monotonic() < until
        assert ground.query.decision(third.id) == third
        server.stop(mode="fast")
        server.start()
        ground.add(make())  # a connection that was idle during the restart is replaced silently
        assert ground.query.counts("route").decisions == 24
        assert [ground.query.decision(decision.id).id for decision in (first, second)] == [first.id, second.id]
        ground.writer.close()
        ground.database.close()


def test_a_transaction_that_loses_its_server_fails_and_stores_nothing(ground, place):
    made = make()

    def work(connection):
        connection.execute("INSERT INTO names (kind, name) VALUES ('x', 'y')")
        with psycopg.connect(place, autocommit=True) as owner:
            owner.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted ")
        connection.execute("SELECT 1")

    with pytest.raises(Unavailable) as error:
        ground.writer.write(work)
    assert error.value.code == "store_unavailable"
    assert "same id" in error.value.hint
    ground.add(made)
    assert ground.query.name_id("x", "y") == 0


@pytest.fixture
def guarded(postgres):
    """The URL of a store whose role needs its password."""
    url = postgres.store()
    schema = url.rpartition("%3D")[2]
    quoted = SECRET.replace("'", "''")
    postgres.execute(
        f"DO $$ BEGIN CREATE ROLE guarded LOGIN PASSWORD '{quoted}'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    postgres.execute(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO guarded")
    return url.replace("postgres@", "guarded:pa55%2Fw%40rd%3A%2541@")


def test_a_password_is_used_and_never_shown(guarded, tmp_path, caplog):
    with headway.open(tmp_path, environ={"HEADWAY_STORE_URL": guarded}) as project:
        pick = project.decide("route", "x", ["a", "b"])
        assert project.query.decision(pick.id) == pick
        shown = [repr(project.settings), repr(project.status()), project.database.name, caplog.text]
    errors = []
    for wrong in (guarded.replace("pa55", "pa66"), guarded.replace("/postgres?", "/nowhere?"), f"{guarded}&nonsense=1"):
        with pytest.raises(HeadwayError) as error:
            open_database(wrong)
        errors.append(error.value)
    assert [error.code for error in errors] == ["store_refused", "store_missing", "settings_bad_value"]
    for failure in errors:
        assert failure.hint
        shown += [str(failure), repr(failure), repr(failure.__cause__)]
        shown += [repr(failure.__context__) if failure.__cause__ else ""]
    for text in shown:
        assert not any(part in text for part in (SECRET, "pa55", "pa66", "w%40rd"))


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("postgresql://nobody.invalid:1/x?connect_timeout=2", "store_unreachable"),
        ("postgresql://127.0.0.1:9/x", "store_unreachable"),
        ("postgresql://[broken/x", "settings_bad_value"),
    ],
)
def test_an_unreachable_server_is_reported_with_a_hint(url, code):
    with pytest.raises((Unavailable, InvalidSettings)) as error:
        open_database(url)
    assert error.value.code == code
    assert error.value.hint


def test_a_role_without_rights_is_refused_with_the_grant(postgres, guarded):
    schema = guarded.rpartition("%3D")[2]
    open_database(guarded).close()
    postgres.execute(f"REVOKE CREATE ON SCHEMA {schema} FROM guarded")
    open_database(guarded).close()  # a complete store can be opened without the right to create
    postgres.execute(f"ALTER TABLE {schema}.keys OWNER TO postgres")
    database = open_database(guarded)
    with pytest.raises(Unavailable) as error:
        database.query("SELECT * FROM keys")
    assert error.value.code == "store_refused"
    assert "GRANT" in error.value.hint
    database.close()


def test_a_missing_driver_names_the_extra(monkeypatch):
    import sys

    for name in [module for module in sys.modules if module.startswith(("psycopg", "headway.kits.postgres."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(HeadwayError) as error:
        open_database("postgresql://127.0.0.1:9/x")
    assert error.value.code == "missing_extra"
    assert "headway[postgres]" in error.value.hint


def test_reads_cannot_write(ground):
    with pytest.raises(Unavailable):
        ground.database.query("INSERT INTO names (kind, name) VALUES ('x', 'y') RETURNING id")


def test_one_loop_learns_for_all_projects_that_share_the_store(place):
    here, there = open_database(place), open_database(place)
    with alone(here, "headway watch"):
        with pytest.raises(Conflict) as error, alone(there, "headway watch"):
            pass
        assert error.value.code == "already_running"
    with alone(there, "headway watch"):
        pass
    for project in (here, there):
        project.close()


def test_two_stores_in_one_database_do_not_wait_for_each_other(postgres):
    here, there = open_database(postgres.store()), open_database(postgres.store())
    with here.transaction(), there.transaction() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    for store in (here, there):
        store.close()


def test_the_check_reports_a_sequence_that_is_behind(ground):
    ground.add(make(), make())
    assert ground.database.check() == []
    with ground.database.transaction() as connection:
        ground.database.advance(connection, "decisions", 1)
    (problem,) = ground.database.check()
    assert "decisions" in problem
    assert "2" in problem
