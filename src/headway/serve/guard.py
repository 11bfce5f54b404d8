"""The outermost layer: nothing reaches a route, hot or cold, that has not passed here.

In this order: Host, Origin and Sec-Fetch-Site · who calls · the route and whether they may · rate · content type · size
and time of the body. A hostile page can make a browser send requests to this machine, even with the right Host; it
cannot set the content type to JSON or the Origin to ours, and gets nothing. Whoever needs a key and has none learns
nothing, not even which paths exist.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from headway.nouns.errors import Unavailable
from headway.serve.auth import NOBODY, Caller
from headway.serve.endpoint import Call, Endpoint, Reply, Stream
from headway.serve.errors import Refused, problem
from headway.serve.hosts import Hosts
from headway.serve.rate import Rates
from headway.serve.routing import Routes
from headway.serve.state import Server

__all__ = ["Guard"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

SECURITY: Headers = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_JSON: Headers = [(b"content-type", b"application/json"), *SECURITY]
_ONCE = (b"host", b"origin", b"sec-fetch-site", b"content-type", b"content-length", b"authorization", b"x-api-key")
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")


class ClientGone(Exception):
    """Nobody is left to answer."""


class Guard:
    """The ASGI application."""

    def __init__(self, server: Server, routes: Routes, hosts: Hosts) -> None:
        self.server = server
        self.routes = routes
        self.hosts = hosts
        self._rates = Rates(server.settings.rate_per_s)
        self._limits = (server.settings.max_body_bytes, server.settings.max_batch_bytes)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"This server speaks HTTP, not {scope['type']}.")
        server = self.server
        began = time.perf_counter()
        seen = _Seen()
        server.enter()
        try:
            try:
                answer = await self._answer(scope, receive, seen)
            except ClientGone:
                seen.status = 499
                return
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and (task is None or task not in server.too_slow):
                    raise
                if task in server.too_slow:
                    server.too_slow.discard(task)
                    error = _too_slow()
                seen.status, body, extra = problem(error)
                seen.code = getattr(error, "code", "")
                headers = _headers("application/json", extra)
                if not seen.read and scope["method"] != "GET":
                    # What was not read is still on its way: the connection cannot be used again.
                    headers = [*headers, (b"connection", b"close")]
                await _send(send, seen.status, headers, body)
                return
            if isinstance(answer, Stream):
                seen.status = answer.status
                await _stream(answer, receive, send)
                return
            seen.status, headers, body = answer
            seen.size = len(body)
            await _send(send, seen.status, headers, body)
        finally:
            server.leave()
            taken = time.perf_counter() - began
            server.metrics.request(seen.route, seen.status, taken)
            server.log.add(time.time(), scope["method"], seen.route, seen.status, taken, seen.size, seen.key, seen.code)

    async def _answer(
        self, scope: Mapping[str, Any], receive: Receive, seen: _Seen
    ) -> tuple[int, Headers, bytes] | Stream:
        server = self.server
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if len(headers) < len(scope["headers"]):
            _check_repeated(scope["headers"])
        here = self.hosts.check(headers) and not any(name in headers for name in _FORWARDED)
        try:
            caller = server.credentials.caller(_secret(headers), headers.get(b"cookie", b""), here=here)
        except Refused:
            if not self.routes.public(scope["method"], scope["path"]):
                raise
            caller = NOBODY
        seen.key = caller.name
        endpoint, params = self.routes.find(scope["method"], scope["path"])
        seen.route = endpoint.path
        if endpoint.scope != "open" and endpoint.scope not in caller.scopes:
            raise _no_scope(endpoint.scope, caller)
        if self._rates.limited:
            self._rates.take(caller.name)
        if server.stopping:
            raise Unavailable("The server is stopping.", code="stopping", hint="Try again in a few seconds.")
        raw = await self._body(endpoint, headers, receive) if endpoint.takes is not None else b""
        seen.read = True
        call = Call(server, caller.name, caller.scopes, params, endpoint.parse_query(scope["query_string"]), headers)
        values = (call,) if endpoint.takes is None else (call, endpoint.body(raw))
        found = await (server.in_thread(endpoint.run, *values) if endpoint.blocking else endpoint.run(*values))
        if isinstance(found, Stream):
            return found
        if isinstance(found, Reply):
            body = found.body if isinstance(found.body, bytes) else endpoint.encode(found.body)
            return found.status or endpoint.status, _headers(found.media, found.headers), body
        return endpoint.status, _JSON if endpoint.gives is not None else SECURITY, endpoint.encode(found)

    async def _body(self, endpoint: Endpoint, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, within size and time, counted as it comes."""
        limit = self._limits[endpoint.batch]
        declared = headers.get(b"content-length", b"")
        length = int(declared) if declared.isdigit() and len(declared) < 20 else -1
        if length > limit:
            raise _too_large(limit)
        kind = headers.get(b"content-type")
        if kind != b"application/json" and not (length in (0, -1) and kind is None and endpoint.optional):
            _check_type(kind)
        if length == 0:
            return b""
        task = asyncio.current_task()
        assert task is not None, "the server runs each request as a task"
        reading = self.server.reading
        reading[task] = time.monotonic() + self.server.settings.read_timeout_s
        try:
            parts: list[bytes] = []
            size = 0
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
                if size == length or not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            reading.pop(task, None)


