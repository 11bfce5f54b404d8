"""Connections to model servers from an event loop; answers may be read in pieces.

    pool = AsyncOutgoing(connections=256)
    answer = await pool.open(url, body, headers, timeout_s=60.0, until=time.monotonic() + 60.0, most_bytes=8_000_000)

`headway.kits.models.outgoing` documents the rules for every call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from headway.kits.models import ERROR_BYTES, KEEPALIVE_S, connection_failure, failure_of, post_request, too_large

if TYPE_CHECKING:  # imported by the first call, as in `headway.kits.models.outgoing`
    import httpx


class AsyncOutgoing:
    """A pool of connections to any number of servers. Lives in one event loop."""

    def __init__(self, *, connections: int, keepalive: int = 64) -> None:
        import httpx  # noqa: F401 — here, not within the time limit of the first call

        self._connections, self._keepalive = connections, keepalive
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def open(
        self,
        url: str,
        body: bytes,
        headers: Iterable[tuple[str, str]],
        *,
        timeout_s: float,
        until: float,
        most_bytes: int,
        accept: str = "application/json",
        usable: frozenset[int] = frozenset(),
    ) -> AsyncAnswer:
        """Sends a request; returns when the headers of its answer are here, with a status of 2xx or in `usable`.

        `until` is a moment of the monotonic clock. A key goes into `headers`.
        """
        import httpx

        request = post_request(url, body, headers, timeout_s, accept)
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                response = await self._pool().handle_async_request(request)
        except (TimeoutError, httpx.TransportError) as error:
            raise connection_failure(error, timeout_s) from error
        failure = failure_of(response, usable)
        if failure is not None:
            await response.aclose()
            raise failure
        return AsyncAnswer(response, timeout_s, most_bytes)

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    def _pool(self) -> httpx.AsyncHTTPTransport:
        import httpx

        if self._transport is None:
            limits = httpx.Limits(
                max_connections=self._connections,
                max_keepalive_connections=self._keepalive,
                keepalive_expiry=KEEPALIVE_S,
            )
            self._transport = httpx.AsyncHTTPTransport(trust_env=False, limits=limits)
        return self._transport


class AsyncAnswer:
    """An answer whose headers are here; its body is read in pieces, as fast as they are taken."""

    def __init__(self, response: httpx.Response, timeout_s: float, most_bytes: int) -> None:
        self.status = response.status_code
        self.media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._pieces = aiter(cast("httpx.AsyncByteStream", response.stream))
        self._timeout_s, self._most_bytes = timeout_s, most_bytes
        self._size = 0

    async def piece(self, within_s: float) -> bytes:
        """The next bytes; b"" at the end."""
        import httpx

        try:
            async with asyncio.timeout(within_s):
                piece = await anext(self._pieces, b"")
        except (TimeoutError, httpx.TransportError) as error:
            raise connection_failure(error, self._timeout_s) from error
        self._size += len(piece)
        if self._size > self._most_bytes:
            raise too_large(self._most_bytes)
        return piece

    async def whole(self, until: float) -> bytes:
        """All of it, before a moment of the monotonic clock."""
        pieces = []
        while piece := await self.piece(max(0.0, until - time.monotonic())):
            pieces.append(piece)
        return b"".join(pieces)

    async def beginning(self, until: float) -> bytes:
        """The message of an error, truncated."""
        self._most_bytes = max(self._most_bytes, ERROR_BYTES)
        content = b""
        while len(content) < ERROR_BYTES and (piece := await self.piece(max(0.0, until - time.monotonic()))):
            content += piece
        return content

    async def close(self) -> None:
        """Releases the connection; one whose answer is not complete is cut, which ends the work at the other end."""
        await self._response.aclose()
