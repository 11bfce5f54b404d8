"""Route one request: decide, call the upstream, fall back to another one, and store the outcome.

A request is one decision, and its attempts are stored inside it. The first upstream is drawn among those whose breaker
is closed; its action and propensity are the request's. If it fails, the same policy draws the next one among the rest:
that is an attempt of the same request (`unit`, `position`), with an exact propensity of its own that never counts as
evidence. A call is never retried on the same upstream, and not at all once the client has received a byte.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headway.kits.proxy.attempts import FAULTLESS, INTERRUPTED, TOO_SMALL, Attempt
from headway.kits.proxy.conversations import Body, Conversation, RequestOptions, conversation_name
from headway.kits.proxy.relay import Relay
from headway.kits.proxy.replies import whole_reply
from headway.kits.proxy.requests import FAILURES, Resumed, detail_of, resume
from headway.kits.proxy.upstreams import AT_FAULT, Slot, UpstreamAnswer, UpstreamFailed, Upstreams
from headway.kits.proxy.wire import ApiFormat, DecisionFields, TokenUsage
from headway.nouns import Decision, errors
from headway.project import Ask, Details
from headway.serve import Call, ErrorDetail, Reply, Stream
from headway.settings import Upstream

logger = logging.getLogger("headway.serve")
MOST_ATTEMPTS = 3
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")


def traceparent_of(header: str) -> str:
    """The W3C trace context of a request, or nothing if it is not one."""
    return header if _TRACEPARENT.match(header) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedRequest:
    """A request in any wire format, as it came."""

    call: Call
    wire: ApiFormat
    upstreams: Upstreams
    body: Body
    options: RequestOptions
    conversation: Conversation
    query: str = ""

    async def open(self, upstream: Upstream, body: Body, *, until: float, decided: bool) -> UpstreamAnswer:
        """Call an upstream with its own key. The client's credentials are never forwarded."""
        key = self.upstreams.settings.key(upstream.key_env) if upstream.key_env else ""
        return await self.upstreams.open(
            upstream,
            self.wire.path + self.query,
            self.wire.request(body, upstream, decided=decided),
            self.wire.headers(self.call, key),
            key=key,
            stream=self.conversation.stream,
            until=until,
        )