class _Seen:
    """What the log and the metrics will say."""

    __slots__ = ("code", "key", "read", "route", "size", "status")

    def __init__(self) -> None:
        self.route = "(none)"
        self.status = 500
        self.size = 0
        self.key = ""
        self.code = ""
        self.read = False  # the whole body


def _check_repeated(headers: Headers) -> None:
    """Two Hosts or two keys mean that somebody in between may read the other one."""
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _ONCE):
        raise Refused(400, "repeated_header", "A header that may come once came twice.")


def _secret(headers: Mapping[bytes, bytes]) -> bytes:
    found = headers.get(b"authorization")
    if found is None:
        return headers.get(b"x-api-key", b"")
    kind, _, secret = found.partition(b" ")
    return secret.strip() if kind.lower() == b"bearer" else b"?"


def _headers(media: str, extra: Mapping[str, str]) -> Headers:
    added = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in extra.items()]
    named = {name for name, _ in added}
    return [(b"content-type", media.encode("latin-1")), *(each for each in SECURITY if each[0] not in named), *added]


def _check_type(kind: bytes | None) -> None:
    plain, _, parameters = (kind or b"").lower().partition(b";")
    if plain.strip() != b"application/json" or parameters.strip() not in (b"", b"charset=utf-8", b'charset="utf-8"'):
        raise Refused(415, "not_json", "The body must be application/json.", "Send `Content-Type: application/json`.")


def _too_large(limit: int) -> Refused:
    return Refused(
        413,
        "too_large",
        f"The body is larger than {limit:,} bytes.",
        "Send less at once, or raise it in [server].",
    )


def _too_slow() -> Refused:
    return Refused(408, "too_slow", "The body did not arrive in time.", "Send it at once.", {"connection": "close"})


def _no_scope(scope: str, caller: Caller) -> Refused:
    if not caller.name:
        return Refused(
            401,
            "key_needed",
            f"This needs the scope {scope!r}, even on this machine.",
            "Send the project token of .headway/token, or a key with that scope, as `Authorization: Bearer hw_…`.",
            {"www-authenticate": "Bearer"},
        )
    return Refused(403, "wrong_scope", f"The key {caller.name!r} may not do this.", f"It needs the scope {scope!r}.")


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _stream(answer: Stream, receive: Receive, send: Send) -> None:
    """Sends the pieces as they come; ends with the iterator or with the client."""
    headers = _headers(answer.media, answer.headers)
    gone = asyncio.ensure_future(_disconnected(receive))
    chunks = answer.chunks
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        while True:
            step = asyncio.ensure_future(anext(chunks, None))
            await asyncio.wait({step, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
                return
            chunk = step.result()
            if chunk is None:
                break
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()
        closing = getattr(chunks, "aclose", None)
        if closing is not None:
            await closing()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
