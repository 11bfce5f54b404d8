"""Calls to the model servers in headway.toml, through one connection pool, with caps.

    upstreams = upstreams_of(call)
    upstreams.candidates(task)                                    # the task's actions that can be called now
    answer = await upstreams.open(upstream, "/chat/completions", body, headers)

URLs come only from headway.toml; `headway.kits.models.outgoing` documents the rules for every call. A call without a
usable answer raises `UpstreamFailed`, whose text never repeats the upstream's own message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from math import ceil
from weakref import WeakKeyDictionary

from headway.kits.models import CallFailed
from headway.kits.proxy.breaker import Breakers
from headway.kits.proxy.outages import OutageLog
from headway.kits.proxy.pool import AsyncAnswer, AsyncOutgoing
from headway.nouns import errors, mark
from headway.serve import Call
from headway.settings import Settings, TaskSettings, Upstream

logger = logging.getLogger("headway.serve")

MOST_CALLS = 256  # at once; further requests get 429 before a decision is made
STREAM_TIMES = 10  # a streamed answer may take `timeout_s` per event, and this many times `timeout_s` in total
STREAM_SIZES = 4  # and may be this many times as large as a whole one, because every token has a frame
AT_FAULT = frozenset({400, 415, 422})  # the request is at fault; the client gets the upstream's error
_LONGEST_WAIT_S = 100_000.0  # a longer Retry-After is not passed on


class UpstreamFailed(errors.HeadwayError):
    """An upstream failed, and another one may not. The client gets `status` if every upstream fails."""

    status = 502

    def __init__(
        self,
        upstream: str,
        code: str,
        what: str,
        *,
        status: int = 502,
        http_status: int = 0,
        retry_after: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(
            f"The upstream {upstream!r} {what}.", code=code, hint=hint or f"Its address is in [upstreams.{upstream}]."
        )
        self.upstream = upstream
        self.status = status
        self.http_status = http_status
        self.retry_after = retry_after


class UpstreamAnswer:
    """An answer whose headers have arrived; its body is read piece by piece."""

    def __init__(self, upstream: Upstream, answer: AsyncAnswer, key: str) -> None:
        self.upstream = upstream
        self._filter = KeyFilter(key)
        self.status, self.media = answer.status, answer.media
        self.headers = {name: self._filter.cut(value.encode()).decode() for name, value in answer.headers.items()}
        self.close = answer.close
        self._answer = answer

    async def piece(self, within_s: float) -> bytes:
        """The next bytes; b"" at the end."""
        until = time.monotonic() + within_s
        try:
            while piece := await self._answer.piece(max(0.0, until - time.monotonic())):
                if clean := self._filter.feed(piece):
                    return clean
        except CallFailed as failure:
            raise upstream_failed(self.upstream, failure) from failure
        return self._filter.rest()

    async def whole(self, until: float) -> bytes:
        """The whole body; `until` is a time on the monotonic clock."""
        try:
            return self._filter.cut(await self._answer.whole(until))
        except CallFailed as failure:
            raise upstream_failed(self.upstream, failure) from failure

    async def beginning(self, until: float) -> bytes:
        """The first part of the body, enough for an error message."""
        try:
            return self._filter.cut(await self._answer.beginning(until))
        except CallFailed as failure:
            raise upstream_failed(self.upstream, failure) from failure


class Slot:
    """One of the requests that may run at once. `free` may be called more than once."""

    __slots__ = ("_request", "_upstreams")

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams: Upstreams | None = upstreams
        self._request = ""
        upstreams.calls += 1

    def name(self, request: str) -> None:
        """The request is one that its client may repeat; raises Conflict while it runs already."""
        assert self._upstreams is not None, "it is taken"
        if request in self._upstreams.running:
            raise errors.Conflict(
                "A request with this idempotency key is being answered.",
                code="request_in_progress",
                hint="Wait for its answer, or use another key for another request.",
            )
        self._upstreams.running.add(request)
        self._request = request

    def free(self) -> None:
        if self._upstreams is not None:
            self._upstreams.calls -= 1
            self._upstreams.running.discard(self._request)
            self._upstreams = None


class Upstreams:
    """The model servers of a project. Belongs to one event loop."""

    def __init__(self, settings: Settings, breakers: Breakers, *, most_bytes: int) -> None:
        self.settings = settings
        self.breakers = breakers
        self.calls = 0
        self.running = set[str]()  # requests with an idempotency key, by the id of their decision
        self._most_bytes = most_bytes
        self._pool = AsyncOutgoing(connections=MOST_CALLS)
        self._warned: set[str] = set()

    def take(self) -> Slot:
        """A slot for one call; raises `Busy` if all are taken."""
        if self.calls >= MOST_CALLS:
            raise errors.Busy(f"{MOST_CALLS} calls to upstreams are running.", code="too_many_calls", hint="Try again.")
        return Slot(self)

    def ready(self, name: str) -> bool:
        """Whether the upstream is configured and its key is set."""
        upstream = self.settings.upstreams.get(name)
        if upstream is None:
            return False
        if not upstream.key_env or self.settings.keys.get(upstream.key_env):
            return True
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("upstream=%s skipped: %s is not set", name, upstream.key_env)
        return False

    def candidates(self, task: TaskSettings) -> tuple[str, ...]:
        """The task's actions that are upstreams; every upstream if the task declares no actions."""
        names: Iterable[str] = task.actions or sorted(self.settings.upstreams)
        ready = tuple(name for name in names if self.ready(name))
        if not ready:
            raise errors.Unavailable(
                f"No action of the task {task.name!r} is an upstream that can be called.",
                code="no_upstream",
                hint=self._cure(tuple(names)),
            )
        return ready

    def _cure(self, names: tuple[str, ...]) -> str:
        """What is missing before one of these can be called, by name."""
        unset = [self.settings.upstreams[name].key_env for name in names if name in self.settings.upstreams]
        if unset:
            return f"Set {' or '.join(dict.fromkeys(unset))} and restart the server."
        name = names[0] if names else "NAME"
        return f"Declare [upstreams.{name}] with url and model in headway.toml, and set its key_env."

    async def open(
        self,
        upstream: Upstream,
        path: str,
        body: bytes,
        headers: Iterable[tuple[str, str]],
        *,
        key: str,
        stream: bool,
        until: float,
    ) -> UpstreamAnswer:
        """Send a request and wait for the headers of a 2xx answer, or of one that blames the request.

        `key` is in `headers`; it is cut out of everything that comes back.
        """
        try:
            answer = await self._pool.open(
                upstream.url.rstrip("/") + path,
                body,
                headers,
                accept="text/event-stream" if stream else "application/json",
                timeout_s=upstream.timeout_s,
                until=until,
                most_bytes=self._most_bytes * (STREAM_SIZES if stream else 1),
                usable=AT_FAULT,
            )
        except CallFailed as failure:
            raise upstream_failed(upstream, failure) from failure
        return UpstreamAnswer(upstream, answer, key)

    async def aclose(self) -> None:
        await self._pool.aclose()


