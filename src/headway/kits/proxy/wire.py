"""The interface of a wire format, and the parts that the three formats share.

An `ApiFormat` reads a request, prepares it for an upstream, and puts the decision's id into the answer; a
`StreamRewriter` does the last step event by event. Values that Headway does not change keep their original bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from headway.kits.proxy.conversations import Body, Conversation, plain
from headway.kits.proxy.events import StreamEvent
from headway.kits.proxy.upstreams import UpstreamFailed
from headway.serve import Call, ErrorDetail
from headway.settings import Upstream

_decode_fields = msgspec.json.Decoder(Body).decode
_MOST_TOKENS = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class TokenUsage:
    """Tokens as the upstream counted them; None if it did not report them."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None  # of the prompt, from the upstream's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFields:
    """The fields that Headway adds to an answer: the decision's id, and the extras under `headway`."""

    id: str
    extras: Mapping[str, Any]
    previous: str = ""  # Responses: the client's id of the response that this one continues


@dataclass(slots=True, kw_only=True)
class WholeAnswer:
    """An answer that is not streamed."""

    body: bytes
    usage: TokenUsage
    upstream_id: str = ""
    model: str = ""


class StreamRewriter(Protocol):
    """Rewrites one streamed answer for the client."""

    usage: TokenUsage
    upstream_id: str
    model: str
    started: bool  # the first text has arrived
    complete: bool  # the answer is complete if the stream ends here
    finished: bool  # the last event has arrived
    failed: str  # the error code, if the upstream reports a failure

    def rewrite(self, event: StreamEvent) -> bytes: ...


class StreamState:
    """What every rewriter knows about its stream."""

    def __init__(self, upstream: str, added: DecisionFields) -> None:
        self.usage = TokenUsage()
        self.upstream_id = self.model = self.failed = ""
        self.started = self.complete = self.finished = False
        self._upstream = upstream
        self._added = added

    def _kind(self, fields: Body) -> str:
        """The event's `type`; raises if the stream reports an error."""
        kind = plain(fields, "type")
        if not isinstance(kind, str):
            raise malformed(self._upstream)
        if kind == "error":
            raise UpstreamFailed(self._upstream, "upstream_error", "reported an error in its stream")
        return kind


class ApiFormat(Protocol):
    """One format. `name` is the operation's name in a span, `path` is appended to an upstream's URL."""

    @property
    def name(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def path(self) -> str: ...

    def headers(self, call: Call, key: str) -> list[tuple[str, str]]: ...
    def read(self, body: Body) -> Conversation: ...
    def request(self, body: Body, upstream: Upstream, *, decided: bool) -> bytes: ...
    def whole(self, upstream: str, body: bytes, added: DecisionFields) -> WholeAnswer: ...
    def rewriter(self, upstream: str, body: Body, added: DecisionFields) -> StreamRewriter: ...
    def too_long(self, body: bytes) -> bool: ...
    def problem(self, status: int, detail: ErrorDetail) -> bytes: ...
    def event_problem(self, detail: ErrorDetail) -> bytes: ...


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def fields_of(upstream: str, body: bytes) -> Body:
    """The fields of a JSON object that an upstream sent."""
    try:
        body.decode()
        return _decode_fields(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(upstream) from error


def malformed(upstream: str) -> UpstreamFailed:
    return UpstreamFailed(upstream, "upstream_malformed", "sent an answer in the wrong format")


def prepared(body: Body, upstream: Upstream, limits: tuple[str, ...]) -> Body:
    """The request for one upstream: its model and token cap, without the field `headway`, otherwise unchanged."""
    fields = {name: value for name, value in body.items() if name != "headway"}
    fields["model"] = raw(upstream.model)
    if upstream.max_tokens:
        present = [name for name in limits if name in fields]
        for name in present or limits[-1:]:
            limit = msgspec.json.decode(fields[name]) if name in fields else None
            if not isinstance(limit, int) or limit > upstream.max_tokens:
                fields[name] = raw(upstream.max_tokens)
    return fields


def cached(usage: Mapping[str, Any], name: str) -> int | None:
    """The tokens that came from the cache, as OpenAI's formats say it."""
    details = usage.get(name)
    return count(details.get("cached_tokens")) if isinstance(details, dict) else None


def count(value: Any) -> int | None:
    """A plausible number of tokens, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return None
