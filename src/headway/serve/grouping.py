"""Group commit in the loop: what is decided while a commit runs is stored by the next one, in one statement.

One hand-over between threads per commit instead of one per request. If a batch is refused as a whole because one of it
conflicts with what is stored, each is stored alone, so that only its own client hears of it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from headway.nouns.errors import Busy, Conflict, HeadwayError
from headway.nouns.records import Decision
from headway.project import Project
from headway.project.considering import Ask, Considered, consider_many

__all__ = ["Grouping"]

_MOST_TOGETHER = 512
Stored = tuple[Decision, bool]  # the decision, and whether it is new: a known id returns the earlier one
_Waiting = list[tuple[Ask, asyncio.Future[Stored]]]
_Batch = list[tuple[Considered, asyncio.Future[Stored]]]


class Grouping:
    """Stores considered decisions; lives in the server's loop."""

    def __init__(self, project: Project, limit: int) -> None:
        self._project = project
        self._limit = limit
        self._waiting: _Waiting = []
        self._busy = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ask: Ask) -> asyncio.Future[Stored]:
        """A future of the stored decision; it is done when the decision is durable."""
        if len(self._waiting) >= self._limit:
            raise Busy(f"{self._limit} writes are queued already.", code="queue_full", hint="Try again in a second.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Stored] = loop.create_future()
        self._waiting.append((ask, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._flush, loop)  # after the requests that are ready now
        return future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        asked, self._waiting = self._waiting[:_MOST_TOGETHER], self._waiting[_MOST_TOGETHER:]
        batch: _Batch = []
        for (_, future), found in zip(asked, consider_many(self._project, [ask for ask, _ in asked]), strict=True):
            if isinstance(found, HeadwayError):
                self._fail(future, found)
            else:
                batch.append((found, future))
        if batch:
            self._submit(loop, batch)
        else:
            self._next(loop)

    def _submit(self, loop: asyncio.AbstractEventLoop, batch: _Batch) -> None:
        try:
            stored = self._project.submit([each for each, _ in batch])
        except Exception as error:  # noqa: BLE001 — handed to those who wait
            self._fail_all(batch, error)
            self._next(loop)
            return
        stored.add_done_callback(lambda done: loop.call_soon_threadsafe(self._done, loop, batch, done))

    def _done(self, loop: asyncio.AbstractEventLoop, batch: _Batch, done: Future[list[Decision]]) -> None:
        error = done.exception()
        if error is None:
            for (considered, future), decision in zip(batch, done.result(), strict=True):
                if not future.done():  # its client has gone
                    future.set_result((decision, decision.at == considered[0].at))
        elif isinstance(error, Conflict) and len(batch) > 1:
            for each in batch:
                self._alone(loop, [each])
        else:
            self._fail_all(batch, error)
        self._next(loop)

    def _alone(self, loop: asyncio.AbstractEventLoop, batch: _Batch) -> None:
        def done(future: Future[list[Decision]]) -> None:
            loop.call_soon_threadsafe(self._settle, batch, future)

        try:
            self._project.submit([batch[0][0]]).add_done_callback(done)
        except Exception as error:  # noqa: BLE001 — likewise
            self._fail_all(batch, error)

    def _settle(self, batch: _Batch, done: Future[list[Decision]]) -> None:
        error = done.exception()
        if error is not None:
            self._fail_all(batch, error)
        elif not batch[0][1].done():
            (considered, future), decision = batch[0], done.result()[0]
            future.set_result((decision, decision.at == considered[0].at))

    def _fail_all(self, batch: _Batch, error: BaseException) -> None:
        for _, future in batch:
            self._fail(future, error)

    def _fail(self, future: asyncio.Future[Stored], error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting:
            self._flush(loop)
        else:
            self._busy = False
