"""A crew of processes: one function, many shards, results in order.

    crew = ProcessCrew(2)
    for result in crew.map("headway.kits.simulator.shards:judge_shard", shards):
        ...                                             # in the order of the shards, as soon as it is known

The function is named, "module:function", and takes one shard; shards and results are pickled. A result must depend on
its shard alone: then neither the number of workers nor a worker that is killed can change it. The shard of a dead
worker is given to a new one. A function may keep things in its module between shards, such as a warm sandbox.

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
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from headway.client.process import exit_words
from headway.nouns import errors
from headway.nouns.errors import HeadwayError, InvalidInput, Unavailable
from headway.nouns.protocols import Progress

__all__ = ["MOST_WORKERS", "ProcessCrew"]

MOST_WORKERS = 256
_ATTEMPTS = 3  # of a shard whose worker dies


class ProcessCrew:
    """Workers on this machine. See `headway.nouns.protocols.Crew`."""

    def __init__(self, workers: int) -> None:
        if not 1 <= workers <= MOST_WORKERS:
            raise InvalidInput(
                f"A crew of {workers} workers, expected 1 to {MOST_WORKERS}.",
                code="bad_workers",
                hint="One for each core is a good start.",
            )
        self.workers = workers

    def map(
        self, work: str, shards: Sequence[Any], *, what: str = "", progress: Progress | None = None
    ) -> Iterator[Any]:
        """The result of each shard, in their order."""
        if not shards:
            return
        with _Workers(work, shards, min(self.workers, len(shards))) as workers:
            waiting: dict[int, Any] = {}
            next_one = finished = 0
            while next_one < len(shards):
                for number, result in workers.finished():
                    waiting[number] = result
                    finished += 1
                    if progress is not None:
                        progress(what, finished, len(shards))
                while next_one in waiting:
                    yield waiting.pop(next_one)
                    next_one += 1


class _Workers:
    """The processes of one iteration."""

    def __init__(self, work: str, shards: Sequence[Any], count: int) -> None:
        self._work, self._shards, self._count = work, shards, count
        self._left = deque(range(len(shards)))
        self._deaths = [0] * len(shards)
        self._busy: dict[Connection, tuple[subprocess.Popen[bytes], int | None]] = {}  # and the shard's number

    def __enter__(self) -> _Workers:
        # Workers read `_pipe`, which ends when `_alive`, which only we hold, is closed.
        self._pipe, self._alive = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in list(self._busy):
            self._end(connection)
        os.close(self._alive)
        os.close(self._pipe)

    def finished(self) -> list[tuple[int, Any]]:
        """Wait until at least one worker has something to say; the shards that are done, with their results."""
        while len(self._busy) < min(self._count, self._unfinished()):
            self._start()
        done = []
        for connection in wait(list(self._busy)):
            assert isinstance(connection, Connection)
            number = self._busy[connection][1]
            try:
                ok, result = connection.recv()
            except (EOFError, OSError):
                self._bury(connection, number)
                continue
            if not ok:
                raise _error(result)
            if number is not None:
                done.append((number, result))
            self._give(connection)
        return done

    def _unfinished(self) -> int:
        return len(self._left) + sum(number is not None for _, number in self._busy.values())

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                # -P: a module in the current folder must not replace one of Python's
                [sys.executable, "-P", "-m", "headway.client.parent", str(self._pipe), "headway.loop.crew_worker",
                 str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(self._pipe, theirs.fileno()),
                start_new_session=True,
            )  # fmt: skip
        connection = Connection(ours.detach())
        self._busy[connection] = (process, None)
        self._give(connection)

    def _give(self, connection: Connection) -> None:
        """The next shard for a worker that is free."""
        process, _ = self._busy[connection]
        if not self._left:
            self._busy[connection] = (process, None)
            self._end(connection)
            return
        number = self._left.popleft()
        self._busy[connection] = (process, number)
        with suppress(OSError):  # it is dead: `finished` sees that
            connection.send((self._work, self._shards[number]))

    def _bury(self, connection: Connection, number: int | None) -> None:
        """A worker ended by itself: its shard is next."""
        status = self._end(connection)
        if number is None:
            return
        self._deaths[number] += 1
        if self._deaths[number] >= _ATTEMPTS:
            raise Unavailable(
                f"A worker ended {_ATTEMPTS} times ({exit_words(status)}) on part {number + 1} of {len(self._shards)}.",
                code="crew_failed",
                hint="Its messages are above; less memory is needed with fewer workers.",
            )
        self._left.appendleft(number)

    def _end(self, connection: Connection) -> int:
        process, _ = self._busy.pop(connection)
        connection.close()
        process.kill()
        return process.wait()


def _error(told: tuple[str, str, str, str]) -> Exception:
    """What a worker raised: our own errors as they were, others with their traceback."""
    name, message, code, hint = told
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, HeadwayError):
        return kind(message, code=code, hint=hint)
    return RuntimeError(message)
