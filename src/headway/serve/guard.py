"""The outermost layer: every request passes here before it reaches a route.

In this order: Host, Origin and Sec-Fetch-Site · who calls · the route and whether they may · rate · content type · size
and time of the body. A hostile page can make a browser send requests to this machine, even with the right Host; it
cannot set the content type to JSON or the Origin to ours, and gets nothing. A caller without a needed key learns
nothing, not even which paths exist.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from granian.rsgi import ProtocolClosed, ProtocolError  # type: ignore[attr-defined]  # as its documentation does

from headway.nouns import errors
from headway.serve.auth import NOBODY, PROOF, Caller
from headway.serve.endpoints import SENT, Call, Endpoint, Reply, Stream
from headway.serve.errors import Refused, no_scope, problem, unexpected
from headway.serve.hosts import Hosts
from headway.serve.local import FORWARDED
from headway.serve.rate import Rates
from headway.serve.routing import Routes
from headway.serve.state import Server

Headers = list[tuple[str, str]]

SECURITY: Headers = [
    ("content-security-policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
]
_JSON: Headers = [("content-type", "application/json"), *SECURITY]
_SMALL_BODY = 65_536
_HELD_BYTES = 1 << 30
_ONCE = ("host", "origin", "sec-fetch-site", "content-type", "content-length", "authorization", "x-api-key", PROOF)


class Lines(Protocol):
    """A request's headers. `items` omits values that are not ASCII; `keys` has all names."""

    def __len__(self) -> int: ...  # of `keys`
    def items(self) -> list[tuple[str, str]]: ...
    def keys(self) -> list[str]: ...


class Scope(Protocol):
    """A request in RSGI (granian's own interface: half the measured cost of ASGI per request)."""

    method: str
    path: str
    query_string: str
    client: str  # its address and port
    http_version: str  # "1" is HTTP/1.0

    @property
    def headers(self) -> Lines: ...


class Pieces(Protocol):
    """An answer in pieces; it ends when the last reference to it is gone."""

    async def send_bytes(self, data: bytes) -> None: ...


class Wire(Protocol):
    """The body of a request, and the methods to answer it."""

    async def __call__(self) -> bytes: ...
    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def client_disconnect(self) -> None: ...
    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...
    def response_stream(self, status: int, headers: Headers) -> Pieces: ...


class ClientGone(Exception):
    """The client has disconnected."""


