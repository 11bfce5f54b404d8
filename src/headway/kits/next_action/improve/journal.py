"""What happened in a run, in a file that is only appended to: a run that was killed continues from it.

    journal = Journal(folder / "journal.jsonl")
    journal.add("pair", round=3, candidate=0.41, base=0.44)      # durable when this returns
    journal.events                                               # everything, in order

One JSON object per line. A last line that was cut off when the program was killed is removed. `repair=False` only
reads: another process may be writing that line.

Journals and results of runs that chose a deleted decision: `headway data delete` removes them.

They repeat the words of proposals. A run that was interrupted is over then. While one runs, the deletion is refused
until it has ended: `improve_running`. Not covered: the repository and its branches.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from headway.files import read_regular
from headway.kits.next_action.improve.evaluation import writing
from headway.nouns import errors
from headway.observe import Erasing
from headway.project import Project

Event = dict[str, Any]
_DECISION = re.compile(rb"dec_[0-9a-f]{32}")  # also in a damaged journal


class Journal:
    """The events of one run."""

    def __init__(self, path: Path, *, repair: bool = True) -> None:
        self.path = path
        self.events: list[Event] = _read(path, repair=repair)

    def add(self, event: str, **fields: Any) -> Event:
        """Append an event; it is on the disk when this returns."""
        row: Event = {"event": event, **fields}
        line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"
        with writing():
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(handle).st_size
                if os.write(handle, line) != len(line):
                    os.ftruncate(handle, size)
                    raise OSError(28, "No space left on device")
                os.fsync(handle)
            finally:
                os.close(handle)
        self.events.append(row)
        return row

    def of(self, event: str) -> list[Event]:
        return [row for row in self.events if row["event"] == event]

    def last(self, event: str) -> Event | None:
        return next((row for row in reversed(self.events) if row["event"] == event), None)


def _read(path: Path, *, repair: bool) -> list[Event]:
    try:
        body = read_regular(path)
    except FileNotFoundError:
        return []
    whole = body[: body.rfind(b"\n") + 1]
    if repair and len(whole) != len(body):
        os.truncate(path, len(whole))
    events = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            row["event"]
        except (ValueError, KeyError, TypeError):
            raise damaged_line(path, number) from None
        events.append(row)
    return events


def damaged_line(path: Path, number: int) -> errors.Damaged:
    """The error for a line that is not an event, or not one of a run."""
    return errors.Damaged(
        f"Line {number} of {str(path)!r} is not an event.",
        code="journal_damaged",
        hint="Start a new run with --restart; the results so far are in results.tsv.",
    )


def set_aside(path: Path) -> None:
    """Rename a damaged journal to journal.damaged; in its place is one that has ended."""
    with writing():
        path.replace(path.with_suffix(".damaged"))
    Journal(path).add("end", why="its journal was damaged")


@contextmanager
def one_at_a_time(folder: Path, name: str) -> Iterator[None]:
    """The lock of an improver; it ends with the process, however that ends."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise errors.Conflict(
                f"The improver {name!r} is running already.", code="improve_running", hint="Wait until it has ended."
            ) from None
        yield


def erase(project: Project, going: Erasing) -> int:
    """Remove the files; how many runs they were of."""
    count = 0
    with ExitStack() as locks:
        for home in sorted({path.parent.parent for path in (project.home / "improve").glob("*/*/journal.*")}):
            reached = []
            for run in sorted({path.parent for path in home.glob("*/journal.*")}):
                journals = b"".join(map(read_regular, run.glob("journal.*")))
                if going.of_ids(sorted({name.decode() for name in _DECISION.findall(journals)})):
                    reached.append(run)
            count += len(reached)
            if going.dry_run or not reached:
                continue
            locks.enter_context(one_at_a_time(home, home.name))
            for run in reached:
                for path in run.iterdir():
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                Journal(run / "journal.jsonl").add("end", why="its decisions were deleted")
    return count
