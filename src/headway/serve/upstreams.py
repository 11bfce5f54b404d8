"""Calls to the model servers of headway.toml, through one pool of connections, within caps.

    upstreams = upstreams_of(server)
    upstreams.candidates(task)                                    # the task's actions that can be called now
    answer = await upstreams.open(upstream, "/chat/completions", body, headers)

A URL comes from headway.toml and from nowhere else; a redirect is a failure; a key goes to the host that it is
configured for. Cookies, proxies and .netrc of the environment play no part, and nothing is decompressed: an answer is
as large as its bytes. What an upstream did not do is an `UpstreamFailed`, whose text never repeats what it said.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import cast
from weakref import WeakKeyDictionary

import httpx

from headway.nouns.errors import Busy, HeadwayError, Unavailable
from headway.serve.state import Server
from headway.settings import Settings, TaskSettings, Upstream

__all__ = ["STREAM_TIMES", "Answer", "Slot", "UpstreamFailed", "Upstreams", "upstreams_of"]

logger = logging.getLogger("headway.serve")

MOST_CALLS = 256  # at once; more are refused with 429 before anything is decided
STREAM_TIMES = 10  # a streamed answer may take this many times `timeout_s` in all, and `timeout_s` from event to event
STREAM_SIZES = 4  # and be this many times as large as a whole one: the same words with a frame around each
_CONNECT_S = 10.0
_ERROR_BYTES = 65_536


class UpstreamFailed(HeadwayError):
    """An upstream did not do its work; another one may. `status` is what the client gets when none does."""

    status = 502

    def __init__(
        self, upstream: str, code: str, what: str, *, status: int = 502, http_status: int = 0, retry_after: str = ""
    ) -> None:
        super().__init__(
            f"The upstream {upstream!r} {what}.", code=code, hint=f"Its address is in [upstreams.{upstream}]."
        )
        self.upstream = upstream
        self.status = status
        self.http_status = http_status
        self.retry_after = retry_after


class Answer:
    """An answer whose headers are here; its body comes in pieces, as fast as they are taken."""

    def __init__(self, upstream: Upstream, response: httpx.Response, most: int) -> None:
        self.upstream = upstream
        self.status = response.status_code
        self.media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._pieces = aiter(cast(httpx.AsyncByteStream, response.stream))
        self._most = most
        self._size = 0

    async def piece(self, within_s: float) -> bytes:
        """The next bytes; b"" at the end."""
        try:
            async with asyncio.timeout(within_s):
                found = await anext(self._pieces, b"")
        except (TimeoutError, httpx.TransportError) as error:
            raise failure(self.upstream, error) from error
        self._size += len(found)
        if self._size > self._most:
            raise UpstreamFailed(self.upstream.name, "upstream_too_large", f"sent more than {self._most:,} bytes")
        return found

    async def whole(self, until: float) -> bytes:
        """All of it, before a moment of the monotonic clock."""
        parts = []
        while part := await self.piece(max(0.0, until - time.monotonic())):
            parts.append(part)
        return b"".join(parts)

    async def beginning(self, until: float) -> bytes:
        """What an error says, as far as anybody reads."""
        self._most = max(self._most, _ERROR_BYTES)
        found = b""
        while len(found) < _ERROR_BYTES and (part := await self.piece(max(0.0, until - time.monotonic()))):
            found += part
        return found

    async def close(self) -> None:
        """Lets go of the connection; one whose answer is not complete is cut, which ends the work at the other end."""
        await self._response.aclose()


class Slot:
    """A place among the calls that may run at once; free it once or more."""

    __slots__ = ("_upstreams",)

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams: Upstreams | None = upstreams
        upstreams.calls += 1

    def free(self) -> None:
        if self._upstreams is not None:
            self._upstreams.calls -= 1
            self._upstreams = None


class Upstreams:
    """The model servers of a project. Lives in one event loop."""

    def __init__(self, settings: Settings, *, most_bytes: int) -> None:
        self.settings = settings
        self.calls = 0
        self._most_bytes = most_bytes
        self._transport: httpx.AsyncHTTPTransport | None = None
        self._warned: set[str] = set()

    def take(self) -> Slot:
        """A place for one call, or `Busy`."""
        if self.calls >= MOST_CALLS:
            raise Busy(f"{MOST_CALLS} calls to upstreams are running.", code="too_many_calls", hint="Try again.")
        return Slot(self)

    def ready(self, name: str) -> bool:
        """Whether it is configured and its key is there."""
        found = self.settings.upstreams.get(name)
        if found is None:
            return False
        if not found.key_env or self.settings.keys.get(found.key_env):
            return True
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("upstream=%s left out: %s is not set", name, found.key_env)
        return False

    def candidates(self, task: TaskSettings) -> tuple[str, ...]:
        """The task's actions that are upstreams; of a task that declares none, every upstream."""
        names: Iterable[str] = task.actions or sorted(self.settings.upstreams)
        found = tuple(name for name in names if self.ready(name))
        if not found:
            raise Unavailable(
                f"No action of the task {task.name!r} is an upstream that can be called.",
                code="no_upstream",
                hint="Declare [upstreams.NAME] with url and model in headway.toml, and set its key_env.",
            )
        return found

    async def open(
        self,
        upstream: Upstream,
        path: str,
        body: bytes,
        headers: Iterable[tuple[str, str]],
        *,
        stream: bool,
        until: float,
    ) -> Answer:
        """Sends a request; the answer's headers have come, and say 2xx or that the request itself is at fault."""
        request = httpx.Request(
            "POST",
            upstream.url.rstrip("/") + path,
            headers=[
                ("content-type", "application/json"),
                ("accept", "text/event-stream" if stream else "application/json"),
                ("accept-encoding", "identity"),
                ("user-agent", "headway"),
                *headers,
            ],
            content=body,
            extensions={
                "timeout": {
                    "connect": min(_CONNECT_S, upstream.timeout_s),
                    "read": upstream.timeout_s,
                    "write": upstream.timeout_s,
                    "pool": upstream.timeout_s,
                }
            },
        )
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                response = await self._pool().handle_async_request(request)
        except (TimeoutError, httpx.TransportError) as error:
            raise failure(upstream, error) from error
        most = self._most_bytes * (STREAM_SIZES if stream else 1)
        answer = Answer(upstream, response, most)
        try:
            _check(answer)
        except UpstreamFailed:
            await answer.close()
            raise
        return answer

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    def _pool(self) -> httpx.AsyncHTTPTransport:
        # The transport, not a client: no redirects, cookies, proxies or authentication to turn off, and less to do.
        if self._transport is None:
            limits = httpx.Limits(max_connections=MOST_CALLS, max_keepalive_connections=64, keepalive_expiry=30.0)
            self._transport = httpx.AsyncHTTPTransport(trust_env=False, limits=limits)
        return self._transport


