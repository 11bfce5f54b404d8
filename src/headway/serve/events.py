"""Events for the page, as server-sent events: one JSON line each.

A slow reader loses the oldest events, so that the server's memory stays bounded; an event reports how many it missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from headway.nouns.errors import Busy

__all__ = ["Hub"]

_WAITING = 256
_MOST_STREAMS = 200
_KEEP_ALIVE_S = 15.0


class _Stream:
    __slots__ = ("missed", "ready", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.ready = asyncio.Event()
        self.missed = 0


class Hub:
    """Sends events to every open stream. Belongs to the server's event loop."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()
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

    def check_room(self) -> None:
        if len(self._streams) >= _MOST_STREAMS:
            raise Busy(f"{_MOST_STREAMS} event streams are open already.", code="too_many_streams", retry_after_s=5)

    async def listen(self, first: list[tuple[str, Any]]) -> AsyncIterator[bytes]:
        """The events from now on, after the events in `first`."""
        stream = _Stream()
        self._streams.add(stream)
        try:
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
        finally:
            self._streams.discard(stream)


def _event(name: str, data: Any, number: int) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), number, msgspec.json.encode(data))