class RequestGuard:
    """The RSGI application."""

    def __init__(self, server: Server, routes: Routes, hosts: Hosts) -> None:
        self.server = server
        self.routes = routes
        self.hosts = hosts
        self._rates = Rates(server.settings.rate_per_s)
        self._held = 0  # bytes of large bodies that are arriving
        self._read_timeout_s = server.settings.read_timeout_s
        self._limits = (server.settings.max_body_bytes, server.settings.max_batch_bytes)

    async def __call__(self, scope: Scope, wire: Wire) -> None:
        server = self.server
        began = time.perf_counter()
        record = _Record(wire)
        server.active += 1
        server.entered += 1
        try:
            try:
                answer = await self._answer(scope, wire, record)
            except ClientGone:
                record.status = 499
                wire.response_bytes(400, [("connection", "close")], b"")
                return
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and (task is None or task not in server.too_slow):
                    raise
                if task in server.too_slow:
                    server.too_slow.discard(task)
                    error = _too_slow()
                told = await server.explained(error) if unexpected(error) else error
                shown = problem(told)
                record.status = shown.status
                record.code = getattr(told, "code", "")
                headers = _headers("application/json", shown.headers)
                if not record.read and scope.method != "GET":
                    # The rest of the body is still arriving: the connection cannot be reused.
                    headers = [*headers, ("connection", "close")]
                wire.response_bytes(record.status, headers, shown.body)
                return
            if answer is None:
                return
            if isinstance(answer, Stream):
                record.status = answer.status
                await _stream(answer, wire)
                return
            record.status, headers, body = answer
            record.size = len(body)
            wire.response_bytes(record.status, headers, body)
        finally:
            server.active -= 1
            taken = time.perf_counter() - began
            server.metrics.request(record.route, record.status, taken)
            server.log.add(
                time.time(), scope.method, record.route, record.status, taken, record.size, record.key, record.code
            )

    async def _answer(self, scope: Scope, wire: Wire, record: _Record) -> tuple[int, Headers, bytes] | Stream | None:
        """The answer to send; None: it is sent already."""
        server = self.server
        method, path = scope.method, scope.path
        lines = scope.headers
        items = lines.items()
        headers = dict(items)
        if not len(items) == len(headers) == len(lines):
            _check_headers(items, lines.keys(), headers)
        here = self.hosts.check(headers) and server.local.include(headers, scope.http_version)
        try:
            secret, cookie = _secret(headers), headers.get("cookie", "")
            caller = server.credentials.caller(secret, cookie, headers.get(PROOF, ""), here=here)
        except Refused:
            if not self.routes.public(method, path):
                raise
            caller = NOBODY
        record.key = caller.name
        if caller.name:
            server.connections.know(scope.client)
        endpoint, params = self.routes.find(method, path)
        record.route = endpoint.path
        if endpoint.scope != "open" and endpoint.scope not in caller.scopes:
            raise no_scope(endpoint.scope, caller.name)
        if self._rates.limited:
            self._rates.take(caller.name)
        if server.stopping:
            raise errors.Unavailable("The server is stopping.", code="stopping", hint="Try again in a few seconds.")
        raw = await self._body(endpoint, headers, wire, caller) if endpoint.takes is not None else b""
        record.read = True
        asked = scope.query_string
        query = endpoint.parse_query(asked) if asked or endpoint.query is not None else None
        call = Call(server, caller.name, caller.scopes, params, query, headers, record.send)
        values = (call,) if endpoint.takes is None else (call, endpoint.body(raw))
        if endpoint.reads and not endpoint.blocking:
            work = server.in_turn(caller.name, lambda: endpoint.run(*values))
        elif (
            endpoint.hot
            and endpoint.takes is not None
            and server.crowd.around(caller.name)
            and not endpoint.proxied  # it waits for another server, and takes turns only for its work here
        ):
            call.in_turn = endpoint.batch
            work = server.in_order(caller.name, 1 if endpoint.batch else 4, lambda: endpoint.run(*values))
        elif not endpoint.blocking:
            work = endpoint.run(*values)
        elif endpoint.reads:
            work = server.in_reading_thread(caller.name, endpoint.run, *values)
        else:
            work = server.in_key_thread(caller.name, endpoint.run, *values)
        answer = await (_while_connected(work, wire) if endpoint.proxied else work)
        if answer is SENT:
            return None
        if isinstance(answer, Stream):
            return answer
        if isinstance(answer, Reply):
            body = answer.body if isinstance(answer.body, bytes) else endpoint.encode(answer.body)
            return answer.status or endpoint.status, _headers(answer.media, answer.headers), body
        return endpoint.status, _JSON if endpoint.gives is not None else SECURITY, endpoint.encode(answer)

    async def _body(self, endpoint: Endpoint, headers: Mapping[str, str], wire: Wire, caller: Caller) -> bytes:
        """The whole body, within its limits of size and time."""
        limit = self._limits[endpoint.batch]
        declared = headers.get("content-length", "")
        length = int(declared) if declared.isdigit() and len(declared) < 20 else -1
        if length > limit:
            raise _too_large(limit)
        kind = headers.get("content-type")
        if kind != "application/json" and not (length in (0, -1) and kind is None and endpoint.optional):
            _check_type(kind, endpoint.accepts)
        if length == 0:
            return b""
        large = limit if length < 0 else length if length > _SMALL_BODY else 0
        if large:
            self._hold(large, caller)
        task = asyncio.current_task()
        assert task is not None, "the server runs each request as a task"
        reading = self.server.reading
        reading[task] = time.monotonic() + self._read_timeout_s
        try:
            if length > 0:
                return await wire()
            return await _chunks(wire, limit)
        except (ProtocolError, ProtocolClosed) as error:
            raise ClientGone from error
        finally:
            reading.pop(task, None)
            self._held -= large

    def _hold(self, size: int, caller: Caller) -> None:
        """Counts a large body while it arrives: many slow ones must not fill the memory."""
        most = _HELD_BYTES if caller.name else _HELD_BYTES * 3 // 4
        if self._held + size > most:
            raise errors.Busy(
                "Too many large bodies are arriving.", code="queue_full", retry_after_s=self._read_timeout_s
            )
        self._held += size


