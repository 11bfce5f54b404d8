"""The events of a streamed answer on their way to the client."""

from __future__ import annotations

import time

from headway.kits.proxy.attempts import Attempt
from headway.kits.proxy.events import EventReader, StreamEvent
from headway.kits.proxy.upstreams import STREAM_TIMES, Slot, UpstreamAnswer, UpstreamFailed
from headway.kits.proxy.wire import ApiFormat, StreamRewriter, malformed
from headway.serve import ErrorDetail

_CLOSE_S = 1.0  # wait for the end of a stream after its last event


class Relay:
    """Relays a streamed answer, and reads from the upstream no faster than the client reads.

    An iterator rather than a generator: `aclose` must disconnect the upstream even if nothing was ever read.
    """

    def __init__(
        self,
        wire: ApiFormat,
        answer: UpstreamAnswer,
        slot: Slot,
        attempt: Attempt | None,
        rewriter: StreamRewriter | None,
        most: int,
    ) -> None:
        self._wire = wire
        self._answer = answer
        self._slot = slot
        self._attempt = attempt
        self._rewriter = rewriter
        self._reader = EventReader(answer.upstream.name, most)
        self._until = time.monotonic() + STREAM_TIMES * answer.upstream.timeout_s
        self._due = time.monotonic() + answer.upstream.timeout_s
        self._first = b""
        self._over = False

    async def begin(self) -> None:
        """Wait for the first event, while another upstream can still be tried."""
        if self._answer.media != "text/event-stream":
            raise malformed(self._answer.upstream.name)
        while not self._first:
            events = [event for event in await self._events() if event.data is not None]
            if self._over and not events:
                raise UpstreamFailed(self._answer.upstream.name, "upstream_broken", "ended its stream at once")
            self._first = self._rewrite(events)
            if self._rewriter is not None and self._rewriter.failed:
                raise UpstreamFailed(self._answer.upstream.name, self._rewriter.failed, "reported a failed response")

    def __aiter__(self) -> Relay:
        return self

    async def __anext__(self) -> bytes:
        try:
            if self._first:
                chunk, self._first = self._first, b""
                await self._finish_if_over()
                return chunk
            while not self._over:
                chunk = self._rewrite(await self._events())
                await self._finish_if_over()
                if chunk:
                    return chunk
        except UpstreamFailed as error:
            self._over = True
            await self._end(failed=error.code)
            return self._wire.event_problem(ErrorDetail(error.code, error.message, error.hint))
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the stream, whether the client or the upstream ended it."""
        self._over = True
        try:
            await self._answer.close()
        finally:
            self._slot.free()
            await self._end(gone=True)

    async def _events(self) -> list[StreamEvent]:
        """The next events, possibly none. Comments do not extend the time limit."""
        finished = self._rewriter is not None and self._rewriter.finished
        try:
            piece = await self._answer.piece(max(0.0, min(self._until, self._due) - time.monotonic()))
        except UpstreamFailed:
            if not finished:
                raise
            piece = b""
        if not piece:
            self._over = True
            if not finished:
                self._reader.close()
                if self._rewriter is not None and not self._rewriter.complete:
                    name = self._answer.upstream.name
                    raise UpstreamFailed(name, "upstream_broken", "ended its stream in the middle")
            return []
        events = [] if finished else self._reader.feed(piece)
        if any(event.data is not None for event in events):
            self._due = time.monotonic() + self._answer.upstream.timeout_s
        return events

    def _rewrite(self, events: list[StreamEvent]) -> bytes:
        if self._rewriter is None:
            return b"".join(event.raw for event in events)
        chunk = b"".join([self._rewriter.rewrite(event) for event in events])
        if self._attempt is not None and self._attempt.reply is not None:
            for event in events:
                self._attempt.reply.read(event)
        if self._rewriter.started and self._attempt is not None and self._attempt.first_token_s is None:
            self._attempt.first_token_s = time.perf_counter() - self._attempt.began
        return chunk

    async def _finish_if_over(self) -> None:
        """Store the signals before the client sees the last event."""
        if self._rewriter is not None and (self._rewriter.finished or self._over):
            self._until = min(self._until, time.monotonic() + _CLOSE_S)
            await self._end(failed=self._rewriter.failed)

    async def _end(self, *, failed: str = "", gone: bool = False) -> None:
        if self._attempt is None or self._rewriter is None:
            return
        await self._attempt.finish(
            self._rewriter.usage,
            http_status=self._answer.status,
            failed=failed,
            gone=gone,
            partial=not (self._rewriter.complete or self._rewriter.finished),
            upstream_id=self._rewriter.upstream_id,
            model=self._rewriter.model,
        )
