"""`Client` and `AsyncClient`: a Headway server from Python. Their verbs are those of `ServerVerbs`.

    from headway.client import AsyncClient, Client

    with Client("http://127.0.0.1:8765") as client:
        pick = client.decide("route", "Summarise this page", ["small", "large"])
        client.signal(pick.id, reward=1.0)

    async with AsyncClient("http://127.0.0.1:8765") as client:
        pick = await client.decide("route", "Summarise this page", ["small", "large"])

A `Client` is safe to share between threads. A call that got no answer is sent again where it cannot count twice;
`Retry-After` is honoured. Errors are those of `headway` itself, with the same codes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Self, TypeVar, Unpack

import httpx

from headway.client.answers import Decided, Event, EventParser, error_of
from headway.client.calls import AsyncVerbs, BlockingVerbs, DecideOptions, Offer, ServerCall
from headway.client.sending import (
    EVENT_HEADERS,
    EVENT_TIMEOUT,
    Attempts,
    client_settings,
    connection_error,
    read,
    request,
)
from headway.nouns import errors

T = TypeVar("T")


class Client(BlockingVerbs):
    """The verbs of a project, spoken to its server."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retries: int = 3,
        longest_wait_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url
        self._http = httpx.Client(**client_settings(url, key, timeout_s), transport=transport)
        self._retries, self._longest_wait_s, self._wait = retries, longest_wait_s, wait

    @contextmanager
    def decision(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **details: Unpack[DecideOptions]
    ) -> Iterator[Decided]:
        """`with client.decision(…) as pick:` records `latency_s`, and a raised exception as a failed outcome."""
        started = time.perf_counter()
        pick = self.decide(task, text, candidates, **details)
        try:
            yield pick
        except BaseException as error:
            outcome = {"failed": 1.0, "latency_s": time.perf_counter() - started}
            self.signal(pick.id, outcome, label=type(error).__name__)
            raise
        self.signal(pick.id, {"latency_s": time.perf_counter() - started})

    def events(self) -> Iterator[Event]:
        """Live events, until the server stops or the iterator is closed. Nothing is sent again."""
        parser = EventParser()
        try:
            with self._http.stream("GET", "/v1/events", headers=EVENT_HEADERS, timeout=EVENT_TIMEOUT) as response:
                if response.is_error:
                    raise error_of(response.status_code, response.read(), response.headers)
                for line in response.iter_lines():
                    yield from parser.line(line)
        except httpx.TransportError as error:
            raise connection_error(error) from error

    def _send(self, call: ServerCall[T]) -> T:
        attempts = Attempts(call=call, retries=self._retries, longest_wait_s=self._longest_wait_s)
        while True:
            response = None
            try:
                response = self._http.send(request(self._http, call))
                return read(call, response)
            except (httpx.TransportError, errors.HeadwayError) as error:
                self._wait(attempts.after(error, response))

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(AsyncVerbs):
    """The verbs of a project, spoken to its server from an event loop."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        key: str | None = None,
        *,
        timeout_s: float = 30.0,
        retries: int = 3,
        longest_wait_s: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url
        self._http = httpx.AsyncClient(**client_settings(url, key, timeout_s), transport=transport)
        self._retries, self._longest_wait_s, self._wait = retries, longest_wait_s, wait

    @asynccontextmanager
    async def decision(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **details: Unpack[DecideOptions]
    ) -> AsyncIterator[Decided]:
        """`async with client.decision(…) as pick:` records `latency_s`, and an exception as a failed outcome."""
        started = time.perf_counter()
        pick = await self.decide(task, text, candidates, **details)
        try:
            yield pick
        except BaseException as error:
            outcome = {"failed": 1.0, "latency_s": time.perf_counter() - started}
            await self.signal(pick.id, outcome, label=type(error).__name__)
            raise
        await self.signal(pick.id, {"latency_s": time.perf_counter() - started})

    async def events(self) -> AsyncIterator[Event]:
        """Live events, until the server stops or the iterator is closed. Nothing is sent again."""
        parser = EventParser()
        try:
            async with self._http.stream("GET", "/v1/events", headers=EVENT_HEADERS, timeout=EVENT_TIMEOUT) as response:
                if response.is_error:
                    raise error_of(response.status_code, await response.aread(), response.headers)
                async for line in response.aiter_lines():
                    for event in parser.line(line):
                        yield event
        except httpx.TransportError as error:
            raise connection_error(error) from error

    async def _send(self, call: ServerCall[T]) -> T:
        attempts = Attempts(call=call, retries=self._retries, longest_wait_s=self._longest_wait_s)
        while True:
            response = None
            try:
                response = await self._http.send(request(self._http, call))
                return read(call, response)
            except (httpx.TransportError, errors.HeadwayError) as error:
                await self._wait(attempts.after(error, response))

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
