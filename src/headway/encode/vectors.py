"""Vectors kept on the disk by content, for encoders that are slow or cost money: a text is encoded once per project.

    cache = DiskCache(folder / "vectors.db")
    cached = CachedEncoder(encoder, cache)

One SQLite file, shared by server, loop and terminal. What it holds can be made again, so nothing waits for the disk
and a file that cannot be read is begun anew; a vector with a flipped bit is not given out. It keeps no text, only
hashes and float32 numbers; an encoder whose numbers are float32 gets back the bits that it gave.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from zlib import crc32

import numpy as np

from headway.nouns.protocols import Floats

__all__ = ["DiskCache"]

_log = logging.getLogger("headway.encode")
_WAIT_S = 5.0
_TOGETHER = 500
_MOST_BYTES = 2_000_000_000


class DiskCache:
    """Vectors by key in one file; safe from threads and processes. Errors of the disk are logged, never raised."""

    def __init__(self, file: Path, *, most_bytes: int = _MOST_BYTES) -> None:
        self._file = file
        self._most = most_bytes
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None
        self._given_up = False

    def get(self, key: bytes) -> Floats | None:
        return self.get_many([key]).get(key)

    def put(self, key: bytes, vector: Floats) -> None:
        self.put_many({key: vector})

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        """Those that are there."""
        wanted, found = list(keys), dict[bytes, Floats]()
        with self._lock, self._told():
            database = self._open()
            for start in range(0, len(wanted) if database else 0, _TOGETHER):
                some = wanted[start : start + _TOGETHER]
                marks = ",".join("?" * len(some))
                assert database is not None
                rows = database.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", some)  # noqa: S608
                for key, raw in rows:
                    if int.from_bytes(raw[-4:], "little") == crc32(raw[:-4], crc32(key)):
                        found[key] = np.frombuffer(raw[:-4], dtype="<f4").astype(np.float64)
        return found

    def put_many(self, vectors: Mapping[bytes, Floats]) -> None:
        rows = []
        for key, vector in vectors.items():
            raw = np.asarray(vector, dtype="<f4").tobytes()
            rows.append((key, raw + crc32(raw, crc32(key)).to_bytes(4, "little")))
        with self._lock, self._told():
            database = self._open()
            if database is not None:
                with database:
                    database.executemany("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)", rows)

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if self._database is not None:
                self._database.close()
                self._database = None
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                _log.warning("vectors=%s damaged=%r begun anew", self._file, error)
                for each in ("", "-wal", "-shm"):
                    self._file.with_name(self._file.name + each).unlink(missing_ok=True)
            else:
                _log.warning("vectors=%s error=%r going on without", self._file, error)
                self._given_up = True

    def _open(self) -> sqlite3.Connection | None:
        if self._database is None and not self._given_up:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._file.exists():
                self._file.touch(mode=0o600)
            self._database = self._connect()
        return self._database

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=_WAIT_S, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=OFF")
            database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
            if self._file.stat().st_size > self._most:  # begun anew: what is still asked for comes back by itself
                with database:
                    database.execute("DELETE FROM vectors")
                database.execute("VACUUM")
        except BaseException:
            database.close()
            raise
        return database
