"""Where a proof can go on: its sums after some of its rows, kept in the store beside the columns.

    places = Checkpoints(rows, …)
    stream, start = places.resumed()                   # what the first `start` rows say; 0 where nothing is known
    places.keep(stream, done)                          # after each chunk

The same rows in the same order, with the same outcomes and under the same rules, give the same sums in every bit. So
they are kept under a key of all of these, and a proof goes on after the last place whose key is still right: the rows
after it are read, and no others. No sums are used that hold a decision about which anything was said since. Places lie
1, 8, 64, … chunks apart, so that a late outcome costs few rows.

Nothing is kept while the rows fit in memory for the displayed estimates (`headway.prove.display`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from headway.nouns import errors
from headway.observe import PROOF, decisions_about, dumps
from headway.prove import LogStream

if TYPE_CHECKING:
    from headway.observe import Block, Database, TaskFrame
    from headway.project.prove.checks import RowChecks
    from headway.prove import About, GuardRule

_APART, _LEVELS = 8, 4
_VERSION = 1


class Checkpoints:
    """Of the proof of these rows; `rules` is all that they are read by, `signals` the last signal before it began.

    `size`: how many rows are read at once.
    """

    def __init__(
        self,
        rows: Block,
        checks: RowChecks,
        frame: TaskFrame,
        about: About,
        guards: Sequence[GuardRule],
        rules: Sequence[str],
        *,
        signals: int,
        size: int,
    ) -> None:
        self._rows, self._checks, self._frame, self._signals = rows, checks, frame, signals
        self._about, self._guards = about, guards
        last = (len(rows) - 1) // size * size  # the last chunk is read in any case
        sizes = [size * _APART**level for level in range(_LEVELS)]
        self._places = {last // apart * apart: level for level, apart in enumerate(sizes) if last >= apart}
        described = [_VERSION, version("numpy"), repr(about), repr(guards), *rules]
        self._rules = blake2b(dumps(described).encode()).digest()

    def resumed(self, database: Database) -> tuple[LogStream, int]:
        """What is known of the first rows, and how many these are."""
        touched: Any = None
        for level in range(_LEVELS):
            data = self._frame.stored(PROOF, self._name(level))
            count = 0 if data is None else int.from_bytes(data[:8], "big")
            if data is None or count > max(self._places, default=0) or data[8:24] != self._key(count):
                continue
            stream = LogStream(self._about, self._guards)
            mark, running = stream.thaw(data[24:])
            touched = set(decisions_about(database, mark)) if touched is None else touched
            if touched.isdisjoint(self._rows.seq[:count].tolist()) and self._checks.go_on(running):
                return stream, count
        return LogStream(self._about, self._guards), 0

    def keep(self, stream: LogStream, done: int) -> None:
        """Keep what the rows so far say, if this is a place for it."""
        level = self._places.get(done)
        data = None if level is None else stream.frozen([self._signals, self._checks.running()])
        if level is not None and data is not None:
            with suppress(errors.Unavailable):  # a full disk: the next proof begins anew
                self._frame.keep(PROOF, {self._name(level): done.to_bytes(8, "big") + self._key(done) + data})

    def _name(self, level: int) -> str:
        return f"{'guard' if self._about.guard else 'proof'} {level}"

    def _key(self, count: int) -> bytes:
        seqs = self._rows.seq[:count]
        shared = sorted(self._checks.shared.intersection(seqs.tolist())) if self._checks.shared else ""
        what = seqs.tobytes() + self._rows.settled[:count].tobytes() + repr(shared).encode()
        return blake2b(what, digest_size=16, key=self._rules).digest()