@dataclass(slots=True, kw_only=True)
class Routing:
    """A request whose upstream is chosen by a task."""

    asked: ProxiedRequest
    task: str
    candidates: tuple[str, ...]
    previous: str = ""  # Responses: the upstream's id of the previous response
    episode: str | None = None
    first: Decision | None = None  # of the request
    made: int = 0  # its attempts so far
    _failed: str = ""  # the upstream that failed last
    _missed: set[str] = field(default_factory=set)  # upstreams whose outage sent this request elsewhere

    async def answer(self, slot: Slot) -> Reply | Stream:
        """The answer of the first upstream that does not fail."""
        settings = self.asked.call.server.project.settings
        left, failures = list(self.candidates), list[tuple[Decision, UpstreamFailed]]()
        before: Attempt | None = None
        if self.asked.options.idempotency_key:
            slot.name(self._named)
            if (resumed := await self._resumed()) is not None:
                left = self._carry_on(resumed)
        while True:
            decision = await self._draw(tuple(left), failures)
            upstream = settings.upstream(decision.action)
            attempt = Attempt(
                call=self.asked.call,
                wire=self.asked.wire,
                upstream=upstream,
                breakers=self.asked.upstreams.breakers,
                decision=decision,
                request=self.first or decision,
                traceparent=traceparent_of(self.asked.call.header("traceparent")),
                client_request=self.asked.options.request_id,
                after=before.decision if before is not None else None,
                number=self.made,
            )
            if before is not None:
                attempt.began = before.ended
            try:
                return await self._try(attempt, slot, failures)
            except UpstreamFailed as error:
                await attempt.finish(
                    TokenUsage(),
                    http_status=error.http_status,
                    failed=error.code,
                    retry_after_s=float(error.retry_after or 0.0),
                )
                logger.warning("upstream=%s failed=%s status=%d", upstream.name, error.code, error.http_status)
                failures.append((decision, error))
                left.remove(decision.action)
                if not left or len(failures) == MOST_ATTEMPTS:
                    raise NoUpstreamAnswered(attempt.request, error) from error
                self._failed = "" if error.code in FAULTLESS else decision.action
                before = attempt
            except asyncio.CancelledError:
                await asyncio.shield(attempt.finish(TokenUsage(), gone=True))
                raise
            except BaseException:
                await attempt.finish(TokenUsage(), failed=INTERRUPTED)
                raise

    # -- the draw

    async def _draw(self, ready: tuple[str, ...], failures: list[tuple[Decision, UpstreamFailed]]) -> Decision:
        """The decision of the next attempt, among those that are not down: their state is fixed before the draw."""
        breakers = self.asked.upstreams.breakers
        offer = breakers.offer(ready)
        drawn = ""
        try:
            decision, new = await self._decide(offer.names, offer.left_out, len(failures))
            drawn = decision.action if new else ""
        finally:
            breakers.settle(offer, drawn)
        if not new and self.first is None and (resumed := await self._resumed()) is not None:
            return await self._draw(tuple(self._carry_on(resumed)), failures)  # another worker was faster
        if self.first is None:
            self.first = decision
        self.made += 1
        moved = (self._failed,) if self._failed not in ("", decision.action) else ()
        self._went_elsewhere((*offer.left_out, *moved))
        return decision

    def _went_elsewhere(self, upstreams: tuple[str, ...]) -> None:
        """Count this request once for each upstream that was down."""
        for name in upstreams:
            if name not in self._missed:
                self._missed.add(name)
                self.asked.upstreams.breakers.elsewhere(name)

    def _situation(self, failures: int) -> tuple[str, dict[str, Any]]:
        """The text and the state that the policy sees."""
        state = {**self.asked.conversation.state, **(self.asked.options.state or {})}
        before = state.get(FAILURES, 0)
        state[FAILURES] = failures + (before if isinstance(before, int) else 0)
        return self.asked.conversation.shortened(self.asked.call.server.project.redact), state

    async def _decide(self, names: tuple[str, ...], left_out: tuple[str, ...], failures: int) -> tuple[Decision, bool]:
        project = self.asked.call.server.project
        settings = project.settings.task(self.task)
        episode = self.asked.options.episode or self.episode
        if episode is None and settings.sticky:
            episode = conversation_name(self.task, self.asked.call.key, self.asked.conversation)
        text, state = self._situation(failures)
        details: Details = {
            "state": state,
            "episode": episode,
            "role": self.asked.options.role,
            "key": self.asked.call.key,
        }
        if self.first is None:
            if self.asked.options.idempotency_key:
                details["idempotency_key"] = self.asked.options.idempotency_key
        elif settings.unit == "request":
            details["unit"], details["position"] = self.first.id, self.made
        if self.task in project.servings.slow:  # puts the vector into the cache before the decision
            await self.asked.call.in_thread(project.servings.prepare, settings, [text])
        ask = Ask(self.task, text, names, details)
        storing = project.submit_ask(ask, opening=self.first is None, details=(detail_of(left_out),))
        stored = await asyncio.wrap_future(storing)
        self.asked.call.server.metrics.count("decisions", self.task)
        return stored

    # -- a request that was seen before

    @property
    def _named(self) -> str:
        """The id of the request that its client has named."""
        query = self.asked.call.server.project.query
        return query.keyed_id(self.task, self.asked.call.key, self.asked.options.idempotency_key)

    async def _resumed(self) -> Resumed | None:
        """The request of the same idempotency key, if there is one that is over."""
        project = self.asked.call.server.project
        text, state = self._situation(0)
        return await self.asked.call.in_thread(
            resume, project, self._named, project.redact(text), project.redact.state(state)
        )

    def _carry_on(self, resumed: Resumed) -> list[str]:
        """The upstreams that may answer it now."""
        self.first, self.made = resumed.first, resumed.made
        self._failed, self._missed = resumed.failed, resumed.missed
        return [resumed.served] if resumed.served in self.candidates else list(self.candidates)

    # -- the call

    async def _try(
        self, attempt: Attempt, slot: Slot, failures: list[tuple[Decision, UpstreamFailed]]
    ) -> Reply | Stream:
        upstream, request = attempt.upstream, attempt.request
        added = DecisionFields(
            id=request.id, extras=_extras(attempt, failures), previous=self.asked.conversation.previous
        )
        body = dict(self.asked.body)
        if self.previous:
            body["previous_response_id"] = msgspec.Raw(msgspec.json.encode(self.previous))
        headers = {"x-headway-decision": request.id}
        until = time.monotonic() + upstream.timeout_s
        answer = await self.asked.open(upstream, body, until=until, decided=True)
        try:
            if answer.status in AT_FAULT:
                refusal = await answer.beginning(until)
                if self.asked.wire.too_long(refusal):
                    why = "has a context window that is too small"
                    raise UpstreamFailed(upstream.name, TOO_SMALL, why, http_status=answer.status)
                await attempt.finish(TokenUsage(), http_status=answer.status)
                return pass_on(self.asked.wire, answer, refusal, headers)
            if self.asked.conversation.stream:
                relay = Relay(
                    self.asked.wire,
                    answer,
                    slot,
                    attempt,
                    self.asked.wire.rewriter(upstream.name, self.asked.body, added),
                    self.asked.call.server.settings.max_batch_bytes,
                )
                await relay.begin()
                return Stream(chunks=relay, headers=headers | request_id(answer))
            whole = self.asked.wire.whole(upstream.name, await answer.whole(until), added)
        except BaseException:
            await answer.close()
            raise
        await answer.close()
        await attempt.finish(
            whole.usage,
            http_status=answer.status,
            reply=whole_reply(whole.body) if attempt.keeps else "",
            upstream_id=whole.upstream_id,
            model=whole.model,
        )
        return Reply(body=whole.body, headers=headers | request_id(answer))


