"""An upstream call under way: what is measured of it, and its events on their way to the client.

What the proxy measures is signed by the rater `proxy:`, a name that no key can have. The client's `traceparent` is kept
as the label of a signal of that name (its value: the sampled flag): state would show it to policies, and a column would
have to be carried by export, import and deletion, all of which know signals already.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.kits.proxy.events import EventReader, StreamEvent
from headway.kits.proxy.formats import ApiFormat, Rewriting, TokenUsage, malformed
from headway.kits.proxy.upstreams import STREAM_TIMES, Slot, UpstreamAnswer, UpstreamFailed
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.nouns.records import Decision
from headway.serve.endpoint import Call
from headway.serve.errors import ErrorDetail
from headway.serve.spans import CallSpan, spans_of
from headway.settings import Upstream

__all__ = ["RATER", "Attempt", "Relay"]

logger = logging.getLogger("headway.serve")
RATER = "proxy:"
_GOODBYE_S = 1.0  # for the end of a stream whose last event has come


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
    done: bool = False

    def __post_init__(self) -> None:
        spans = spans_of(self.call.server)
        if spans is not None:
            self.span = spans.call(self.wire.provider, self.wire.name, self.upstream, self.decision, self.traceparent)

    async def finish(
        self, usage: TokenUsage, *, http_status: int = 0, failed: str = "", gone: bool = False, **answered: str
    ) -> None:
        """Stores the signals of this call, once; what cannot be stored is logged, and the answer goes out anyway."""
        if self.done:
            return
        self.done = True
        measured = {"latency_s": time.perf_counter() - self.began, **self._counted(usage)}
        if self.first_token_s is not None:
            measured["first_token_s"] = self.first_token_s
        if http_status:
            measured["http_status"] = float(http_status)
        if failed:
            measured["failed"] = 1.0
        if gone:
            measured["client_gone"] = 1.0
        if self.span is not None:
            self.span.end(measured, failed=failed, **answered)
        if self.after is not None:
            measured["attempt"] = float(self.number)
        if self.traceparent:
            measured["traceparent"] = float(int(self.traceparent[-2:], 16) & 1)
        labels = {
            "failed": failed,
            "http_status": answered.get("upstream_id", ""),
            "attempt": self.after.id if self.after is not None else "",
            "traceparent": self.traceparent,
        }
        await self._store(measured, labels)

    def _counted(self, usage: TokenUsage) -> dict[str, float]:
        """Tokens and what they cost; a cost that is not known is left out, unless the upstream is free."""
        found: dict[str, float] = {}
        if usage.prompt is not None:
            found["prompt_tokens"] = float(usage.prompt)
        if usage.completion is not None:
            found["completion_tokens"] = float(usage.completion)
        cost = 0.0
        for tokens, price in ((usage.prompt, self.upstream.price_in), (usage.completion, self.upstream.price_out)):
            if price and tokens is None:
                return found
            cost += (tokens or 0) * price / 1e6
        found["cost_usd"] = cost
        return found

    async def _store(self, measured: Mapping[str, float], labels: Mapping[str, str]) -> None:
        project = self.call.server.project
        rows = []
        for name, value in measured.items():
            try:
                rows += project.checked_signals(
                    self.decision.id, {name: value}, rater=RATER, label=labels.get(name, "")
                )
            except InvalidInput as error:  # the task's reward table wants this signal to be something else
                logger.warning("signal=%s of %s not stored: %s", name, self.decision.id, error.message)
        try:
            await asyncio.wrap_future(project.submit_signals(rows))
        except HeadwayError as error:
            logger.warning("signals of %s not stored: %s", self.decision.id, error.message)
            return
        self.call.server.metrics.count("signals", "all", len(rows))


class Relay:
    """A streamed answer on its way: takes from the upstream no faster than the client takes from us.

    An iterator rather than a generator: `aclose` must cut the upstream off even if nobody ever asked for a byte.
    """

    def __init__(
        self,
        wire: ApiFormat,
        answer: UpstreamAnswer,
        slot: Slot,
        attempt: Attempt | None,
        rewriting: Rewriting | None,
        most: int,
    ) -> None:
        self._wire = wire
        self._answer = answer
        self._slot = slot
        self._attempt = attempt
        self._rewriting = rewriting
        self._reader = EventReader(answer.upstream.name, most)
        self._until = time.monotonic() + STREAM_TIMES * answer.upstream.timeout_s
        self._due = time.monotonic() + answer.upstream.timeout_s
        self._first = b""
        self._over = False

    async def begin(self) -> None:
        """Waits for the first event, while another upstream can still be tried."""
        if self._answer.media != "text/event-stream":
            raise malformed(self._answer.upstream.name)
        while not self._first:
            events = [each for each in await self._events() if each.data is not None]
            if self._over and not events:
                raise UpstreamFailed(self._answer.upstream.name, "upstream_broken", "ended its stream at once")
            self._first = self._rewritten(events)
            if self._rewriting is not None and self._rewriting.failed:
                raise UpstreamFailed(self._answer.upstream.name, self._rewriting.failed, "reported a failed response")

    def __aiter__(self) -> Relay:
        return self

    async def __anext__(self) -> bytes:
        try:
            if self._first:
                found, self._first = self._first, b""
                await self._look()
                return found
            while not self._over:
                found = self._rewritten(await self._events())
                await self._look()
                if found:
                    return found
        except UpstreamFailed as error:
            self._over = True
            await self._end(failed=error.code)
            return self._wire.event_problem(ErrorDetail(error.code, error.message, error.hint))
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """The end, whoever brought it about."""
        self._over = True
        try:
            await self._answer.close()
        finally:
            self._slot.free()
            await self._end(gone=True)

    async def _events(self) -> list[StreamEvent]:
        """The next events, which may be none; comments do not put the time limit off."""
        finished = self._rewriting is not None and self._rewriting.finished
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
                if self._rewriting is not None and not self._rewriting.complete:
                    name = self._answer.upstream.name
                    raise UpstreamFailed(name, "upstream_broken", "ended its stream in the middle")
            return []
        found = [] if finished else self._reader.feed(piece)
        if any(each.data is not None for each in found):
            self._due = time.monotonic() + self._answer.upstream.timeout_s
        return found

    def _rewritten(self, events: list[StreamEvent]) -> bytes:
        if self._rewriting is None:
            return b"".join(each.raw for each in events)
        found = b"".join([self._rewriting.rewrite(each) for each in events])
        if self._rewriting.begun and self._attempt is not None and self._attempt.first_token_s is None:
            self._attempt.first_token_s = time.perf_counter() - self._attempt.began
        return found

    async def _look(self) -> None:
        """Signals are durable before the client sees the last event."""
        if self._rewriting is not None and (self._rewriting.finished or self._over):
            self._until = min(self._until, time.monotonic() + _GOODBYE_S)
            await self._end(failed=self._rewriting.failed)

    async def _end(self, *, failed: str = "", gone: bool = False) -> None:
        if self._attempt is None or self._rewriting is None:
            return
        await self._attempt.finish(
            self._rewriting.usage,
            http_status=self._answer.status,
            failed=failed,
            gone=gone,
            upstream_id=self._rewriting.upstream_id,
            model=self._rewriting.model,
        )
