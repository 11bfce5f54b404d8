"""OpenAI's chat completions, as a wire format."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.kits.proxy.conversations import Body, Conversation, of_chat, plain
from headway.kits.proxy.events import StreamEvent, event_bytes
from headway.kits.proxy.upstreams import UpstreamFailed
from headway.kits.proxy.wire import (
    DecisionFields,
    StreamRewriter,
    StreamState,
    TokenUsage,
    WholeAnswer,
    cached,
    count,
    fields_of,
    malformed,
    prepared,
    raw,
)
from headway.serve import Call, ErrorDetail
from headway.settings import Upstream

_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_KINDS |= {409: "conflict_error", 413: "request_too_large", 422: "invalid_request_error", 429: "rate_limit_error"}


class Chat:
    """POST /chat/completions."""

    name = "chat"
    provider = "openai"
    path = "/chat/completions"
    limits: tuple[str, ...] = ("max_completion_tokens", "max_tokens")

    def headers(self, call: Call, key: str) -> list[tuple[str, str]]:  # noqa: ARG002 — an ApiFormat
        return [("authorization", f"Bearer {key}")] if key else []

    def read(self, body: Body) -> Conversation:
        return of_chat(body)

    def request(self, body: Body, upstream: Upstream, *, decided: bool) -> bytes:
        """A decided stream always requests usage, and hides it from a client that did not request it."""
        fields = prepared(body, upstream, self.limits)
        if decided and plain(body, "stream") is True and not _wants_usage(body):
            options = plain(body, "stream_options")
            fields["stream_options"] = raw({**(options if isinstance(options, dict) else {}), "include_usage": True})
        return msgspec.json.encode(fields)

    def whole(self, upstream: str, body: bytes, added: DecisionFields) -> WholeAnswer:
        fields = fields_of(upstream, body)
        if "choices" not in fields:
            raise malformed(upstream)
        upstream_id, model = text_field(fields, "id"), text_field(fields, "model")
        fields["id"], fields["headway"] = raw(added.id), raw(added.extras)
        return WholeAnswer(body=msgspec.json.encode(fields), usage=_usage(fields), upstream_id=upstream_id, model=model)

    def rewriter(self, upstream: str, body: Body, added: DecisionFields) -> StreamRewriter:
        return ChatStream(upstream, added, hide_usage=not _wants_usage(body))

    def too_long(self, body: bytes) -> bool:
        """Whether a 400 means that the context window is too small; another upstream may have a larger one."""
        return b"context_length_exceeded" in body

    def problem(self, status: int, detail: ErrorDetail) -> bytes:
        return msgspec.json.encode({"error": error_body(status, detail)})

    def event_problem(self, detail: ErrorDetail) -> bytes:
        return event_bytes(b"", self.problem(502, detail))


def error_kind(status: int) -> str:
    return _KINDS.get(status, "api_error")


def error_body(status: int, detail: ErrorDetail) -> dict[str, Any]:
    """Our three fields, plus `type` and `param`, which OpenAI's SDKs show."""
    return {
        "message": f"{detail.message} {detail.hint}".strip(),  # SDKs show the message alone
        "type": error_kind(status),
        "param": None,
        "code": detail.code,
        "hint": detail.hint,
    }


class ChatStream(StreamState):
    """chat.completion.chunk events; [DONE] ends the stream."""

    def __init__(self, upstream: str, added: DecisionFields, *, hide_usage: bool) -> None:
        super().__init__(upstream, added)
        self._id = raw(added.id)
        self._extras: msgspec.Raw | None = raw(added.extras)
        self._hide_usage = hide_usage

    def rewrite(self, event: StreamEvent) -> bytes:
        if event.data is None:
            return event.raw
        if event.data.strip() == b"[DONE]":
            self.complete = self.finished = True
            return event.raw
        fields = fields_of(self._upstream, event.data)
        if _has(fields, "error"):
            raise UpstreamFailed(self._upstream, "upstream_error", "reported an error in its stream")
        choices = plain(fields, "choices")
        if not isinstance(choices, list):
            raise malformed(self._upstream)
        self._inspect(choices)
        if _has(fields, "usage"):
            self.usage = _usage(fields)
            if not choices and self._hide_usage:
                return b""
        if not self.upstream_id:
            self.upstream_id, self.model = text_field(fields, "id"), text_field(fields, "model")
        fields["id"] = self._id
        if self._extras is not None:
            fields["headway"], self._extras = self._extras, None
        return event_bytes(event.name, msgspec.json.encode(fields))

    def _inspect(self, choices: list[Any]) -> None:
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            delta = choice.get("delta")
            if isinstance(delta, dict) and any(value for name, value in delta.items() if name != "role"):
                self.started = True
            if choice.get("finish_reason"):
                self.complete = True


def text_field(fields: Body, name: str) -> str:
    value = plain(fields, name)
    return value[:200] if isinstance(value, str) and value.isprintable() else ""


def _has(fields: Body, name: str) -> bool:
    return name in fields and bytes(fields[name]) != b"null"


def _wants_usage(body: Body) -> bool:
    options = plain(body, "stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _usage(fields: Body) -> TokenUsage:
    usage = plain(fields, "usage")
    if not isinstance(usage, dict):
        return TokenUsage()
    return TokenUsage(
        prompt=count(usage.get("prompt_tokens")),
        completion=count(usage.get("completion_tokens")),
        cached=cached(usage, "prompt_tokens_details"),
    )
