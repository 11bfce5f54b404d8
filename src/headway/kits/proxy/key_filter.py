"""Cuts an upstream's key out of everything that it sends back, also where a key is split between two pieces."""

from __future__ import annotations

from headway.nouns.redacted import mark

__all__ = ["KeyFilter"]

_LEAST = 8  # a shorter one is a placeholder, and part of ordinary words
_MARK = mark("api-key").encode()


class KeyFilter:
    """The filter of one answer.

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
