"""Server-sent events out of bytes, one at a time, never more in memory than one event may have.

    reader = EventReader("small", most=16_000_000)
    for event in reader.feed(piece): event.data               # the JSON text, or b"[DONE]"; None: a comment

Each event keeps the bytes it came as, so that what is not touched passes unchanged.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headway.kits.proxy.upstreams import UpstreamFailed

__all__ = ["EventReader", "StreamEvent", "event_bytes"]

_END = re.compile(rb"\r?\n\r?\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamEvent(NamedTuple):
    """One event: its name (often none), its data, and its own bytes with the blank line."""

    name: bytes
    data: bytes | None
    raw: bytes


class EventReader:
    """Cuts a stream into events."""

    def __init__(self, upstream: str, most: int) -> None:
        self._upstream = upstream
        self._most = most
        self._rest = bytearray()
        self._seen = 0

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """The events that are complete with this piece."""
        rest = self._rest
        rest += piece
        found: list[StreamEvent] = []
        start, look = 0, self._seen
        while (end := _END.search(rest, look)) is not None:
            found.append(_event(bytes(rest[start : end.end()])))
            start = look = end.end()
        del rest[:start]
        self._seen = max(0, len(rest) - 3)  # a blank line may be cut in two
        if len(rest) > self._most:
            raise UpstreamFailed(
                self._upstream, "upstream_too_large", f"sent an event of more than {self._most:,} bytes"
            )
        return found

    def close(self) -> None:
        """At the end of the stream: half an event means that it was cut off."""
        if self._rest.strip():
            raise UpstreamFailed(self._upstream, "upstream_broken", "broke off in the middle of an event")


def _event(raw: bytes) -> StreamEvent:
    name, data = b"", []
    for line in _LINE.split(raw):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return StreamEvent(name, b"\n".join(data) if data else None, raw)


def event_bytes(name: bytes, data: bytes) -> bytes:
    """An event as it goes to the client. JSON text holds no line break once it is encoded again."""
    head = b"event: " + name + b"\n" if name else b""
    return head + b"data: " + data.replace(b"\r", b"").replace(b"\n", b" ") + b"\n\n"