async def _chunks(wire: Wire, limit: int) -> bytes:
    """A chunked body, counted as it arrives.

    Granian reports a cut or malformed body, and trailers, as an empty chunk before the empty chunk at its end.
    """
    parts: list[bytes] = []
    size = 0
    async for part in wire:
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    if b"" in parts[:-1]:
        raise Refused(
            400, "incomplete_body", "The body ended before its last chunk.", "Send it again, without trailers."
        )
    return b"".join(parts)


@dataclass(slots=True, eq=False)
class _Record:
    """What the log and the metrics record of a request."""

    wire: Wire
    route: str = "(none)"
    status: int = 500
    size: int = 0
    key: str = ""
    code: str = ""
    read: bool = False  # the whole body

    def send(self, status: int, body: bytes) -> None:
        self.status, self.size = status, len(body)
        self.wire.response_bytes(status, _JSON, body)


def _check_headers(items: Headers, names: list[str], headers: Mapping[str, str]) -> None:
    """Refuses repeated or unreadable security headers: a proxy may have read the other value."""
    sent = [name for name, _ in items]
    if any(sent.count(name) > 1 for name in _ONCE):
        raise Refused(400, "repeated_header", "A header that must be unique was sent twice.")
    if any(name in names and name not in headers for name in (*_ONCE, *FORWARDED, "cookie")):
        raise Refused(400, "bad_header", "A header that identifies the caller is not ASCII.", "Send it in ASCII.")


def _secret(headers: Mapping[str, str]) -> str:
    authorization = headers.get("authorization")
    if authorization is None:
        return headers.get("x-api-key", "")
    kind, _, secret = authorization.partition(" ")
    return secret.strip() if kind.lower() == "bearer" else "?"


def _headers(media: str, extra: Mapping[str, str]) -> Headers:
    added = [(name.lower(), value) for name, value in extra.items()]
    named = {name for name, _ in added}
    return [("content-type", media), *(header for header in SECURITY if header[0] not in named), *added]


def _check_type(kind: str | None, accepts: Sequence[str]) -> None:
    plain, _, parameters = (kind or "").lower().partition(";")
    if plain.strip() not in accepts or parameters.strip() not in ("", "charset=utf-8", 'charset="utf-8"'):
        expected = " or ".join(accepts)
        raise Refused(415, "not_json", f"The body must be {expected}.", f"Send `Content-Type: {accepts[0]}`.")


def _too_large(limit: int) -> Refused:
    return Refused(
        413,
        "too_large",
        f"The body is larger than {limit:,} bytes.",
        "Send less at once, or raise the limit in [server].",
    )


def _too_slow() -> Refused:
    return Refused(408, "too_slow", "The body did not arrive in time.", "Send it at once.", {"connection": "close"})


async def _while_connected(work: Coroutine[Any, Any, Any], wire: Wire) -> Any:
    """The result of `work`, which is cancelled when its client disconnects."""
    doing, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(wire))
    try:
        await asyncio.wait({doing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientGone
        return doing.result()
    finally:
        gone.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)


async def _stream(answer: Stream, wire: Wire) -> None:
    """Sends the pieces as they arrive; ends with the iterator or when the client disconnects."""
    gone = asyncio.ensure_future(_disconnected(wire))
    chunks = answer.chunks
    try:
        pieces = wire.response_stream(answer.status, _headers(answer.media, answer.headers))
        while True:
            step = asyncio.ensure_future(anext(chunks, None))
            await asyncio.wait({step, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
                return
            chunk = step.result()
            if chunk is None:
                return
            await pieces.send_bytes(chunk)
    except (ProtocolError, ProtocolClosed):
        return  # the client has disconnected
    finally:
        gone.cancel()
        closing = getattr(chunks, "aclose", None)
        if closing is not None:
            await closing()


async def _disconnected(wire: Wire) -> None:
    await wire.client_disconnect()
