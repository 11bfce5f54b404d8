"""Deleted rows on the disk, and deletions that are killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headway.observe.erase import DeletionFilter
from tests.project.deletions import fill, table


@pytest.mark.parametrize("rewrite", [True, False])
def test_deleted_text_is_not_on_the_disk_any_more(tmp_path: Path, environ: dict[str, str], rewrite: bool) -> None:
    import headway

    with headway.open(tmp_path, environ=environ, seed=3) as project:
        for n in range(200):
            text = f"private-words-{n} " + "x" * (5000 if n % 10 == 0 else 50)
            pick = project.decide("route", text, [f"candidate-of-{n}", "other"], episode=f"episode-of-{n}")
            project.signal(pick.id, reward=1.0, rater=f"person-{n}", label=f"label-of-{n}")
        project.settle("route")
        done = project.erase(DeletionFilter(before=project.clock() + 1.0), rewrite=rewrite)
        assert done.decisions == 200
        if not project.settings.store.embedded:
            assert "write-ahead log" in done.remains[0]  # the server's log is reported
            return
        assert done.remains == ()
        for file in (path for path in (tmp_path / ".headway").rglob("*") if path.is_file()):
            content = file.read_bytes()
            for mark in (b"private-words", b"candidate-of", b"episode-of", b"person-", b"label-of"):
                assert mark not in content, (file, mark)


_KILLED = """
import sys, time
import headway
from headway.observe import erase
from headway.observe.erase import DeletionFilter
project = headway.open(sys.argv[1])
inner = erase.erase
def traced(connection, wanted, matched):
    class Slow:
        def __getattr__(self, name):
            return getattr(connection, name)
        def execute(self, *args):
            print("step", flush=True)
            return connection.execute(*args)
    return inner(Slow(), wanted, matched)
erase.erase = traced
project.erase(DeletionFilter(rater="bob"))
print("done", flush=True)
project.erase(DeletionFilter(before=time.time() + 10))
print("done", flush=True)
"""


@pytest.mark.parametrize("steps", [2, 9, 16, 27])
def test_a_killed_deletion_is_complete_or_absent(tmp_path: Path, environ: dict[str, str], steps: int) -> None:
    import headway

    with headway.open(tmp_path, environ=environ) as project:
        ids = fill(project)
        before = table(project)
    child = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, env={**os.environ, **environ}
    )
    assert child.stdout is not None
    finished = 0
    for _ in range(steps):
        finished += child.stdout.readline() == "done\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    with headway.open(tmp_path, environ=environ) as project:
        after = table(project)
        bob = project.database.query(
            "SELECT COUNT(*) FROM signals g JOIN names r ON r.id = g.rater_id WHERE r.name = 'bob'"
        )[0][0]
        signals = project.database.query("SELECT COUNT(*) FROM signals")[0][0]
        without_bob = {identifier: ("rewarded", min(1.0, place / 10), 1.0) for place, identifier in enumerate(ids)}
        assert (after, bob, signals) in ((before, 10, 30), (without_bob, 0, 20), ({}, 0, 0))
        assert finished == 0 or bob == 0
        assert project.database.check() == []


@pytest.mark.engines("sqlite", why="a reader of PostgreSQL holds no deletion up")
def test_a_deletion_says_that_it_waits_for_a_reader_and_for_a_learner(tmp_path: Path, environ: dict[str, str]) -> None:
    import headway

    with headway.open(tmp_path, environ=environ) as project, ExitStack() as others:
        fill(project)
        reader = others.enter_context(closing(sqlite3.connect(tmp_path / ".headway" / "headway.db")))
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM decisions").fetchone()
        others.enter_context(project.database.lock("project"))
        told: list[str] = []

        def waiting(why: str) -> None:
            told.append(why)
            others.close()  # both finish

        others.callback(reader.rollback)
        done = project.erase(DeletionFilter(rater="bob"), waiting=waiting)
        assert (told, done.remains) == (["another process is learning or settling"], ())
        reader = others.enter_context(closing(sqlite3.connect(tmp_path / ".headway" / "headway.db")))
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM decisions").fetchone()
        done = project.erase(DeletionFilter(rater="ann"), waiting=waiting)
        assert (told[1:], done.remains) == (["headway.db is being read by another process"], ())


@pytest.mark.engines("sqlite", why="a reader of PostgreSQL holds no deletion up")
def test_others_write_while_a_deletion_waits_for_a_reader_that_never_ends(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import headway

    monkeypatch.setattr("headway.observe.sqlite._PATIENCE_S", 0.2)
    with headway.open(tmp_path, environ=environ) as project, headway.open(tmp_path, environ=environ) as other:
        fill(project)
        with closing(sqlite3.connect(tmp_path / ".headway" / "headway.db")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM decisions").fetchone()
            written: list[str] = []
            done = project.erase(
                DeletionFilter(rater="bob"), waiting=lambda _: written.append(other.decide("route", "b", ["a", "b"]).id)
            )
            assert [project.query.decision(identifier).id for identifier in written] == written
            assert "headway.db-wal, which another process is reading" in done.remains[0]
