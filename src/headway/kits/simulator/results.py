"""The file of a run's results: one JSON object per line, after a first line that names the run.

    with ResultsFile(path, run_key) as results:           # of this run, or a new one
        results.done                                       # the ids that have a verdict
        results.append(rows)
        results.finish(order)                              # in the order of the problems; every result once

A line is whole or ignored: after `kill -9` the last one may be cut. Results with the status `error` say nothing about a
solution and are made again by the next run.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from headway.files import read_regular
from headway.nouns.errors import Conflict, InvalidInput


class ResultsFile:
    """Results on disk; only one process writes a file at a time."""

    def __init__(self, path: Path, key: dict[str, Any]) -> None:
        self.path, self._key = path, key
        self.rows: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        self._lock = self._locked()
        try:
            self._read()
            self._write()
            self._file = self.path.open("ab", buffering=0)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock_path().unlink(missing_ok=True)
        os.close(self._lock)

    @property
    def done(self) -> set[str]:
        return {name for name, row in self.rows.items() if row["status"] != "error"}

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add results; they survive a kill of this process."""
        fresh = {row["id"]: row for row in rows}
        self.rows |= fresh
        self._file.write(b"".join(map(_line, fresh.values())))

    def finish(self, order: Sequence[str]) -> list[dict[str, Any]]:
        """Write the file again in this order, as a whole; returns its rows."""
        self.rows = {name: self.rows[name] for name in order if name in self.rows}
        self._write()
        return list(self.rows.values())

    def _lock_path(self) -> Path:
        return self.path.with_name(f".{self.path.name}.lock")

    def _locked(self) -> int:
        try:
            lock = os.open(self._lock_path(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise InvalidInput(
                f"The results {str(self.path)!r} cannot be written: {error.strerror}.",
                code="results_not_written",
                hint="Name a file in a folder that exists and that you may write to, with --out.",
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise Conflict(
                f"Another run writes {str(self.path)!r}.",
                code="results_in_use",
                hint="Wait for it, or name another file.",
            ) from error
        return lock

    def _read(self) -> None:
        if not self.path.exists():
            return
        whole, _, _ = read_regular(self.path).rpartition(b"\n")
        try:
            first, *rest = [json.loads(line) for line in whole.splitlines()] or [{"run": self._key}]
            rows = {str(row["id"]): row for row in rest if row["status"]}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._foreign() from error
        if not isinstance(first, dict) or first.get("run") != self._key:
            raise self._foreign()
        self.rows = rows

    def _foreign(self) -> Conflict:
        return Conflict(
            f"{str(self.path)!r} is not a file of this run's results: the problems, the solver or the sandbox differ.",
            code="other_results",
            hint="Name another file with --out, or remove this one.",
        )

    def _write(self) -> None:
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        partial.write_bytes(b"".join(map(_line, [{"run": self._key}, *self.rows.values()])))
        partial.replace(self.path)


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