AT_FAULT = frozenset({400, 415, 422})  # the request is; the client gets the upstream's own words


def _check(answer: Answer) -> None:
    name, status = answer.upstream.name, answer.status
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise UpstreamFailed(name, "upstream_malformed", "compressed its answer unasked", http_status=status)
    if 200 <= status < 300 or status in AT_FAULT:
        return
    if status == 429:
        wait = answer.headers.get("retry-after", "")
        retry_after = wait if wait.isascii() and wait.isdigit() and len(wait) < 6 else "1"
        raise UpstreamFailed(
            name, "upstream_busy", "is busy (429)", status=429, http_status=429, retry_after=retry_after
        )
    what = "wants to redirect" if 300 <= status < 400 else "answered"
    raise UpstreamFailed(name, "upstream_status", f"{what} ({status})", http_status=status)


def failure(upstream: Upstream, error: Exception) -> UpstreamFailed:
    """What a broken connection means. The exception's own text may hold a header and is not repeated."""
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        what = f"did not answer within {upstream.timeout_s:g} s"
        return UpstreamFailed(upstream.name, "upstream_timeout", what, status=504)
    if isinstance(error, httpx.ConnectError):
        return UpstreamFailed(upstream.name, "upstream_unreachable", "cannot be reached")
    return UpstreamFailed(upstream.name, "upstream_broken", "broke off in the middle")


_known: WeakKeyDictionary[Server, Upstreams] = WeakKeyDictionary()


def upstreams_of(server: Server) -> Upstreams:
    """The upstreams of a server, made on first use."""
    found = _known.get(server)
    if found is None:
        settings = server.project.settings
        found = _known[server] = Upstreams(settings, most_bytes=server.settings.max_batch_bytes)
        server.metrics.gauge("upstream_calls", "Calls to upstreams that are running.", lambda: found.calls)
    return found
