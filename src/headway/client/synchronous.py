"""`Client`: a Headway server from ordinary Python.

    from headway.client import Client

    with Client("http://127.0.0.1:8765") as client:
        pick = client.decide("route", "Summarise this page", ["small", "large"])
        client.signal(pick.id, reward=1.0)

Safe to share between threads. A call that got no answer is sent again where that cannot count twice; `Retry-After` is
honoured. Errors are those of `headway` itself, with the same codes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

__all__ = ["Client"]

T = TypeVar("T")


class Client:
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

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    # -- decide

    def decide(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **details: Unpack[Details]
    ) -> Decided:
        """Choose one of the candidates; it is durably logged when this returns. The same `id` gives the same answer."""
        return self._send(calls.decide(task, text, candidates, details))

    def decide_many(self, asks: Iterable[Ask]) -> list[Decided]:
        """Up to 1,000 decisions at once, each a table of what `decide` takes: all of them are stored, or none."""
        return self._send(calls.decide_many(asks))

    @contextmanager
    def decision(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **details: Unpack[Details]
    ) -> Iterator[Decided]:
        """`with client.decision(…) as pick:` records `latency_s`, and a raised exception as a failed outcome."""
        started = time.perf_counter()
        pick = self.decide(task, text, candidates, **details)
        try:
            yield pick
        except BaseException as error:
            taken = {"failed": 1.0, "latency_s": time.perf_counter() - started}
            self.signal(pick.id, taken, label=type(error).__name__)
            raise
        self.signal(pick.id, {"latency_s": time.perf_counter() - started})

    # -- signal

    def signal(
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
        return self._send(calls.signals({subject: calls.named(signals, named)}, key=key, label=label, early=early))

    def signals(self, values: Mapping[str, Signals]) -> int:
        """Signals about up to 1,000 decisions or episodes, by id: all are stored, or none. Gives how many were new."""
        return self._send(calls.signals(values))

    def episode(self, task: str, episode: str) -> str:
        """The id by which an episode takes signals; computed, nothing is asked."""
        return episode_id(task, episode)

    def end_episode(self, task: str, episode: str, ending: Ending = "terminated") -> None:
        """No decision of this episode comes any more."""
        self._send(calls.end_episode(task, episode, ending))

    # -- look

    def explain(self, decision: str) -> dict[str, Any]:
        """Who decided, why, with which probabilities, and how it went."""
        return self._send(calls.explain(decision))

    def status(self) -> dict[str, Any]:
        """Every task: who is current, what waits, how much there is."""
        return self._send(calls.status())

    def policies(self, task: str | None = None) -> list[dict[str, Any]]:
        """Every policy that the ledger names, and where it stands."""
        return self._send(calls.policies(task))

    def policy(self, reference: str) -> dict[str, Any]:
        """The header of a policy: what it is, what it was trained on, beside which baselines."""
        return self._send(calls.policy(reference))

    def events(self) -> Iterator[Event]:
        """What happens, as it happens, until the server stops or the iterator is closed. Nothing is sent again."""
        timeout = httpx.Timeout(EVENT_SILENCE_S, connect=5.0)
        parser = Events()
        try:
            with self._http.stream("GET", "/v1/events", headers=stream_headers(), timeout=timeout) as response:
                if response.is_error:
                    raise error_of(response.status_code, response.read(), response.headers)
                for line in response.iter_lines():
                    yield from parser.line(line)
        except httpx.TransportError as error:
            raise ours(error) from error

    # -- change who decides

    def promote(self, policy: str, *, task: str | None = None, trust_keys: Sequence[str] = ()) -> dict[str, Any]:
        """Make a policy current on its latest evidence; GateRefused if that does not carry it. Needs an admin key.

        `trust_keys`: whose ratings alone may decide it.
        """
        return self._send(calls.promote(policy, task, trust_keys))

    def rollback(self, task: str, *, to: str | None = None, why: str = "") -> dict[str, Any]:
        """Make the previous policy (or `to`) current again. Needs an admin key."""
        return self._send(calls.rollback(task, to, why))

    # -- sending

    def _send(self, call: Call[T]) -> T:
        attempts = Attempts(call=call, retries=self._retries, longest_wait_s=self._longest_wait_s)
        while True:
            response = None
            try:
                response = self._http.request(
                    call.method,
                    call.path,
                    content=call.body,
                    params=call.params or None,
                    headers=None if call.body is None else {"content-type": "application/json"},
                )
                found: T = read(call, response)
                return found
            except (httpx.TransportError, HeadwayError) as error:
                self._wait(attempts.after(error, None if response is None else response.headers))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
