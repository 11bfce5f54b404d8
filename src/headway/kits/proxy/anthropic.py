"""Anthropic's endpoint: messages, routed like chat completions.

    client = Anthropic(base_url="http://127.0.0.1:8765", api_key="-")
    client.messages.create(model="headway/route", max_tokens=200, messages=[…])     # .id is the decision's id

Headway calls the upstream in the format that the client used, at `messages` under its URL. Every upstream of a task
that is used here must support that format.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec

from headway.kits.proxy.answer import answer
from headway.kits.proxy.conversations import Body, Conversation, of_chat, plain
from headway.kits.proxy.events import StreamEvent, event_bytes
from headway.kits.proxy.openai_chat import error_kind, text_field
from headway.kits.proxy.wire import (
    DecisionFields,
    StreamRewriter,
    StreamState,
    TokenUsage,
    WholeAnswer,
    count,
    fields_of,
    malformed,
    prepared,
    raw,
)
from headway.serve import Call, ErrorDetail, Reply, Stream, endpoint, strict
from headway.settings import Upstream

_FORWARDED = ("anthropic-version", "anthropic-beta")
_HEADER = re.compile(r"[A-Za-z0-9 ,._=;:-]{1,500}\Z")
_KINDS = {502: "api_error", 503: "overloaded_error", 504: "timeout_error"}


class Messages:
    """POST /messages."""

    name = "chat"
    provider = "anthropic"
    path = "/messages"
    limits: tuple[str, ...] = ("max_tokens",)

    def headers(self, call: Call, key: str) -> list[tuple[str, str]]:
        headers = {"anthropic-version": "2023-06-01"}
        headers |= {name: value for name in _FORWARDED if _HEADER.match(value := call.header(name))}
        if key:
            headers["x-api-key"] = key
        return list(headers.items())

    def read(self, body: Body) -> Conversation:
        return of_chat(body, system="system")

    def request(self, body: Body, upstream: Upstream, *, decided: bool) -> bytes:  # noqa: ARG002 — an ApiFormat
        return msgspec.json.encode(prepared(body, upstream, self.limits))

    def whole(self, upstream: str, body: bytes, added: DecisionFields) -> WholeAnswer:
        fields = fields_of(upstream, body)
        if plain(fields, "type") != "message":
            raise malformed(upstream)
        upstream_id, model, usage = text_field(fields, "id"), text_field(fields, "model"), _usage(fields)
        fields["id"], fields["headway"] = raw(added.id), raw(added.extras)
        return WholeAnswer(body=msgspec.json.encode(fields), usage=usage, upstream_id=upstream_id, model=model)

    def rewriter(self, upstream: str, body: Body, added: DecisionFields) -> StreamRewriter:  # noqa: ARG002 — an ApiFormat
        return MessageStream(upstream, added)

    def too_long(self, body: bytes) -> bool:
        return b"prompt is too long" in body

    def problem(self, status: int, detail: ErrorDetail) -> bytes:
        """Anthropic's SDK reads `type` at both levels; our three fields are next to the inner one."""
        kind = _KINDS.get(status) or error_kind(status)
        message = f"{detail.message} {detail.hint}".strip()  # SDKs show the message alone
        error = {"type": kind, "message": message, "code": detail.code, "hint": detail.hint}
        return msgspec.json.encode({"type": "error", "error": error})

    def event_problem(self, detail: ErrorDetail) -> bytes:
        return event_bytes(b"error", self.problem(502, detail))


class MessageStream(StreamState):
    """message_start … message_stop; the message itself is in the first event."""

    def rewrite(self, event: StreamEvent) -> bytes:
        if event.data is None:
            return event.raw
        fields = fields_of(self._upstream, event.data)
        kind = self._kind(fields)
        if kind == "message_start":
            return self._start(event, fields)
        if kind == "content_block_delta":
            self.started = True
        elif kind == "message_delta":
            self._add(_usage(fields))
        elif kind == "message_stop":
            self.complete = self.finished = True
        return event.raw

    def _start(self, event: StreamEvent, fields: Body) -> bytes:
        if "message" not in fields:
            raise malformed(self._upstream)
        message = fields_of(self._upstream, bytes(fields["message"]))
        self.upstream_id, self.model = text_field(message, "id"), text_field(message, "model")
        self._add(_usage(message))
        message["id"], message["headway"] = raw(self._added.id), raw(self._added.extras)
        fields["message"] = msgspec.Raw(msgspec.json.encode(message))
        return event_bytes(event.name, msgspec.json.encode(fields))

    def _add(self, usage: TokenUsage) -> None:
        """Later counts replace earlier ones, because they are running totals."""
        self.usage = TokenUsage(
            prompt=self.usage.prompt if usage.prompt is None else usage.prompt,
            completion=self.usage.completion if usage.completion is None else usage.completion,
            cached=self.usage.cached if usage.cached is None else usage.cached,
        )


def _usage(fields: Body) -> TokenUsage:
    """Tokens that were read from a cache or written to one count as prompt tokens."""
    usage = plain(fields, "usage")
    if not isinstance(usage, dict):
        return TokenUsage()
    parts = [
        count(usage.get(name)) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    prompt = None if parts[0] is None else sum(part or 0 for part in parts)
    return TokenUsage(prompt=prompt, completion=count(usage.get("output_tokens")), cached=parts[1])


_MESSAGES = Messages()


class MessagesQuery(strict):
    """Anthropic's SDK selects its beta interface with a query parameter."""

    beta: bool | None = None


_post = partial(
    endpoint, "POST", takes=msgspec.Raw, query=MessagesQuery, gives=dict[str, Any], errors=(404, 409, 502, 504),
    scope="decide", batch=True,
)  # fmt: skip


@_post("/v1/messages")
async def messages(call: Call, body: bytes) -> Reply | Stream:
    """Anthropic's messages; `model: "headway/TASK"` decides among upstreams, and `id` is the decision's id."""
    return await answer(call, body, _MESSAGES, query=_beta(call))


@_post("/e/{episode}/v1/messages")
async def messages_of_episode(call: Call, body: bytes) -> Reply | Stream:
    """The same, as a step of an episode."""
    return await answer(call, body, _MESSAGES, query=_beta(call))


def _beta(call: Call) -> str:
    query: MessagesQuery = call.query
    return "?beta=true" if query.beta else ""
