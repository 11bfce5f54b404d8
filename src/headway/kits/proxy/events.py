"""Split bytes into server-sent events. Memory is bounded by the size of one event.

    reader = EventReader("small", most=16_000_000)
    for event in reader.feed(piece): event.data               # the JSON text, or b"[DONE]"; None: a comment

Each event keeps its original bytes, so that events that are not rewritten pass through unchanged.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headway.kits.proxy.upstreams import UpstreamFailed

_END = re.compile(rb"\r?\n\r?\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamEvent(NamedTuple):
    """One event: its name (often empty), its data, and its original bytes including the blank line."""

    name: bytes
    data: bytes | None
    raw: bytes


class EventReader:
    """Splits a stream into events of at most `most` bytes."""

    def __init__(self, upstream: str, most: int) -> None:
        self._upstream = upstream
        self._most = most
        self._rest = bytearray()
        self._searched = 0

    def feed(self, piece: bytes) -> list[StreamEvent]:
        """The events that are complete with this piece."""
        rest = self._rest
        rest += piece
        events: list[StreamEvent] = []
        start, search_from = 0, self._searched
        while (end := _END.search(rest, search_from)) is not None:
            events.append(_event(bytes(rest[start : end.end()])))
            start = search_from = end.end()
        del rest[:start]
        self._searched = max(0, len(rest) - 3)  # a blank line may be split between two pieces
        if len(rest) > self._most:
            raise UpstreamFailed(
                self._upstream, "upstream_too_large", f"sent an event of more than {self._most:,} bytes"
            )
        return events

    def close(self) -> None:
        """Check the end of the stream: an incomplete event means that it was cut off."""
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
    """An event for the client. Re-encoded JSON contains no line breaks."""
    head = b"event: " + name + b"\n" if name else b""
    return head + b"data: " + data.replace(b"\r", b"").replace(b"\n", b" ") + b"\n\n"
