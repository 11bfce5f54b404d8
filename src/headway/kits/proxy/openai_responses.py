"""OpenAI's Responses, as a wire format."""

from __future__ import annotations

import msgspec

from headway.kits.proxy.conversations import Body, Conversation, of_input, plain
from headway.kits.proxy.events import StreamEvent, event_bytes
from headway.kits.proxy.openai_chat import Chat, error_body, text_field
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
    prepared,
    raw,
)
from headway.serve import ErrorDetail
from headway.settings import Upstream

_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class Responses(Chat):
    """POST /responses. Clients send a decision's id as `previous_response_id`; the upstream gets its own id."""

    name = "chat"
    path = "/responses"
    limits = ("max_output_tokens",)

    def read(self, body: Body) -> Conversation:
        return of_input(body)

    def request(self, body: Body, upstream: Upstream, *, decided: bool) -> bytes:  # noqa: ARG002 — an ApiFormat
        return msgspec.json.encode(prepared(body, upstream, self.limits))

    def whole(self, upstream: str, body: bytes, added: DecisionFields) -> WholeAnswer:
        fields = fields_of(upstream, body)
        if plain(fields, "status") == "failed" or "output" not in fields:
            raise UpstreamFailed(upstream, "upstream_error", "reported a failed response")
        upstream_id, model, usage = text_field(fields, "id"), text_field(fields, "model"), _usage(fields)
        return WholeAnswer(
            body=msgspec.json.encode(_add_decision(fields, added)), usage=usage, upstream_id=upstream_id, model=model
        )

    def rewriter(self, upstream: str, body: Body, added: DecisionFields) -> StreamRewriter:  # noqa: ARG002 — an ApiFormat
        return ResponseStream(upstream, added)

    def event_problem(self, detail: ErrorDetail) -> bytes:
        fields = {"type": "error", "sequence_number": 0, "error": error_body(502, detail), **error_body(502, detail)}
        return event_bytes(b"error", msgspec.json.encode({**fields, "type": "error"}))


class ResponseStream(StreamState):
    """response.* events; those that contain the response get the decision's id."""

    def rewrite(self, event: StreamEvent) -> bytes:
        if event.data is None:
            return event.raw
        if event.data.strip() == b"[DONE]":
            self.complete = self.finished = True
            return event.raw
        fields = fields_of(self._upstream, event.data)
        kind = self._kind(fields)
        self.started = self.started or kind.endswith(".delta")
        if "response" not in fields:
            return event.raw
        response = fields_of(self._upstream, bytes(fields["response"]))
        if not self.upstream_id:
            self.upstream_id, self.model = text_field(response, "id"), text_field(response, "model")
        if kind in _LAST:
            self.usage = _usage(response)
            self.complete = self.finished = True
            self.failed = "upstream_error" if kind == "response.failed" else ""
        fields["response"] = msgspec.Raw(msgspec.json.encode(_add_decision(response, self._added)))
        return event_bytes(event.name, msgspec.json.encode(fields))


def _add_decision(fields: Body, added: DecisionFields) -> Body:
    fields["id"], fields["headway"] = raw(added.id), raw(added.extras)
    if added.previous:
        fields["previous_response_id"] = raw(added.previous)
    return fields


def _usage(fields: Body) -> TokenUsage:
    usage = plain(fields, "usage")
    if not isinstance(usage, dict):
        return TokenUsage()
    return TokenUsage(
        prompt=count(usage.get("input_tokens")),
        completion=count(usage.get("output_tokens")),
        cached=cached(usage, "input_tokens_details"),
    )