class NoUpstreamAnswered(errors.HeadwayError):
    """Every upstream that was tried has failed; `decision` is the request's."""

    def __init__(self, decision: Decision, error: UpstreamFailed) -> None:
        super().__init__(error.message, code=error.code, hint=error.hint)
        self.status = error.status
        self.decision = decision
        self.retry_after = error.retry_after


def pass_on(wire: ApiFormat, answer: UpstreamAnswer, body: bytes, headers: Mapping[str, str]) -> Reply:
    """The upstream's error response, unchanged if it is JSON."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        detail = ErrorDetail("refused_upstream", f"The upstream refused the request ({answer.status}).")
        body = wire.problem(answer.status, detail)
    return Reply(body=body, status=answer.status, headers={**headers, **request_id(answer)})


def request_id(answer: UpstreamAnswer) -> dict[str, str]:
    """The upstream's id of this request, which its support team asks for."""
    name = answer.headers.get("x-request-id") or answer.headers.get("request-id") or ""
    usable = name.isascii() and name.isprintable() and 0 < len(name) <= 200
    return {"x-request-id": name} if usable else {}


def _extras(attempt: Attempt, failures: list[tuple[Decision, UpstreamFailed]]) -> dict[str, Any]:
    request = attempt.request
    extras: dict[str, Any] = {
        "decision": request.id,
        "task": request.task,
        "upstream": attempt.decision.action,
        "policy": request.policy,
        "propensity": request.propensity,
    }
    if failures:
        extras["failed"] = [
            {"decision": failed.id, "upstream": failed.action, "code": error.code} for failed, error in failures
        ]
    return extras
