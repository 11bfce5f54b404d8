"""Group commit: decisions that arrive while a commit runs are stored by the next one, in one statement.

Threads synchronise once per commit instead of once per request. If a batch is refused because one decision conflicts
with a stored one, every decision is stored alone, so that only one client gets the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from headway.nouns import Decision, errors
from headway.project import Ask, Considered, Project

_MOST_TOGETHER = 512
Answer = Callable[[Decision, bool], None]  # the decision, and whether it is new: a known id returns the earlier one


class _WaitingAsk(NamedTuple):
    ask: Ask
    answer: Answer
    future: asyncio.Future[None]


_Batch = list[tuple[Considered, _WaitingAsk]]


class Grouping:
    """Stores considered decisions. Belongs to the server's event loop."""

    def __init__(self, project: Project, limit: int) -> None:
        self._project = project
        self._limit = limit
        self._waiting: list[_WaitingAsk] = []
        self._due = False  # a batch is about to be considered
        self._running = False  # a batch is being stored

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ask: Ask, answer: Answer) -> asyncio.Future[None]:
        """Calls `answer` once the decision is durable, and resolves the future; does neither if it was cancelled."""
        if len(self._waiting) >= self._limit:
            raise errors.Busy(
                f"{self._limit} writes are queued already.", code="queue_full", hint="Try again in a second."
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(_WaitingAsk(ask, answer, future))
        self._next(loop)
        return future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = False
        taken, self._waiting = self._waiting[:_MOST_TOGETHER], self._waiting[_MOST_TOGETHER:]
        batch: _Batch = []
        considered = self._project.consider_many([waiting.ask for waiting in taken])
        for waiting, result in zip(taken, considered, strict=True):
            if isinstance(result, errors.HeadwayError):
                self._fail(waiting, result)
            else:
                batch.append((result, waiting))
        if batch:
            self._submit(loop, batch)
        self._next(loop)

    def _submit(self, loop: asyncio.AbstractEventLoop, batch: _Batch) -> None:
        try:
            stored = self._project.submit([considered for considered, _ in batch])
        except Exception as error:  # noqa: BLE001 — every waiting request gets it
            self._fail_all(batch, error)
            return
        self._running = True
        stored.add_done_callback(lambda done: loop.call_soon_threadsafe(self._done, loop, batch, done))

    def _done(self, loop: asyncio.AbstractEventLoop, batch: _Batch, done: Future[list[Decision]]) -> None:
        self._running = False
        error = done.exception()
        if error is None:
            for (considered, waiting), decision in zip(batch, done.result(), strict=True):
                self._answer(waiting, considered, decision)
        elif isinstance(error, errors.Conflict) and len(batch) > 1:
            for item in batch:
                self._alone(loop, [item])
        else:
            self._fail_all(batch, error)
        self._next(loop)

    def _alone(self, loop: asyncio.AbstractEventLoop, batch: _Batch) -> None:
        def done(future: Future[list[Decision]]) -> None:
            loop.call_soon_threadsafe(self._settle, batch, future)

        try:
            self._project.submit([batch[0][0]]).add_done_callback(done)
        except Exception as error:  # noqa: BLE001 — the waiting request gets it
            self._fail_all(batch, error)

    def _settle(self, batch: _Batch, done: Future[list[Decision]]) -> None:
        error = done.exception()
        if error is not None:
            self._fail_all(batch, error)
        else:
            considered, waiting = batch[0]
            self._answer(waiting, considered, done.result()[0])

    def _answer(self, waiting: _WaitingAsk, considered: Considered, decision: Decision) -> None:
        if waiting.future.done():  # its client has disconnected
            return
        try:
            waiting.answer(decision, considered.is_new(decision))
        except Exception as error:  # noqa: BLE001 — one failing answer must not stop the others
            waiting.future.set_exception(error)
        else:
            waiting.future.set_result(None)

    def _fail_all(self, batch: _Batch, error: BaseException) -> None:
        for _, waiting in batch:
            self._fail(waiting, error)

    def _fail(self, waiting: _WaitingAsk, error: BaseException) -> None:
        if not waiting.future.done():
            waiting.future.set_exception(error)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and not self._due and not self._running:
            self._due = True
            loop.call_soon(self._flush, loop)  # after the requests that are ready now
