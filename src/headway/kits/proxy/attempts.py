"""One attempt of a request: a call of an upstream, its measurements, and how it ended.

Measurements have the rater `proxy:`, a name that no key can have. The client's `traceparent` and the id that it gave
its request are stored as the labels of signals of these names (the value of the first is the sampled flag): in the
state, policies would see them; in a column of its own, export, import and deletion would each need to handle it, while
they already handle signals.

The attempts of a request add up: each begins when the one before it ended, a refused call costs nothing, and where an
upstream did not say what a call cost, `cost_unknown` keeps the sum from being taken for the cost of the request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.kits.proxy.breaker import Breakers
from headway.kits.proxy.replies import StreamedReply, reply_details
from headway.kits.proxy.upstreams import AT_FAULT
from headway.kits.proxy.wire import ApiFormat, TokenUsage
from headway.nouns import Decision, errors, ids
from headway.serve import Call
from headway.settings import Upstream

if TYPE_CHECKING:
    from headway.kits.otel import CallSpan, Spans

logger = logging.getLogger("headway.serve")
RATER = "proxy:"
INTERRUPTED = "interrupted"  # the code of an attempt whose server ended before it did
TOO_SMALL = "upstream_too_small"  # the code of a request that is too long for an upstream
FAULTLESS = frozenset({"", INTERRUPTED, TOO_SMALL})  # codes that say nothing about the upstream
_FREE = frozenset({"upstream_unreachable", "upstream_status", "upstream_busy", TOO_SMALL})  # nothing was generated


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One decision and the call that it led to; `request` is the first decision of the same request."""

    call: Call
    wire: ApiFormat
    upstream: Upstream
    breakers: Breakers
    decision: Decision
    request: Decision
    traceparent: str
    client_request: str = ""  # the client's own id of its request
    after: Decision | None = None  # the attempt before it
    number: int = 1
    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0
    first_token_s: float | None = None
    span: CallSpan | None = None
    reply: StreamedReply | None = None  # collects a streamed answer that is kept

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
        retry_after_s: float = 0.0,
        gone: bool = False,
        partial: bool = False,
        reply: str = "",
        **answer: str,
    ) -> None:
        """Store the signals and the kept reply, once. What cannot be stored is logged; the answer is sent anyway.

        `partial`: the answer broke off, so its tokens were not counted to the end.
        """
        if self.ended:
            return
        self.ended = time.perf_counter()
        self._tell_breaker(http_status, failed, retry_after_s, gone=gone)
        if self.keeps and (reply or (self.reply is not None and (reply := self.reply.text))):
            await self._keep(reply)
        refused = failed in _FREE or http_status in AT_FAULT
        seen = {
            "first_token_s": self.first_token_s,
            "http_status": float(http_status) or None,
            "failed": 1.0 if failed else None,
            "client_gone": 1.0 if gone else None,
        }
        measured = {
            "latency_s": self.ended - self.began,
            **counts(usage, self.upstream, refused=refused, partial=partial),
            **{name: value for name, value in seen.items() if value is not None},
        }
        if self.span is not None:
            self.span.end(measured, failed=failed, **answer)
        labels = {
            "failed": failed,
            "http_status": answer.get("upstream_id", ""),
            "attempt": self.after.id if self.after is not None else "",
            "traceparent": self.traceparent,
            "request_id": self.client_request,
        }
        await self._store(measured | self._names(), labels)

    def _names(self) -> dict[str, float]:
        """Signals whose labels say to what the attempt belongs."""
        named = {}
        if self.after is not None and ids.is_episode(self.decision.unit):  # a step: the episode is the unit
            named["attempt"] = float(self.number)
        if self.traceparent:
            named["traceparent"] = float(int(self.traceparent[-2:], 16) & 1)
        if self.client_request:
            named["request_id"] = 1.0
        return named

    def _tell_breaker(self, http_status: int, failed: str, retry_after_s: float, *, gone: bool) -> None:
        """What the call says about its upstream."""
        name = self.upstream.name
        if gone or (failed in FAULTLESS and failed) or http_status in AT_FAULT:
            self.breakers.unknown(name)
        elif failed:
            self.breakers.failed(name, failed, self.decision.at, retry_after_s=retry_after_s)
        else:
            self.breakers.answered(name, self.decision.at)

    async def _keep(self, text: str) -> None:
        """The answer belongs to the request, whichever attempt gave it."""
        project = self.call.server.project
        details = reply_details(
            text,
            project.redact,
            upstream=self.upstream.name,
            role=self.decision.situation.role,
            latency_s=self.ended - self.began,
        )
        try:
            await asyncio.wrap_future(project.store.submit_details(self.request.id, details))
        except errors.HeadwayError as error:
            logger.warning("reply of %s not kept: %s", self.request.id, error.message)

    async def _store(self, measured: Mapping[str, float], labels: Mapping[str, str]) -> None:
        project = self.call.server.project
        rows = []
        for name, value in measured.items():
            try:
                rows += project.checked_signals(
                    self.decision.id, {name: value}, rater=RATER, label=labels.get(name, "")
                )
            except errors.InvalidInput as error:  # the task's reward table defines this signal differently
                logger.warning("signal=%s of %s not stored: %s", name, self.decision.id, error.message)
        try:
            await asyncio.wrap_future(project.submit_signals(rows))
        except errors.HeadwayError as error:
            logger.warning("signals of %s not stored: %s", self.decision.id, error.message)
            return
        self.call.server.metrics.count("signals", "all", len(rows))


def counts(usage: TokenUsage, upstream: Upstream, *, refused: bool = False, partial: bool = False) -> dict[str, float]:
    """Tokens and their cost; a refused call and a free upstream cost nothing; without a price, nobody knows."""
    counted = {
        name: float(tokens)
        for name, tokens in (
            ("prompt_tokens", usage.prompt),
            ("completion_tokens", usage.completion),
            ("cached_tokens", usage.cached or None),
        )
        if tokens is not None
    }
    priced = ((usage.prompt, upstream.price_in), (usage.completion, upstream.price_out))
    if not refused and (not upstream.priced or any(price and (tokens is None or partial) for tokens, price in priced)):
        return {**counted, "cost_unknown": 1.0}
    cost = upstream.cost_usd(usage.prompt or 0, usage.completion or 0, usage.cached or 0)
    return {**counted, "cost_usd": cost}
