"""`AsyncClient`: the verbs of `Client`, awaited.

    from headway.client import AsyncClient

    async with AsyncClient("http://127.0.0.1:8765") as client:
        pick = await client.decide("route", "Summarise this page", ["small", "large"])
        await client.signal(pick.id, reward=1.0)

A test compares its verbs and their parameters with those of `Client`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from headway.client import calls
from headway.client.answers import Decided, Event, Events, error_of
from headway.client.calls import Ask, Call, Details, Offer, Signals
from headway.client.sending import EVENT_SILENCE_S, Attempts, client_settings, ours, read, stream_headers
from headway.nouns.errors import HeadwayError
from headway.nouns.ids import episode_id
from headway.nouns.records import Ending

__all__ = ["AsyncClient"]

T = TypeVar("T")


class AsyncClient:
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

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    # -- decide

    async def decide(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **details: Unpack[Details]
    ) -> Decided:
        """Choose one of the candidates; it is durably logged when this returns. The same `id` gives the same answer."""
        return await self._send(calls.decide(task, text, candidates, details))

    async def decide_many(self, asks: Iterable[Ask]) -> list[Decided]:
        """Up to 1,000 decisions at once, each a table of what `decide` takes: all of them are stored, or none."""
        return await self._send(calls.decide_many(asks))

    @asynccontextmanager
    async def decision(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **details: Unpack[Details]
    ) -> AsyncIterator[Decided]:
        """`async with client.decision(…) as pick:` records `latency_s`, and an exception as a failed outcome."""
        started = time.perf_counter()
        pick = await self.decide(task, text, candidates, **details)
        try:
            yield pick
        except BaseException as error:
            taken = {"failed": 1.0, "latency_s": time.perf_counter() - started}
            await self.signal(pick.id, taken, label=type(error).__name__)
            raise
        await self.signal(pick.id, {"latency_s": time.perf_counter() - started})

    # -- signal

    async def signal(
        self,
        subject: str,
        signals: Signals | None = None,
        *,
        key: str = "",
        label: str = "",
        early: bool = False,
        **named: float | None,
    ) -> int:
        """Say how a decision or an episode went; None takes a signal back. Returns how many were new.

        `early`: the decision may still be on its way; its signals wait for it.
        """
        return await self._send(
            calls.signals({subject: calls.named(signals, named)}, key=key, label=label, early=early)
        )

    async def signals(self, values: Mapping[str, Signals]) -> int:
        """Signals about up to 1,000 decisions or episodes, by id: all are stored, or none. Gives how many were new."""
        return await self._send(calls.signals(values))

    def episode(self, task: str, episode: str) -> str:
        """The id by which an episode takes signals; computed, nothing is asked."""
        return episode_id(task, episode)

    async def end_episode(self, task: str, episode: str, ending: Ending = "terminated") -> None:
        """No decision of this episode comes any more."""
        await self._send(calls.end_episode(task, episode, ending))

    # -- look

    async def explain(self, decision: str) -> dict[str, Any]:
        """Who decided, why, with which probabilities, and how it went."""
        return await self._send(calls.explain(decision))

    async def status(self) -> dict[str, Any]:
        """Every task: who is current, what waits, how much there is."""
        return await self._send(calls.status())

    async def policies(self, task: str | None = None) -> list[dict[str, Any]]:
        """Every policy that the ledger names, and where it stands."""
        return await self._send(calls.policies(task))

    async def policy(self, reference: str) -> dict[str, Any]:
        """The header of a policy: what it is, what it was trained on, beside which baselines."""
        return await self._send(calls.policy(reference))

    async def events(self) -> AsyncIterator[Event]:
        """What happens, as it happens, until the server stops or the iterator is closed. Nothing is sent again."""
        timeout = httpx.Timeout(EVENT_SILENCE_S, connect=5.0)
        parser = Events()
        try:
            async with self._http.stream("GET", "/v1/events", headers=stream_headers(), timeout=timeout) as response:
                if response.is_error:
                    raise error_of(response.status_code, await response.aread(), response.headers)
                async for line in response.aiter_lines():
                    for event in parser.line(line):
                        yield event
        except httpx.TransportError as error:
            raise ours(error) from error

    # -- change who decides

    async def promote(self, policy: str, *, task: str | None = None, trust_keys: Sequence[str] = ()) -> dict[str, Any]:
        """Make a policy current on its latest evidence; GateRefused if that does not carry it. Needs an admin key.

        `trust_keys`: whose ratings alone may decide it.
        """
        return await self._send(calls.promote(policy, task, trust_keys))

    async def rollback(self, task: str, *, to: str | None = None, why: str = "") -> dict[str, Any]:
        """Make the previous policy (or `to`) current again. Needs an admin key."""
        return await self._send(calls.rollback(task, to, why))

    # -- sending

    async def _send(self, call: Call[T]) -> T:
        attempts = Attempts(call=call, retries=self._retries, longest_wait_s=self._longest_wait_s)
        while True:
            response = None
            try:
                response = await self._http.request(
                    call.method,
                    call.path,
                    content=call.body,
                    params=call.params or None,
                    headers=None if call.body is None else {"content-type": "application/json"},
                )
                found: T = read(call, response)
                return found
            except (httpx.TransportError, HeadwayError) as error:
                await self._wait(attempts.after(error, None if response is None else response.headers))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
