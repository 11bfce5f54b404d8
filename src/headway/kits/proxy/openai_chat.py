"""OpenAI's chat completions, as a wire format."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.kits.proxy.conversations import Body, Conversation, of_chat, plain
from headway.kits.proxy.events import StreamEvent, event_bytes
from headway.kits.proxy.formats import Given, Rewriting, TokenUsage, Whole, count, fields_of, malformed, prepared, raw
from headway.kits.proxy.upstreams import UpstreamFailed
from headway.serve.endpoint import Call
from headway.serve.errors import ErrorDetail
from headway.settings import Upstream

__all__ = ["Chat", "error_body", "error_kind"]

_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_KINDS |= {409: "conflict_error", 413: "request_too_large", 422: "invalid_request_error", 429: "rate_limit_error"}


class Chat:
    """POST /chat/completions."""

    name = "chat"
    provider = "openai"
    path = "/chat/completions"
    limits: tuple[str, ...] = ("max_completion_tokens", "max_tokens")

    def headers(self, call: Call, key: str) -> list[tuple[str, str]]:  # noqa: ARG002 — a ApiFormat
        return [("authorization", f"Bearer {key}")] if key else []

    def read(self, body: Body) -> Conversation:
        return of_chat(body)

    def request(self, body: Body, upstream: Upstream, *, decided: bool) -> bytes:
        """A decided stream also asks for its usage, which a client that did not ask will not see."""
        found = prepared(body, upstream, self.limits)
        if decided and plain(body, "stream") is True and not _wants_usage(body):
            options = plain(body, "stream_options")
            found["stream_options"] = raw({**(options if isinstance(options, dict) else {}), "include_usage": True})
        return msgspec.json.encode(found)

    def whole(self, upstream: str, body: bytes, given: Given) -> Whole:
        fields = fields_of(upstream, body)
        if "choices" not in fields:
            raise malformed(upstream)
        named, model = text_field(fields, "id"), text_field(fields, "model")
        fields["id"], fields["headway"] = raw(given.id), raw(given.extras)
        return Whole(body=msgspec.json.encode(fields), usage=_usage(fields), upstream_id=named, model=model)

    def rewriting(self, upstream: str, body: Body, given: Given) -> Rewriting:
        return ChatStream(upstream, given, hide_usage=not _wants_usage(body))

    def too_long(self, body: bytes) -> bool:
        """Whether a 400 means that this upstream's window is too small: another one's may not be."""
        return b"context_length_exceeded" in body

    def problem(self, status: int, detail: ErrorDetail) -> bytes:
        return msgspec.json.encode({"error": error_body(status, detail)})

    def event_problem(self, detail: ErrorDetail) -> bytes:
        return event_bytes(b"", self.problem(502, detail))


def error_kind(status: int) -> str:
    return _KINDS.get(status, "api_error")


def error_body(status: int, detail: ErrorDetail) -> dict[str, Any]:
    """Our three fields, and `type` and `param`, which OpenAI's SDKs show."""
    return {
        "message": detail.message,
        "type": error_kind(status),
        "param": None,
        "code": detail.code,
        "hint": detail.hint,
    }


class ChatStream:
    """chat.completion.chunk events, ended by [DONE]."""

    def __init__(self, upstream: str, given: Given, *, hide_usage: bool) -> None:
        self.usage = TokenUsage()
        self.upstream_id = self.model = self.failed = ""
        self.begun = self.complete = self.finished = False
        self._upstream = upstream
        self._id = raw(given.id)
        self._extras: msgspec.Raw | None = raw(given.extras)
        self._hide_usage = hide_usage

    def rewrite(self, event: StreamEvent) -> bytes:
        if event.data is None:
            return event.raw
        if event.data.strip() == b"[DONE]":
            self.complete = self.finished = True
            return event.raw
        fields = fields_of(self._upstream, event.data)
        if _there(fields, "error"):
            raise UpstreamFailed(self._upstream, "upstream_error", "reported an error in its stream")
        choices = plain(fields, "choices")
        if not isinstance(choices, list):
            raise malformed(self._upstream)
        self._look(choices)
        if _there(fields, "usage"):
            self.usage = _usage(fields)
            if not choices and self._hide_usage:
                return b""
        if not self.upstream_id:
            self.upstream_id, self.model = text_field(fields, "id"), text_field(fields, "model")
        fields["id"] = self._id
        if self._extras is not None:
            fields["headway"], self._extras = self._extras, None
        return event_bytes(event.name, msgspec.json.encode(fields))

    def _look(self, choices: list[Any]) -> None:
        for each in choices:
            if not isinstance(each, dict):
                continue
            delta = each.get("delta")
            if isinstance(delta, dict) and any(value for name, value in delta.items() if name != "role"):
                self.begun = True
            if each.get("finish_reason"):
                self.complete = True


def text_field(fields: Body, name: str) -> str:
    found = plain(fields, name)
    return found[:200] if isinstance(found, str) and found.isprintable() else ""


def _there(fields: Body, name: str) -> bool:
    return name in fields and bytes(fields[name]) != b"null"


def _wants_usage(body: Body) -> bool:
    options = plain(body, "stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _usage(fields: Body) -> TokenUsage:
    found = plain(fields, "usage")
    if not isinstance(found, dict):
        return TokenUsage()
    return TokenUsage(prompt=count(found.get("prompt_tokens")), completion=count(found.get("completion_tokens")))
