"""One holder at a time: a file that is locked while its holder lives, and says who that is.

    with held(home / "run" / "watch.lock", "headway watch", {"url": "…"}) as note: ...

The kernel lets go of the lock when the holder ends, however it ends; what is written in the file is for people.
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

from headway.nouns.errors import Conflict
from headway.observe.database import Database

__all__ = ["alone", "held", "holder"]


@contextmanager
def held(path: Path, what: str) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Holds the lock, or raises `already_running` with who holds it; gives a function that adds to what it says."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(path, what) from None
        said: dict[str, Any] = {"pid": os.getpid(), "since": time.time(), "what": what}

        def note(more: Mapping[str, Any]) -> None:
            said.update(more)
            body = json.dumps(said).encode()
            os.pwrite(handle, body, 0)
            os.ftruncate(handle, len(body))

        note({})
        yield note
    finally:
        os.close(handle)


@contextmanager
def alone(database: Database, what: str) -> Iterator[None]:
    """Holds the lock that all machines share which share the store; on the embedded one the file above is enough."""
    with database.lock("loop", wait=False) as mine:
        if not mine:
            raise Conflict(
                f"`{what}` is running already for {database.name}, from another folder or machine.",
                code="already_running",
                hint="One loop learns for all who share a store. Stop the other one, or use another store.",
            )
        yield


def holder(path: Path) -> dict[str, Any] | None:
    """What the living holder says about itself; None: nobody holds the lock."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _said(path)
        return None
    finally:
        os.close(handle)


def _said(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):  # being written just now
        return {}
    return found if isinstance(found, dict) else {}


def _taken(path: Path, what: str) -> Conflict:
    said = _said(path)
    since = ""
    if isinstance(said.get("since"), float):
        moment = datetime.fromtimestamp(said["since"], UTC).astimezone()
        since = f" since {moment:%Y-%m-%d %H:%M:%S}"
    where = f" at {said['url']}" if said.get("url") else ""
    who = f"process {said['pid']}" if said.get("pid") else "another process"
    return Conflict(
        f"`{said.get('what') or what}` is running already for this project: {who}{since}{where}.",
        code="already_running",
        hint=f"Stop it first (kill {said.get('pid', 'PID')}), or use another folder with -C.",
    )