def upstream_failed(upstream: Upstream, failure: CallFailed) -> UpstreamFailed:
    """The error that a client gets if no other upstream answers."""
    status = {"timeout": 504, "busy": 429}.get(failure.kind, 502)
    wait_s = failure.retry_after_s or 1.0
    return UpstreamFailed(
        upstream.name,
        f"upstream_{failure.kind}",
        failure.what,
        status=status,
        http_status=failure.status,
        retry_after=str(ceil(wait_s) if wait_s < _LONGEST_WAIT_S else 1) if failure.kind == "busy" else "",
        hint=_cure(upstream, failure),
    )


def _cure(upstream: Upstream, failure: CallFailed) -> str:
    """What the owner of headway.toml can do about the most common mistakes."""
    table = f"[upstreams.{upstream.name}] of headway.toml"
    if failure.status == 404:
        return f"Is {upstream.model!r} a model of that server? Correct model or url in {table}."
    if failure.status in (401, 403):
        if upstream.key_env:
            return f"Set {upstream.key_env} to a key that this server accepts, and restart Headway."
        return f"It wants a key: name the variable that holds it as key_env in {table}."
    if failure.kind == "unreachable":
        return f"Start that server, or correct url in {table}."
    return ""


_known: WeakKeyDictionary[object, Upstreams] = WeakKeyDictionary()  # by server


def upstreams_of(call: Call) -> Upstreams:
    """The upstreams of the server that is called, created on first use."""
    server = call.server
    upstreams = _known.get(server)
    if upstreams is None:
        settings = server.project.settings
        breakers = Breakers(settings.upstreams, server.project.clock, OutageLog(server.project))
        upstreams = _known[server] = Upstreams(settings, breakers, most_bytes=server.settings.max_batch_bytes)
        server.metrics.gauge("upstream_calls", "Calls to upstreams that are running.", lambda: upstreams.calls)
        server.metrics.gauge("upstreams_down", "Upstreams whose breaker is open.", lambda: len(breakers.down))
    return upstreams


_LEAST = 8  # a shorter one is a placeholder, and part of ordinary words
_MARK = mark("api-key").encode()


class KeyFilter:
    """Cuts an upstream's key out of one answer, also where the key is split between two pieces.

    filter.cut(body)                     # a whole body
    filter.feed(piece), filter.rest()    # a stream
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode() if len(key) >= _LEAST else b""
        self._held = b""  # the beginning of a key, perhaps

    def cut(self, body: bytes) -> bytes:
        return body.replace(self._key, _MARK) if self._key else body

    def feed(self, piece: bytes) -> bytes:
        """What may be sent on; the end is held back while it could be the beginning of the key."""
        if not self._key:
            return piece
        text = self.cut(self._held + piece)
        held = next((size for size in range(min(len(self._key) - 1, len(text)), 0, -1) if self._begins(text, size)), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def _begins(self, text: bytes, size: int) -> bool:
        return text.endswith(self._key[:size])
