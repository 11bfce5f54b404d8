"""Cache vectors on disk, for encoders that are slow or cost money: a text is encoded once per project.

    cache = DiskCache(folder / "vectors.db")
    cached = CachedEncoder(encoder, cache)

One SQLite file, shared by server, loop and terminal. Its content can be computed again, so writes do not wait
for the disk, and an unreadable file is replaced; a vector with a wrong checksum is ignored. It stores no text, only
hashes and float32 numbers; vectors of a float32 encoder are restored bit for bit.
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

from headway.nouns import Floats

_log = logging.getLogger("headway.encode")
_WAIT_S = 5.0
_TOGETHER = 500
_MOST_BYTES = 2_000_000_000


class DiskCache:
    """Vectors by key in one file; safe for threads and processes. Disk errors are logged, not raised."""

    def __init__(self, file: Path, *, most_bytes: int = _MOST_BYTES) -> None:
        self._file = file
        self._most = most_bytes
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None
        self._disabled = False

    def get(self, key: bytes) -> Floats | None:
        return self.get_many([key]).get(key)

    def put(self, key: bytes, vector: Floats) -> None:
        self.put_many({key: vector})

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        """The stored vectors among these keys."""
        requested, vectors = list(keys), dict[bytes, Floats]()
        with self._lock, self._logging_errors():
            database = self._open()
            for start in range(0, len(requested) if database else 0, _TOGETHER):
                chunk = requested[start : start + _TOGETHER]
                marks = ",".join("?" * len(chunk))
                assert database is not None
                rows = database.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", chunk)  # noqa: S608
                for key, raw in rows:
                    if int.from_bytes(raw[-4:], "little") == crc32(raw[:-4], crc32(key)):
                        vectors[key] = np.frombuffer(raw[:-4], dtype="<f4").astype(np.float64)
        return vectors

    def put_many(self, vectors: Mapping[bytes, Floats]) -> None:
        rows = []
        for key, vector in vectors.items():
            raw = np.asarray(vector, dtype="<f4").tobytes()
            rows.append((key, raw + crc32(raw, crc32(key)).to_bytes(4, "little")))
        with self._lock, self._logging_errors():
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
    def _logging_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if self._database is not None:
                self._database.close()
                self._database = None
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                _log.warning("vectors=%s damaged=%r replaced with an empty file", self._file, error)
                for suffix in ("", "-wal", "-shm"):
                    self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
            else:
                _log.warning("vectors=%s error=%r continuing without the cache", self._file, error)
                self._disabled = True

    def _open(self) -> sqlite3.Connection | None:
        if self._database is None and not self._disabled:
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
            if self._file.stat().st_size > self._most:  # start empty: vectors in use are computed again
                with database:
                    database.execute("DELETE FROM vectors")
                database.execute("VACUUM")
        except BaseException:
            database.close()
            raise
        return database
