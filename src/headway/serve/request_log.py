"""One JSON line per request: time, route, status, duration, and the name of the key.

The route is the template (`/v1/decisions/{decision}`), so neither ids, texts, query strings nor keys can get in. Lines
are collected and written a few times a second; at 16 MB the file is rotated to `requests.log.1`. Several workers write
to the same file in turn: each holds a lock on it from checking its name to the last byte.
"""

from __future__ import annotations

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headway.files import open_regular

_LARGEST = 16_000_000
_MOST_WAITING = 50_000
_encoder = msgspec.json.Encoder()


class _Line(msgspec.Struct, omit_defaults=True):
    at: datetime
    method: str
    route: str
    status: int
    ms: float
    bytes: int
    key: str = ""
    code: str = ""
    worker: int | None = None


class RequestLog:
    """Appends to a file; `path` None: logs nothing."""

    def __init__(self, path: Path | None, worker: int | None = None) -> None:
        self.path = path
        self._worker = worker  # of several
        self._lines: list[tuple[float, str, str, int, float, int, str, str]] = []

    def add(
        self, at: float, method: str, route: str, status: int, seconds: float, size: int, key: str, code: str
    ) -> None:
        if self.path is not None and len(self._lines) < _MOST_WAITING:
            self._lines.append((at, method, route, status, seconds, size, key, code))

    def flush(self) -> None:
        """Write the collected lines; may block, so the server calls it in a thread."""
        lines, self._lines = self._lines, []
        if not lines or self.path is None:
            return
        own = self._worker
        text = _encoder.encode_lines(
            [
                _Line(datetime.fromtimestamp(at, UTC), method, route, status, round(s * 1e3, 3), size, key, code, own)
                for at, method, route, status, s, size, key, code in lines
            ]
        )
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not _append(self.path, text):
            pass


def _append(path: Path, text: bytes) -> bool:
    """Appends the lines and rotates a full file. False: another worker has just rotated it; nothing was written."""
    handle = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with os.fdopen(handle, "ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        opened = os.fstat(file.fileno())
        try:
            named = path.stat()
        except FileNotFoundError:
            return False
        if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
            return False
        rest = memoryview(text)
        while rest:
            rest = rest[file.write(rest) :]
        if opened.st_size + len(text) > _LARGEST:
            path.replace(path.with_suffix(".log.1"))
    return True
