"""One holder at a time: a file that is locked while its holder lives, and names it.

    with held(home / "run" / "watch.lock", "headway watch", {"url": "…"}) as note: ...

The kernel releases the lock when the holder ends for any reason; the text in the file is for people.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headway.files import read_regular
from headway.nouns import errors
from headway.observe import Database

_TRIES, _PAUSE_S = 5, 0.02


@contextmanager
def held(path: Path, what: str) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Hold the lock, or raise `already_running` with its holder; gives a function that adds to the holder's note."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(handle):
            raise _taken(path, what)
        text: dict[str, Any] = {"pid": os.getpid(), "since": time.time(), "what": what}

        def note(more: Mapping[str, Any]) -> None:
            text.update(more)
            body = json.dumps(text).encode()
            os.pwrite(handle, body, 0)
            os.ftruncate(handle, len(body))

        note({})
        yield note
    finally:
        os.close(handle)


@contextmanager
def alone(database: Database, what: str) -> Iterator[None]:
    """Hold the lock of the store, for all machines that share it; for the embedded store the file above is enough."""
    with database.lock("loop", wait=False) as mine:
        if not mine:
            raise errors.Conflict(
                f"`{what}` is running already for {database.name}, from another folder or machine.",
                code="already_running",
                hint="One loop learns for all users of a store. Stop the other one, or use another store.",
            )
        yield


def holder(path: Path) -> dict[str, Any] | None:
    """The note of the living holder; None: the lock is free."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _note(path)
        return None
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether we got the lock. `holder` takes it for an instant to look, so one refusal is not enough."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _note(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_regular(path))
    except (OSError, ValueError):  # not completely written yet
        return {}
    return document if isinstance(document, dict) else {}


def _taken(path: Path, what: str) -> errors.Conflict:
    note = _note(path)
    since = ""
    if isinstance(note.get("since"), float):
        moment = datetime.fromtimestamp(note["since"], UTC).astimezone()
        since = f" since {moment:%Y-%m-%d %H:%M:%S}"
    where = f" at {note['url']}" if note.get("url") else ""
    who = f"process {note['pid']}" if note.get("pid") else "another process"
    return errors.Conflict(
        f"`{note.get('what') or what}` is running already for this project: {who}{since}{where}.",
        code="already_running",
        hint=f"Stop it first (kill {note.get('pid', 'PID')}), or use another folder with -C.",
    )
