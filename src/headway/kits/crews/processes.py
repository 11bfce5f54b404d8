"""A crew of processes: one function, many shards, results in order.

    crew = ProcessCrew(2)
    for result in crew.map("headway.kits.simulator.shards:judge_shard", shards):
        ...                                             # in the order of the shards, as soon as it is known

The function is named, "module:function", and takes one shard; shards and results are pickled. A result must depend on
its shard alone: then neither the number of workers nor a worker that is killed can change it. The shard of a dead
worker is given to a new one. A function may keep things in its module between shards, such as a warm sandbox.

    with crew.held() as held:                           # for many short calls: the workers stay until the block ends
        held.map(…)

Workers start with the first shard and end with the iteration: when it is exhausted, closed or interrupted, and also if
this process is killed. Not covered: a shard's effects outside its result, which may happen twice.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from headway.client import exit_words
from headway.nouns import Catalogue, Crew, Progress, errors

MOST_WORKERS = 256
_ATTEMPTS = 3  # of a shard whose worker dies


class ProcessCrew:
    """Workers on this machine. See `headway.nouns.protocols.Crew`."""

    def __init__(self, workers: int) -> None:
        if not 1 <= workers <= MOST_WORKERS:
            raise errors.InvalidInput(
                f"A crew of {workers} workers, expected 1 to {MOST_WORKERS}.",
                code="bad_workers",
                hint="One for each core is a good start.",
            )
        self.workers = workers

    def map(
        self, work: str, shards: Sequence[Any], *, what: str = "", progress: Progress | None = None
    ) -> Iterator[Any]:
        """The result of each shard, in their order."""
        with _Workers(min(self.workers, len(shards))) as workers:
            yield from workers.map(work, shards, what=what, progress=progress)

    @contextmanager
    def held(self) -> Iterator[Crew]:
        """The same workers for several calls of `map`; the shard of a number goes to the same worker each time."""
        with _Workers(self.workers, keep=True) as workers:
            yield workers


@dataclass(slots=True)
class _Worker:
    """A process, and the shard that it works on."""

    process: subprocess.Popen[bytes]
    place: int
    number: int | None = None


class _Workers:
    """The processes of one iteration, or of several (`keep`): then shard n is always given to worker n modulo count."""

    def __init__(self, count: int, *, keep: bool = False) -> None:
        self.workers, self._keep = count, keep
        self._left: deque[int] = deque()
        self._busy: dict[Connection, _Worker] = {}

    def __enter__(self) -> _Workers:
        # Workers read `_pipe`, which ends when `_alive`, which only we hold, is closed.
        self._pipe, self._alive = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in list(self._busy):
            self._end(connection)
        os.close(self._alive)
        os.close(self._pipe)

    def map(
        self, work: str, shards: Sequence[Any], *, what: str = "", progress: Progress | None = None
    ) -> Iterator[Any]:
        """The result of each shard, in their order."""
        self._work, self._shards = work, shards
        self._left, self._deaths = deque(range(len(shards))), [0] * len(shards)
        waiting: dict[int, Any] = {}
        next_one = finished = 0
        try:
            for connection in list(self._busy):
                self._give(connection)
            while next_one < len(shards):
                for number, result in self._finished():
                    waiting[number] = result
                    finished += 1
                    if progress is not None:
                        progress(what, finished, len(shards))
                while next_one in waiting:
                    yield waiting.pop(next_one)
                    next_one += 1
        finally:
            for connection, worker in list(self._busy.items()):
                if worker.number is not None:  # interrupted: nobody waits for it
                    self._end(connection)

    def held(self) -> AbstractContextManager[Crew]:
        return nullcontext(self)

    def _finished(self) -> list[tuple[int, Any]]:
        """Wait until at least one worker has something to say; the shards that are done, with their results."""
        self._start_missing()
        done = []
        for connection in wait(list(self._busy)):
            assert isinstance(connection, Connection)
            number = self._busy[connection].number
            try:
                ok, result = connection.recv()
            except (EOFError, OSError):
                self._bury(connection, number)
                continue
            self._busy[connection].number = None
            if not ok:
                kind, message, more = result
                raise kind(message, **more)
            if number is not None:
                done.append((number, result))
            self._give(connection)
        return done

    def _start_missing(self) -> None:
        taken = {worker.place for worker in self._busy.values()}
        for place in range(self.workers):
            if place not in taken and self._next_for(place) is not None:
                self._start(place)

    def _start(self, place: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                # -P: a module in the current folder must not replace one of Python's
                [sys.executable, "-P", "-m", "headway.client.parent", str(self._pipe), "headway.kits.crews.worker",
                 str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(self._pipe, theirs.fileno()),
                start_new_session=True,
            )  # fmt: skip
        connection = Connection(ours.detach())
        self._busy[connection] = _Worker(process, place)
        self._give(connection)

    def _next_for(self, place: int) -> int | None:
        """The next shard that a worker may have; the place in the crew matters only where workers are kept."""
        mine = (number for number in self._left if not self._keep or number % self.workers == place)
        return next(mine, None)

    def _give(self, connection: Connection) -> None:
        """The next shard for a worker that is free."""
        worker = self._busy[connection]
        worker.number = self._next_for(worker.place)
        if worker.number is None:
            if not self._keep:
                self._end(connection)
            return
        self._left.remove(worker.number)
        with suppress(OSError):  # it is dead: `_finished` sees that
            connection.send((self._work, self._shards[worker.number]))

    def _bury(self, connection: Connection, number: int | None) -> None:
        """A worker ended by itself: its shard is next."""
        status = self._end(connection)
        if number is None:
            return
        self._deaths[number] += 1
        if self._deaths[number] >= _ATTEMPTS:
            raise errors.Unavailable(
                f"A worker ended {_ATTEMPTS} times ({exit_words(status)}) on part {number + 1} of {len(self._shards)}.",
                code="crew_failed",
                hint="Its messages are above; less memory is needed with fewer workers.",
            )
        self._left.appendleft(number)

    def _end(self, connection: Connection) -> int:
        worker = self._busy.pop(connection)
        connection.close()
        worker.process.kill()
        return worker.process.wait()


def crew(kits: Catalogue, workers: int | None = None, name: str = "processes") -> Crew:
    """Workers for many shards, two by default: processes of this machine, or what a kit adds under that name."""
    build = kits.load(kits.look_up("crews", name, called="crew", code="unknown_crew"))
    made: Crew = build(2 if workers is None else workers)
    return made
