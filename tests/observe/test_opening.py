"""Several programs may open a store that does not exist yet."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from headway.observe import sqlite
from headway.observe.engines import open_database


class BusyTwice:
    """A connection that finds another one switching to WAL mode, twice."""

    def __init__(self, code: int = sqlite3.SQLITE_BUSY) -> None:
        self.code = code
        self.asked: list[str] = []

    def execute(self, sql: str) -> None:
        self.asked.append(sql)
        if len(self.asked) <= 2:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error


def test_the_switch_to_wal_mode_waits_for_another_program_that_does_it():
    connection: Any = BusyTwice()
    sqlite._write_ahead(connection)
    assert connection.asked == ["PRAGMA journal_mode=WAL"] * 3


def test_another_failure_of_the_switch_is_raised_at_once():
    connection: Any = BusyTwice(sqlite3.SQLITE_READONLY)
    with pytest.raises(sqlite3.OperationalError):
        sqlite._write_ahead(connection)
    assert len(connection.asked) == 1


def _opens(path: Path, start: Any) -> None:
    start.wait()
    open_database(path).close()


@pytest.mark.slow
def test_processes_that_create_a_store_at_once_all_open_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    for number in range(25):
        start = context.Barrier(4)
        openers = [context.Process(target=_opens, args=(tmp_path / f"{number}.db", start)) for _ in range(4)]
        for opener in openers:
            opener.start()
        for opener in openers:
            opener.join()
        assert [opener.exitcode for opener in openers] == [0] * 4
