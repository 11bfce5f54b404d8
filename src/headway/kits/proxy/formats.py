"""What the three wire formats have in common, and what each defines for itself.

An `ApiFormat` reads a request, prepares it for an upstream, and puts the decision's id into the answer; a `Rewriting`
does the last part event by event. Values that are not ours keep the bytes they came as.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from headway.kits.proxy.conversations import Body, Conversation
from headway.kits.proxy.events import StreamEvent
from headway.kits.proxy.upstreams import UpstreamFailed
from headway.serve.endpoint import Call
from headway.serve.errors import ErrorDetail
from headway.settings import Upstream

__all__ = [
    "ApiFormat",
    "Given",
    "Rewriting",
    "TokenUsage",
    "Whole",
    "count",
    "fields_of",
    "malformed",
    "prepared",
    "raw",
]

_decode_fields = msgspec.json.Decoder(Body).decode
_MOST_TOKENS = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class TokenUsage:
    """Tokens as the upstream counted them; None where it did not say."""

    prompt: int | None = None
    completion: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What goes into an answer: the decision's id, and the extras under `headway`."""

    id: str
    extras: Mapping[str, Any]
    previous: str = ""  # Responses: the id by which the client knows what it continues


@dataclass(slots=True, kw_only=True)
class Whole:
    """An answer that came at once."""

    body: bytes
    usage: TokenUsage
    upstream_id: str = ""
    model: str = ""


class Rewriting(Protocol):
    """One streamed answer on its way to the client."""

    usage: TokenUsage
    upstream_id: str
    model: str
    begun: bool  # the first words have come
    complete: bool  # nothing is missing if the stream ends here
    finished: bool  # the last event has come
    failed: str  # the code, where the upstream itself says that it failed

    def rewrite(self, event: StreamEvent) -> bytes: ...


class ApiFormat(Protocol):
    """One format. `name` is the operation's name in a span, `path` where it lies under an upstream's URL."""

    @property
    def name(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def path(self) -> str: ...

    def headers(self, call: Call, key: str) -> list[tuple[str, str]]: ...
    def read(self, body: Body) -> Conversation: ...
    def request(self, body: Body, upstream: Upstream, *, decided: bool) -> bytes: ...
    def whole(self, upstream: str, body: bytes, given: Given) -> Whole: ...
    def rewriting(self, upstream: str, body: Body, given: Given) -> Rewriting: ...
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
    return UpstreamFailed(upstream, "upstream_malformed", "sent something that is not its format")


def prepared(body: Body, upstream: Upstream, limits: tuple[str, ...]) -> Body:
    """The request for one upstream: its model, its cap, and nothing that was for Headway. The rest is the client's."""
    found = {name: value for name, value in body.items() if name != "headway"}
    found["model"] = raw(upstream.model)
    if upstream.max_tokens:
        given = [name for name in limits if name in found]
        for name in given or limits[-1:]:
            asked = msgspec.json.decode(found[name]) if name in found else None
            if not isinstance(asked, int) or asked > upstream.max_tokens:
                found[name] = raw(upstream.max_tokens)
    return found


def count(value: Any) -> int | None:
    """A number of tokens, if it is one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return None
