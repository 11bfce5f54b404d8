"""Events for the page, as server-sent events: one JSON line each.

A slow reader loses the oldest events, so that the server's memory stays bounded; an event reports how many it missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from headway.nouns import errors

_WAITING = 256
_MOST_STREAMS = 200
_MOST_OPEN = 150  # of callers without a key
_KEEP_ALIVE_S = 15.0


class EventStream:
    """The events for one reader, from its creation until `aclose`."""

    def __init__(self, hub: Hub, keyed: bool) -> None:
        self.keyed = keyed
        self.waiting: deque[bytes] = deque()
        self.ready = asyncio.Event()
        self.missed = 0
        self._hub = hub
        self._events: AsyncGenerator[bytes] | None = None

    def start(self, first: list[tuple[str, Any]]) -> EventStream:
        """Begins with the events in `first`."""
        self._events = self._hub.events(self, first)
        return self

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> bytes:
        assert self._events is not None, "a stream is started before it is read"
        return await anext(self._events)

    async def aclose(self) -> None:
        """Gives its place back, also if it was never started."""
        self._hub.leave(self)
        if self._events is not None:
            await self._events.aclose()


class Hub:
    """Sends events to every open stream. Belongs to the server's event loop."""

    def __init__(self) -> None:
        self._streams: set[EventStream] = set()
        self._closed = False
        self._number = 0

    def __len__(self) -> int:
        return len(self._streams)

    def publish(self, name: str, data: Any) -> None:
        if not self._streams:
            return
        self._number += 1
        body = _event(name, data, self._number)
        for stream in self._streams:
            if len(stream.waiting) >= _WAITING:
                stream.waiting.popleft()
                stream.missed += 1
            stream.waiting.append(body)
            stream.ready.set()

    def close(self) -> None:
        """Ends every stream with the event `stopping`."""
        self._closed = True
        for stream in self._streams:
            stream.ready.set()

    def enter(self, *, keyed: bool) -> EventStream:
        """Takes a place for a stream, or raises `too_many_streams`; some places are for callers with a key."""
        others = sum(not stream.keyed for stream in self._streams)
        if len(self._streams) >= _MOST_STREAMS or (not keyed and others >= _MOST_OPEN):
            most = _MOST_STREAMS if keyed else _MOST_OPEN
            raise errors.Busy(f"{most} event streams are open already.", code="too_many_streams", retry_after_s=5)
        stream = EventStream(self, keyed)
        self._streams.add(stream)
        return stream

    def leave(self, stream: EventStream) -> None:
        self._streams.discard(stream)

    async def events(self, stream: EventStream, first: list[tuple[str, Any]]) -> AsyncGenerator[bytes]:
        """The events from now on, after the events in `first`."""
        for name, data in first:
            yield _event(name, data, self._number)
        while not self._closed:
            if stream.missed:
                missed, stream.missed = stream.missed, 0
                yield _event("missed", {"events": missed}, self._number)
            while stream.waiting:
                yield stream.waiting.popleft()
            stream.ready.clear()
            if self._closed or stream.waiting:
                continue
            try:
                await asyncio.wait_for(stream.ready.wait(), _KEEP_ALIVE_S)
            except TimeoutError:
                yield b": still here\n\n"
        yield _event("stopping", {}, self._number)


def _event(name: str, data: Any, number: int) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), number, msgspec.json.encode(data))
