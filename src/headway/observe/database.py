"""Connections, transactions and the dialect. The only file that knows which database this is.

Every write transaction, checkpoint included, runs under an exclusive `flock` beside the file: SQLite's own busy timeout
starves some of several writers, the lock is fair enough to share the disk, and one lock over commit *and* checkpoint
rules out the WAL-reset race of SQLite before 3.51.3. Not covered: network file systems, whose locks lie.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from headway.nouns.errors import Damaged, HeadwayError, Unavailable
from headway.observe.migrations import MIGRATIONS

__all__ = ["Connection", "Database", "Durability", "open_database"]

Durability = Literal["power", "process"]
Connection = sqlite3.Connection
Row = tuple[Any, ...]

_TYPES = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "int": "INTEGER", "float": "REAL"}
_abandoned: list[object] = []  # connections that a fork copied: closing one in the child would be undefined


def open_database(path: Path, durability: Durability = "power") -> Database:
    """The database at `path`, created and migrated as needed."""
    database = Database(path, durability)
    database.migrate()
    return database


class Database:
    """One SQLite file in WAL mode: a reader per thread, one writer at a time over all processes."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self.path = path
        self._synchronous = {"power": "FULL", "process": "NORMAL"}[durability]
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._readers = threading.local()
        self._open: list[Connection] = []
        self._writer: Connection | None = None
        self._writing = threading.RLock()
        self._lock_file: int | None = None

    def _check_fork(self) -> None:
        if os.getpid() != self._pid:
            _abandoned.extend([self._open, self._writer, self._readers])
            self._start()

    def _connect(self) -> Connection:
        with translated(self.path):
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30.0)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute(f"PRAGMA synchronous={self._synchronous}")
                connection.execute("PRAGMA cache_size=-8192")
                connection.execute("PRAGMA secure_delete=ON")
            except BaseException:
                connection.close()
                raise
        self._open.append(connection)
        return connection

    # -- reading

    def reader(self) -> Connection:
        """This thread's own read-only connection."""
        self._check_fork()
        connection: Connection | None = getattr(self._readers, "connection", None)
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only=ON")
            self._readers.connection = connection
        return connection

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows at once; for small answers."""
        with translated(self.path):
            return self.reader().execute(sql, values).fetchall()

    def pages(self, sql: str, values: Sequence[Any], *, after: int, size: int = 5000) -> Iterator[list[Row]]:
        """Keyset pages: `sql` ends in `… > ? ORDER BY … LIMIT ?` and its first column is the key.

        Each page is a read of its own, so that a slow consumer never pins the write-ahead log.
        """
        while rows := self.query(sql, (*values, after, size)):
            yield rows
            if len(rows) < size:
                return
            after = rows[-1][0]

    def version(self) -> int:
        """Changes whenever another connection has committed (4 µs): cheap enough to poll."""
        return int(self.query("PRAGMA data_version")[0][0])

    # -- writing

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All or nothing, durable on return. Re-entrant use is a bug of ours and fails."""
        self._check_fork()
        with self._writing, translated(self.path):
            connection = self._writer or self._connect()
            self._writer = connection
            assert not connection.in_transaction, "nested write transaction"
            with self._locked():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._lock_file is None:
            self._lock_file = os.open(self.path.with_name("store.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def migrate(self) -> None:
        """Apply the steps that this file has not seen; refuse a file from the future."""
        with self.transaction() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, at INTEGER NOT NULL)")
            done = {name for (name,) in connection.execute("SELECT name FROM migrations")}
            newer = done - {name for name, _ in MIGRATIONS}
            if newer:
                raise Damaged(
                    f"{self.path} was written by a newer Headway (migration {min(newer)!r}).",
                    code="store_too_new",
                    hint="Upgrade headway, or open another directory.",
                )
            for name, script in MIGRATIONS:
                if name not in done:
                    for statement in script.format(**_TYPES).split(";"):
                        if statement.strip():
                            connection.execute(statement)
                    connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, int(time.time() * 1e6)))

    def check(self) -> list[str]:
        """What SQLite's own quick check finds; empty when all is well."""
        rows = self.query("PRAGMA quick_check(20)")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._writing:
            for connection in self._open:
                connection.close()
            self._open.clear()
            self._writer = None
            self._readers = threading.local()
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None


class translated:  # noqa: N801 — reads as a verb at the call, and a class costs 2 µs less than a generator
    """Turns the driver's exceptions into ours; what the caller raised passes through."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise self._ours(error) from error

    def _ours(self, error: sqlite3.Error) -> HeadwayError:
        message = str(error)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL or "disk is full" in message:
            return Unavailable(
                f"The disk that holds {self._path} is full; nothing of this write was stored.",
                code="disk_full",
                hint="Free some space and try again; what was acknowledged before is safe.",
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return Damaged(
                f"{self._path} is not a readable store: {message}.",
                code="store_damaged",
                hint="Run `headway doctor`; restore the file from a backup or move it away to start afresh.",
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Unavailable(
                f"{self._path} is locked by another program: {message}.",
                code="store_locked",
                hint="Close programs that hold the file open (a database browser, a backup) and try again.",
            )
        return Unavailable(
            f"{self._path} could not be used: {message}.",
            code="store_unavailable",
            hint="Check that the directory exists, is writable and is not on a network file system.",
        )
