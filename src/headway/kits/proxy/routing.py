"""Route one request: decide, call the upstream, fall back to another one, and store the outcome.

Every attempt is a separate decision. The first is drawn among all candidates. If its upstream fails, that decision is
stored as failed, and the same policy draws the next one among the remaining candidates. Its propensity is exact for
that candidate set; `primary_failure_count` in its state tells why the set is smaller. A request is never retried on the
same upstream, and not at all once the client has received a byte.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headway.kits.proxy.conversations import Body, Conversation, RequestOptions, conversation_name
from headway.kits.proxy.relay import Attempt, Relay
from headway.kits.proxy.replies import whole_reply
from headway.kits.proxy.upstreams import AT_FAULT, Slot, UpstreamAnswer, UpstreamFailed, Upstreams
from headway.kits.proxy.wire import ApiFormat, DecisionFields, TokenUsage
from headway.nouns import Decision, HeadwayError
from headway.project import Ask, Details
from headway.serve import Call, ErrorDetail, Reply, Stream
from headway.settings import Upstream

logger = logging.getLogger("headway.serve")
MOST_ATTEMPTS = 3
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")


def traceparent_of(header: str) -> str:
    """The W3C trace context of a request, or nothing if it is not one."""
    return header if _TRACEPARENT.match(header) else ""


@dataclass(slots=True, kw_only=True)
class Routing:
    """A request whose upstream is chosen by a task."""

    call: Call
    wire: ApiFormat
    upstreams: Upstreams
    body: Body
    options: RequestOptions
    conversation: Conversation
    task: str
    candidates: tuple[str, ...]
    query: str = ""
    previous: str = ""  # Responses: the upstream's id of the previous response
    episode: str | None = None

    async def answer(self, slot: Slot) -> Reply | Stream:
        """The answer of the first upstream that does not fail."""
        settings = self.call.server.project.settings
        traceparent = traceparent_of(self.call.header("traceparent"))
        left, failures = list(self.candidates), list[tuple[Decision, UpstreamFailed]]()
        while True:
            decision = await self._decide(left, len(failures))
            upstream = settings.upstream(decision.action)
            attempt = Attempt(
                call=self.call,
                wire=self.wire,
                upstream=upstream,
                decision=decision,
                traceparent=traceparent,
                after=failures[-1][0] if failures else None,
                number=len(failures) + 1,
            )
            try:
                return await self._try(attempt, slot, failures)
            except UpstreamFailed as error:
                await attempt.finish(TokenUsage(), http_status=error.http_status, failed=error.code)
                logger.warning("upstream=%s failed=%s status=%d", upstream.name, error.code, error.http_status)
                failures.append((decision, error))
                left.remove(decision.action)
                if not left or len(failures) == MOST_ATTEMPTS:
                    raise NoUpstreamAnswered(decision, error) from error

    async def _decide(self, left: list[str], failures: int) -> Decision:
        project = self.call.server.project
        state = {**self.conversation.state, **(self.options.state or {})}
        before = state.get("primary_failure_count", 0)
        state["primary_failure_count"] = failures + (before if isinstance(before, int) else 0)
        sticky = project.settings.task(self.task).sticky
        episode = self.options.episode or self.episode
        if episode is None and sticky:
            episode = conversation_name(self.task, self.call.key, self.conversation)

        text = self.conversation.shortened(project.redact)
        details: Details = {"state": state, "episode": episode, "role": self.options.role, "key": self.call.key}
        if self.task in project.servings.slow:  # puts the vector into the cache before the decision
            await self.call.in_thread(project.servings.prepare, project.settings.task(self.task), [text])
        # After a failure, this is a second draw in the same episode, which keeps its first draw.
        ask = Ask(self.task, text, left, details)
        stored, _ = await asyncio.wrap_future(project.submit_ask(ask, opening=not failures))
        self.call.server.metrics.count("decisions", self.task)
        return stored

    async def _try(
        self, attempt: Attempt, slot: Slot, failures: list[tuple[Decision, UpstreamFailed]]
    ) -> Reply | Stream:
        upstream, decision = attempt.upstream, attempt.decision
        added = DecisionFields(id=decision.id, extras=_extras(decision, failures), previous=self.conversation.previous)
        body = dict(self.body)
        if self.previous:
            body["previous_response_id"] = msgspec.Raw(msgspec.json.encode(self.previous))
        headers = {"x-headway-decision": decision.id}
        until = time.monotonic() + upstream.timeout_s
        answer = await open_upstream(
            self.call,
            self.wire,
            self.upstreams,
            upstream,
            body,
            stream=self.conversation.stream,
            query=self.query,
            until=until,
            decided=True,
        )
        try:
            if answer.status in AT_FAULT:
                refusal = await answer.beginning(until)
                if self.wire.too_long(refusal):
                    why = "has a context window that is too small"
                    raise UpstreamFailed(upstream.name, "upstream_too_small", why, http_status=answer.status)
                await attempt.finish(TokenUsage(), http_status=answer.status)
                return pass_on(self.wire, answer, refusal, headers)
            if self.conversation.stream:
                relay = Relay(
                    self.wire,
                    answer,
                    slot,
                    attempt,
                    self.wire.rewriter(upstream.name, self.body, added),
                    self.call.server.settings.max_batch_bytes,
                )
                await relay.begin()
                return Stream(chunks=relay, headers=headers | request_id(answer))
            whole = self.wire.whole(upstream.name, await answer.whole(until), added)
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


class NoUpstreamAnswered(HeadwayError):
    """Every upstream that was tried has failed; `decision` is the last attempt."""

    def __init__(self, decision: Decision, error: UpstreamFailed) -> None:
        super().__init__(error.message, code=error.code, hint=error.hint)
        self.status = error.status
        self.decision = decision
        self.retry_after = error.retry_after


async def open_upstream(
    call: Call,
    wire: ApiFormat,
    upstreams: Upstreams,
    upstream: Upstream,
    body: Body,
    *,
    stream: bool,
    query: str,
    until: float,
    decided: bool,
) -> UpstreamAnswer:
    """Call an upstream with its own key. The client's credentials are never forwarded."""
    key = upstreams.settings.key(upstream.key_env) if upstream.key_env else ""
    return await upstreams.open(
        upstream,
        wire.path + query,
        wire.request(body, upstream, decided=decided),
        wire.headers(call, key),
        key=key,
        stream=stream,
        until=until,
    )


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


def _extras(decision: Decision, failures: list[tuple[Decision, UpstreamFailed]]) -> dict[str, Any]:
    extras: dict[str, Any] = {
        "decision": decision.id,
        "task": decision.task,
        "upstream": decision.action,
        "policy": decision.policy,
        "propensity": decision.propensity,
    }
    if failures:
        extras["failed"] = [
            {"decision": failed.id, "upstream": failed.action, "code": error.code} for failed, error in failures
        ]
    return extras
