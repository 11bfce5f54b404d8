"""A running upstream call: its measurements, and its events on their way to the client.

Measurements have the rater `proxy:`, a name that no key can have. The client's `traceparent` is stored as the label of
a signal of that name (its value is the sampled flag): in the state, policies would see it; in a column of its own,
export, import and deletion would each need to handle it, while they already handle signals.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.kits.proxy.events import EventReader, StreamEvent
from headway.kits.proxy.replies import StreamedReply, reply_details
from headway.kits.proxy.upstreams import STREAM_TIMES, Slot, UpstreamAnswer, UpstreamFailed
from headway.kits.proxy.wire import ApiFormat, StreamRewriter, TokenUsage, malformed
from headway.nouns import Decision, HeadwayError, InvalidInput
from headway.serve import Call, ErrorDetail
from headway.settings import Upstream

if TYPE_CHECKING:
    from headway.kits.otel import CallSpan, Spans

logger = logging.getLogger("headway.serve")
RATER = "proxy:"
_CLOSE_S = 1.0  # wait for the end of a stream after its last event


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One decision and the call that it led to."""

    call: Call
    wire: ApiFormat
    upstream: Upstream
    decision: Decision
    traceparent: str
    after: Decision | None = None  # the failed decision before it
    number: int = 1
    began: float = field(default_factory=time.perf_counter)
    first_token_s: float | None = None
    span: CallSpan | None = None
    reply: StreamedReply | None = None  # collects a streamed answer that is kept
    done: bool = False

    def __post_init__(self) -> None:
        if self.keeps:
            self.reply = StreamedReply()
        spans: Spans | None = self.call.server.observers.get("otel")
        if spans is not None:
            self.span = spans.call(self.wire.provider, self.wire.name, self.upstream, self.decision, self.traceparent)

    @property
    def keeps(self) -> bool:
        """Whether the task keeps what upstreams answer."""
        return self.call.server.project.settings.task(self.decision.task).keep_replies

    async def finish(
        self,
        usage: TokenUsage,
        *,
        http_status: int = 0,
        failed: str = "",
        gone: bool = False,
        reply: str = "",
        **answer: str,
    ) -> None:
        """Store the signals and the kept reply, once. What cannot be stored is logged; the answer is sent anyway."""
        if self.done:
            return
        self.done = True
        if self.keeps and (reply or (self.reply is not None and (reply := self.reply.text))):
            await self._keep(reply)
        measured = {"latency_s": time.perf_counter() - self.began, **self._counts(usage)}
        if self.first_token_s is not None:
            measured["first_token_s"] = self.first_token_s
        if http_status:
            measured["http_status"] = float(http_status)
        if failed:
            measured["failed"] = 1.0
        if gone:
            measured["client_gone"] = 1.0
        if self.span is not None:
            self.span.end(measured, failed=failed, **answer)
        if self.after is not None:
            measured["attempt"] = float(self.number)
        if self.traceparent:
            measured["traceparent"] = float(int(self.traceparent[-2:], 16) & 1)
        labels = {
            "failed": failed,
            "http_status": answer.get("upstream_id", ""),
            "attempt": self.after.id if self.after is not None else "",
            "traceparent": self.traceparent,
        }
        await self._store(measured, labels)

    async def _keep(self, text: str) -> None:
        project = self.call.server.project
        details = reply_details(
            text,
            project.redact,
            upstream=self.upstream.name,
            role=self.decision.situation.role,
            latency_s=time.perf_counter() - self.began,
        )
        try:
            await asyncio.wrap_future(project.store.submit_details(self.decision.id, details))
        except HeadwayError as error:
            logger.warning("reply of %s not kept: %s", self.decision.id, error.message)

    def _counts(self, usage: TokenUsage) -> dict[str, float]:
        """Tokens and their cost. An unknown cost is omitted; a free upstream costs 0."""
        counts: dict[str, float] = {}
        if usage.prompt is not None:
            counts["prompt_tokens"] = float(usage.prompt)
        if usage.completion is not None:
            counts["completion_tokens"] = float(usage.completion)
        cost = 0.0
        for tokens, price in ((usage.prompt, self.upstream.price_in), (usage.completion, self.upstream.price_out)):
            if price and tokens is None:
                return counts
            cost += (tokens or 0) * price / 1e6
        counts["cost_usd"] = cost
        return counts

    async def _store(self, measured: Mapping[str, float], labels: Mapping[str, str]) -> None:
        project = self.call.server.project
        rows = []
        for name, value in measured.items():
            try:
                rows += project.checked_signals(
                    self.decision.id, {name: value}, rater=RATER, label=labels.get(name, "")
                )
            except InvalidInput as error:  # the task's reward table defines this signal differently
                logger.warning("signal=%s of %s not stored: %s", name, self.decision.id, error.message)
        try:
            await asyncio.wrap_future(project.submit_signals(rows))
        except HeadwayError as error:
            logger.warning("signals of %s not stored: %s", self.decision.id, error.message)
            return
        self.call.server.metrics.count("signals", "all", len(rows))


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
            upstream_id=self._rewriter.upstream_id,
            model=self._rewriter.model,
        )
