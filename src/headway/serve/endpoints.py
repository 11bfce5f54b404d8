"""`endpoint`: the one way to add a route. It decodes, encodes and documents.

    @endpoint("POST", "/v1/decisions", takes=DecisionRequest, gives=DecisionAnswer, status=201, scope="decide")
    async def decide(call: Call, body: DecisionRequest) -> DecisionAnswer: ...

    @endpoint("GET", "/v1/policies/{policy}", gives=PolicyAnswer, errors=(404,), scope="decide")
    def policy(call: Call) -> PolicyAnswer: ...          # a plain function runs in a thread: it may block

`gives` is a record of the domain (`gives=TaskStatus`, encoded by `nouns.wire`); a struct of its own only where the JSON
differs. A handler returns it, a `Reply` (another status, headers, ready bytes), a `Stream`, or `SENT` where it has
called `call.answer` itself. Bodies are strict: UTF-8 JSON, no unknown or repeated field, no NaN or infinity, no NUL.
`takes=msgspec.Raw` passes the bytes on without reading them (the OpenAI endpoints, which keep unknown fields);
`takes=bytes` too, of any media type in `accepts`.

Not covered: authentication and limits, which the guard checks beforehand.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec

from headway.nouns import Decision, Reader, converter, errors, ids
from headway.serve.errors import no_scope

if TYPE_CHECKING:
    from headway.serve.state import Server

Scope = Literal["open", "decide", "signal", "ingest", "train", "admin"]  # "open": any caller that may reach the server
Method = Literal["GET", "POST", "PUT", "DELETE"]
JSON = "application/json"
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder()
_NESTED = (dict, list)
_KEY = re.compile(rb'"[ \t\r\n]*:')  # also matches in a text such as ":)"
T = TypeVar("T")


class strict(msgspec.Struct, forbid_unknown_fields=True):  # noqa: N801 — a word for bodies
    """A request body with exactly these fields."""


@dataclass(slots=True, kw_only=True)
class Reply:
    """An answer with status or headers. `body` is encoded as JSON unless it is bytes already."""

    body: Any = None
    status: int | None = None  # None: the endpoint's own
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON


@dataclass(slots=True, kw_only=True)
class Stream:
    """An answer in pieces; the iterator is closed when the client disconnects or the server stops."""

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = "text/event-stream"


class Sent(Enum):
    """There is nothing left to send."""

    SENT = "sent"


SENT = Sent.SENT


@dataclass(slots=True, eq=False)
class Call:
    """One request, as a handler sees it."""

    server: Server
    key: str  # the name of the key it came with; "" on loopback without one
    scopes: frozenset[str]
    params: Mapping[str, str]
    query: Any
    headers: Mapping[str, str]  # lower-case names; a repeated header's last value
    _send: Callable[[int, bytes], None]
    in_turn: bool = False  # it has the one turn of its key: it would wait for another for ever

    @property
    def reader(self) -> Reader:
        return Reader(self.key, "train" in self.scopes)

    def decision(self, identifier: str) -> Decision:
        """A stored decision; one that the caller may not read is unknown to it."""
        decision = self.server.project.query.decision(ids.parse_decision(identifier))
        if not self.reader.may_read(decision.key):
            raise errors.UnknownName(f"There is no decision {decision.id!r}.", code="unknown_decision")
        return decision

    def need(self, scope: Scope) -> None:
        """Raises where the caller lacks a scope besides that of the route."""
        if scope not in self.scopes:
            raise no_scope(scope, self.key)

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    async def in_thread(self, work: Callable[..., T], *values: Any) -> T:
        """Work that may block, in a thread; callers without a key have threads of their own."""
        if self.in_turn and self.key:
            return await self.server.in_thread(work, *values)
        return await self.server.in_key_thread(self.key, work, *values)

    async def in_far_thread(self, work: Callable[..., T], *values: Any) -> T:
        """Work that waits for another server: the threads of other work stay free, and a full house is a 429."""
        return await self.server.in_far_thread(work, *values, keyed=bool(self.key))

    def answer(self, status: int, body: Any) -> None:
        """Answers now, before the handler continues: many answers in a row wake the server's thread once."""
        self._send(status, _encoder.encode(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A route and its properties."""

    method: Method
    path: str
    run: Callable[..., Any]
    takes: Any = None
    query: type[msgspec.Struct] | None = None
    gives: Any = None
    media: str = JSON
    status: int = 200
    errors: tuple[int, ...] = ()
    scope: Scope = "open"
    accepts: tuple[str, ...] = (JSON,)  # media types of the body
    batch: bool = False  # the larger body limit
    hot: bool = False  # looked up before all others
    optional: bool = False  # the body may be omitted
    public: bool = False  # answered without a key, even if everything else needs one
    blocking: bool = False
    reads: bool = False  # much: the time is counted per key; every GET but the hot and the public
    proxied: bool = False  # another server does the work, whose call is cut when the client disconnects
    summary: str = ""
    kit: str = ""  # the installed kit that adds it; "" for ours
    pattern: re.Pattern[str] | None = field(repr=False, default=None)  # of a path with parameters
    decode: Callable[[bytes], Any] = field(repr=False, default=bytes)

    @property
    def name(self) -> str:
        return f"{self.kit}_{self.run.__name__}" if self.kit else self.run.__name__

    def body(self, raw: bytes) -> Any:
        """The decoded body, or an exception that becomes a 422."""
        if not raw and self.optional:
            raw = b"{}"
        body = self.decode(raw)
        if self.takes is bytes:
            return body
        refuse_duplicate_keys(raw)
        if b"\\u0000" in raw:
            _refuse_nul(body)
        return body

    def parse_query(self, raw: str) -> Any:
        try:
            pairs = [] if not raw else parse_qsl(raw, keep_blank_values=True, strict_parsing=True, errors="strict")
        except ValueError as error:
            raise errors.InvalidInput(
                "The query string cannot be read.", code="bad_query", hint="Write ?name=value."
            ) from error
        values = dict(pairs)
        if self.query is None or len(values) < len(pairs):
            twice = "takes none" if self.query is None else "names a value twice"
            raise errors.InvalidInput(
                f"This route {twice}.", code="bad_query", hint="Its parameters are in /openapi.json."
            )
        for name, value in pairs:
            if "\0" in name or "\0" in value or value.lower() == "null":
                raise errors.InvalidInput(
                    "The query string holds a NUL or null.", code="bad_query", hint="Omit the value."
                )
        try:
            return msgspec.convert(values, self.query, strict=False)
        except msgspec.ValidationError as error:
            raise errors.InvalidInput(
                f"{error}.", code="bad_query", hint="Its parameters are in /openapi.json."
            ) from error

    def encode(self, answer: Any) -> bytes:
        if answer is None:
            return b""
        convert = converter(self.gives)
        return _encoder.encode(answer if convert is None else convert(answer))


def endpoint(
    method: Method,
    path: str,
    *,
    takes: Any = None,
    query: type[msgspec.Struct] | None = None,
    gives: Any = None,
    media: str = JSON,
    status: int = 200,
    errors: tuple[int, ...] = (),
    scope: Scope = "open",
    accepts: tuple[str, ...] = (JSON,),
    batch: bool = False,
    hot: bool = False,
    optional: bool = False,
    public: bool = False,
    reads: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares a route on the function that answers it. `errors` are statuses beyond those every route can give."""

    def declare(run: Callable[..., Any]) -> Callable[..., Any]:
        raw = takes is None or takes is msgspec.Raw or takes is bytes
        declared = Endpoint(
            method=method,
            path=path,
            run=run,
            takes=takes,
            query=query,
            gives=gives,
            media=media,
            status=204 if gives is None and status == 200 else status,
            errors=errors,
            scope=scope,
            accepts=accepts,
            batch=batch,
            hot=hot,
            optional=optional,
            public=public,
            blocking=not inspect.iscoroutinefunction(run),
            reads=reads or (method == "GET" and not (hot or public)),
            proxied=takes is msgspec.Raw,
            summary=(inspect.getdoc(run) or "").partition("\n")[0],
            pattern=path_pattern(path) if "{" in path or "}" in path else None,
            decode=bytes if raw else msgspec.json.Decoder(takes).decode,
        )
        run.endpoints = (*getattr(run, "endpoints", ()), declared)  # type: ignore[attr-defined]  # a function may answer several routes
        return run

    return declare


def path_pattern(path: str) -> re.Pattern[str]:
    """`/v1/tasks/{task}/learn` as a pattern; match whole paths with it. `{task}` stands for one segment, not empty."""
    segments = []
    for segment in path.split("/"):
        name = segment[1:-1] if segment.startswith("{") and segment.endswith("}") else ""
        if (name and not name.isidentifier()) or (not name and re.search("[{}]", segment)):
            raise ValueError(f"The path {path!r} has the segment {segment!r}, expected plain text or {{name}}.")
        segments.append(f"(?P<{name}>[^/]+)" if name else re.escape(segment))
    return re.compile("/".join(segments))


def endpoints_of(modules: Iterable[ModuleType]) -> list[Endpoint]:
    """The endpoints that these modules declare, in the order of their source."""
    endpoints: list[Endpoint] = []
    for module in modules:
        for value in vars(module).values():
            if getattr(value, "__module__", None) == module.__name__:
                endpoints += getattr(value, "endpoints", ())
    return endpoints


def _refuse_nul(value: Any) -> None:
    """The bytes may be an escaped backslash: only a decoded NUL is refused."""
    pending = [msgspec.to_builtins(value) if not isinstance(value, bytes) else msgspec.json.decode(value)]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            if "\0" in part:
                raise errors.InvalidInput("A text in the body holds U+0000.", code="bad_text", hint="Remove the NUL.")
        elif isinstance(part, dict):
            pending += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            pending += part


def refuse_duplicate_keys(raw: bytes) -> None:
    """Raises `duplicate_key` for JSON in which an object names a key twice: parsers disagree about which value counts,
    and a proxy may act on the other. A body that is not JSON is left to its own parser.

    The decoded body has at most as many keys as the text, and the text at most as many as it has colons: where both
    counts agree, no key is repeated. This costs a twentieth of a parser that collects the keys, which the rest needs.
    """
    try:
        body = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    keys = len(body) if type(body) is dict and raw.count(b"{") == 1 else _count_keys(body)
    if keys != raw.count(b":") and keys != len(_KEY.findall(raw)):
        json.loads(raw, object_pairs_hook=_refuse_twice, parse_int=float)


def _count_keys(value: Any) -> int:
    keys = 0
    pending = [value]
    while pending:
        part = pending.pop()
        if type(part) is dict:
            keys += len(part)
            part = part.values()
        elif type(part) is not list:
            continue
        pending += [inner for inner in part if type(inner) in _NESTED]
    return keys


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise errors.InvalidInput(
                f"An object names {name[:80]!r} twice.", code="duplicate_key", hint="Send each key once."
            )
        names.add(name)
