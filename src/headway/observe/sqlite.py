"""The embedded store: one SQLite file in WAL mode.

Every write transaction, including its checkpoint, runs under an exclusive `flock` beside the file: with SQLite's own
busy timeout some writers starve, this lock is fair enough, and one lock over commit *and* checkpoint rules out the
WAL-reset race of SQLite before 3.51.3. Not covered: network file systems, whose locks are not reliable.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headway.nouns import errors
from headway.observe.damage import wrong_values
from headway.observe.database import Connection, Database, Durability, Row, StoreTable, Waiting, placeholders
from headway.observe.store_files import StoreFiles

_BUSY_S = 30  # how long SQLite waits for locks of other programs
_CACHE_KB, _BULK_KB = 8192, 65_536
_PATIENCE_S = 10.0  # how long a deletion waits for readers of the write-ahead log
_abandoned: list[object] = []  # connections copied by a fork: closing them in the child is undefined


class SQLite(Database):
    """One SQLite file in WAL mode: a reader per thread, one writer at a time over all processes."""

    engine = "sqlite"
    _types = MappingProxyType(
        {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "int": "INTEGER", "float": "REAL"}
    )

    def __init__(self, path: Path, durability: Durability) -> None:
        self.path = path
        self.name = str(path)
        self._synchronous = {"power": "FULL", "process": "NORMAL"}[durability]
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._readers = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._writing = threading.RLock()
        self._opening = threading.RLock()
        self._lock_file: int | None = None
        self._files = StoreFiles(self.path)

    def _check_fork(self) -> None:
        if os.getpid() != self._pid:
            _abandoned.extend([self._open, self._writer, self._readers, self._files])
            self._start()

    def _connect(self) -> sqlite3.Connection:
        with self._opening:
            if self._open:
                self._files.present()
                return self._connected()
            with self._locked(), translated(self.path):
                try:
                    alone = self._files.open()
                    connection = self._connected()
                    connection.execute("SELECT COUNT(*) FROM sqlite_master")  # opens the log and its index
                    self._files.opened(alone=alone)
                except BaseException:
                    self._close()
                    raise
            return connection

    def _connected(self) -> sqlite3.Connection:
        place = f"{self.path.absolute().as_uri()}?mode=rw"  # never creates the file
        with translated(self.path):
            connection = sqlite3.connect(
                place, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_S
            )
            try:
                _write_ahead(connection)
                connection.execute(f"PRAGMA synchronous={self._synchronous}")
                connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
                connection.execute("PRAGMA secure_delete=ON")
            except BaseException:
                connection.close()
                raise
        self._open.append(connection)
        return connection

    # -- reading

    def reader(self) -> sqlite3.Connection:
        """This thread's own read-only connection."""
        self._check_fork()
        connection: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only=ON")
            self._readers.connection = connection
        return connection

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        with translated(self.path):
            return self.reader().execute(sql, values).fetchall()

    def version(self) -> int:
        """Changes whenever another connection has committed (4 µs): cheap enough to poll."""
        if self._files.due or self._files.touched:
            self._verify()
        return int(self.query("PRAGMA data_version")[0][0])

    def _verify(self) -> None:
        """Raises `store_lost` if the files are not those that were opened; whoever writes just now looks himself."""
        self._check_fork()
        self._files.present()
        if self._files.touched:  # as the last look found it, this one or a transaction's: writers may never pause
            self._files.touched = False
            threading.Thread(target=self._examine, name="headway-examine", daemon=True).start()
        if not self._writing.acquire(blocking=False):
            return
        try:
            if self._lock_file is not None and not (self._writer and self._writer.in_transaction):
                with suppress(BlockingIOError):
                    fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    try:
                        self._files.check(look=True)
                    finally:
                        fcntl.flock(self._lock_file, fcntl.LOCK_UN)
        finally:
            self._writing.release()

    # -- writing

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        self._check_fork()
        with self._writing:
            try:
                self._writer = connection = self._writer or self._connect()
                assert not connection.in_transaction, "nested write transaction"
                lock = self._lock_file
                assert lock is not None, "connecting has opened it"
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    self._files.check()
                    connection.execute("BEGIN IMMEDIATE")
                    try:
                        yield connection
                        connection.execute("COMMIT")
                    except BaseException:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                        raise
                    finally:
                        self._files.record()
                finally:
                    fcntl.flock(lock, fcntl.LOCK_UN)
            except sqlite3.Error as error:
                raise translated(self.path).ours(error) from error

    @contextmanager
    def bulk(self) -> Iterator[None]:
        try:
            self._cache(_BULK_KB)
            yield
        finally:
            self._cache(_CACHE_KB)

    def _cache(self, size_kb: int) -> None:
        """Memory of this thread's connections: ids are random, so many rows touch every page of their index."""
        with self.transaction() as connection:
            connection.execute(f"PRAGMA cache_size=-{size_kb}")
        self.query(f"PRAGMA cache_size=-{size_kb}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._lock_file is None:
            self._lock_file = os.open(self.path.with_name("store.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    @contextmanager
    def lock(self, name: str, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
        file = self.path.parent / f"{name}.lock"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        with file.open("a") as handle:
            try:
                fcntl.flock(handle, how)
            except BlockingIOError:
                yield False
            else:
                yield True

    # -- SQL dialect

    def whole(self, expression: str) -> str:
        return f"CAST({expression} AS INTEGER)"

    # -- maintenance

    def _examine(self) -> None:
        """Something that is not SQLite has written into the file, or only touched it: is it a database still?"""
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                (problem,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError:  # it is gone, which others notice
            return
        except sqlite3.DatabaseError as error:
            problem = str(error)
        if problem != "ok":
            self._files.loses(f"was changed by another program ({problem:.120})")

    def check(self) -> list[str]:
        """Problems that SQLite's integrity check reports, and values that are not ours."""
        rows = self.query("PRAGMA integrity_check(20)")
        return [str(row[0]) for row in rows if row[0] != "ok"] or wrong_values(self)

    def server(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def size(self) -> int:
        return self.path.stat().st_size

    def purge(self, *, rewrite: bool = True, waiting: Waiting | None = None) -> list[str]:
        """Empty the write-ahead log, and rewrite the file without its free pages.

        Deleted content is overwritten with zeros (`secure_delete`), first in the log, and in the file once the log is
        emptied. A reader that holds the log is waited for, but not for longer than `_PATIENCE_S`; others may write
        meanwhile.
        """
        self._check_fork()
        with self._writing, translated(self.path):
            connection = self._writer or self._connect()
            self._writer = connection
            if rewrite:
                with self._locked():
                    self._files.check(look=True)
                    connection.execute("VACUUM")
                    self._files.record()
            until = time.monotonic() + _PATIENCE_S
            while not self._empty_log(connection):
                if waiting is not None:
                    waiting(f"{self.path.name} is being read by another process")
                    waiting = None
                if time.monotonic() > until:
                    break
                time.sleep(0.1)
            else:
                return []
        return [f"{self.path.name}-wal, which another process is reading: it is emptied when that process finishes"]

    def _empty_log(self, connection: sqlite3.Connection) -> bool:
        """Whether the write-ahead log could be emptied now: SQLite itself would wait 30 s for a reader, silently."""
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            with self._locked():
                self._files.check(look=True)
                emptied = bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)
                self._files.record()
                return emptied
        finally:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_S * 1000}")

    def _tables(self) -> dict[str, StoreTable]:
        tables: dict[str, StoreTable] = {}
        for name, sql in self.query(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
        ):
            columns = self.query(f"PRAGMA table_info({name})")  # (place, name, type, not null, default, place in key)
            key = sorted((row[5], row[1]) for row in columns if row[5])
            tables[name] = StoreTable(
                tuple(row[1] for row in columns), tuple(column for _, column in key), "AUTOINCREMENT" in sql
            )
        return tables

    def counter(self, connection: Connection, table: str) -> int:
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return int(row[0]) if row else 0

    def advance(self, connection: Connection, table: str, number: int) -> None:
        if connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number, table)).rowcount == 0:
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, number))

    def fill(self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        marks = placeholders(columns)
        connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._writing:
            if self._open:
                with self._locked():
                    self._close()
            self._writer = None
            self._readers = threading.local()
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    def _close(self) -> None:
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._files.close()


class translated:  # noqa: N801 — reads as a verb at the call, and a class costs 2 µs less than a generator
    """Turns the driver's exceptions into ours; exceptions of the caller pass through."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise self.ours(error) from error

    def ours(self, error: sqlite3.Error) -> errors.HeadwayError:
        message = str(error)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL or "disk is full" in message:
            return errors.Unavailable(
                f"The disk that holds {self._path} is full; this write was not stored.",
                code="disk_full",
                hint="Free some space and try again; earlier acknowledged writes are safe.",
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "Could not decode to UTF-8" in message:
            return errors.Damaged(
                f"{self._path} is not a readable store: {message}.",
                code="store_damaged",
                hint=f"Run `headway doctor`; restore a backup, or move {self._path}* away to start empty.",
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return errors.Unavailable(
                f"{self._path} is locked by another program: {message}.",
                code="store_locked",
                hint="Close programs that hold the file open (a database browser, a backup) and try again.",
            )
        return errors.Unavailable(
            f"{self._path} could not be used: {message}.",
            code="store_unavailable",
            hint="Check that the directory exists, is writable, has free space and is not on a network file system.",
        )


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode. SQLite itself does not wait here for another process that has just created the file."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(0.005)
