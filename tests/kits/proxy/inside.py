"""An httpx transport into the application itself: no server, no socket; its tasks run in the test's loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

from headway.serve.guard import RequestGuard

__all__ = ["Inside"]


class _Lines:
    def __init__(self, headers: list[tuple[str, str]]) -> None:
        self._headers = headers

    def __len__(self) -> int:
        return len(dict(self._headers))

    def items(self) -> list[tuple[str, str]]:
        return self._headers

    def keys(self) -> list[str]:
        return list(dict(self._headers))


class _Scope:
    def __init__(self, request: httpx.Request) -> None:
        self.method = request.method
        self.http_version = "1.1"
        self.path = request.url.path
        self.query_string = request.url.query.decode("ascii")
        self.headers = _Lines([(name.lower(), value) for name, value in request.headers.multi_items()])


class _Wire:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.sent = b""

    async def __call__(self) -> bytes:
        return self._body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self._body

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status, self.headers, self.sent = status, headers, body

    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> _Wire:
        self.status, self.headers = status, headers
        return self

    async def send_bytes(self, data: bytes) -> None:
        self.sent += data


class Inside(httpx.AsyncBaseTransport):
    def __init__(self, guard: RequestGuard) -> None:
        self._guard = guard

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        wire = _Wire(await request.aread())
        await self._guard(_Scope(request), wire)
        return httpx.Response(wire.status, headers=wire.headers, content=wire.sent)
