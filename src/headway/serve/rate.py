"""Limits per key: on requests per second, with a burst of one second's worth, on the time spent reading, on writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.nouns import errors

_BURST_S = 1.0
_CROWDED_S = 1.0
_SHARE = 0.1  # of a second per second
_MOST_WAITING = 8  # requests of a key
_LEAST_S = 0.005  # that a request counts as
_REFUSED_S = 0.25


class Rates:
    """A token bucket per key; callers on this machine without a key share one."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s)
        self._buckets: dict[str, tuple[float, float]] = {}
        self.limited = per_s > 0.0

    def take(self, key: str) -> None:
        now = time.monotonic()
        left, then = self._buckets.get(key, (self._most, now))
        left = min(self._most, left + (now - then) * self._per_s)
        if left < 1.0:
            self._buckets[key] = (left, now)
            raise errors.Busy(
                f"This key sent more than {self._per_s:g} requests per second.",
                code="rate_limited",
                hint="Slow down, or raise `rate_per_s` in [server].",
                retry_after_s=(1.0 - left) / self._per_s,
            )
        self._buckets[key] = (left - 1.0, now)


class Crowd:
    """Whether another key writes at the moment: then no key has many writes in progress at once."""

    def __init__(self) -> None:
        self._last = self._other = ("", float("-inf"))  # the two keys that wrote last, and when

    def around(self, key: str) -> bool:
        """Note a write of this key; whether another one wrote within the last second."""
        now = time.monotonic()
        if key != self._last[0]:
            self._other = self._last
        self._last = (key, now)
        return now - self._other[1] < _CROWDED_S


class ReadingTime:
    """How long the requests of one key may read: a tenth of the time, after a burst of a second, one at a time.

    What a request takes is known afterwards, so the time left may be negative; the next request is refused until then.
    """

    def __init__(self) -> None:
        self._left = _BURST_S
        self._then = time.monotonic()
        self._turn = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Waits for the turn of this request, and takes off the time until the end of the block."""
        if self._waiting >= _MOST_WAITING:
            raise await _refusal(1.0)
        self._waiting += 1
        try:
            async with self._turn:
                began = time.monotonic()
                self._left = min(_BURST_S, self._left + (began - self._then) * _SHARE)
                self._then = began
                if self._left > 0.0:
                    try:
                        yield
                        return
                    finally:
                        self._then = time.monotonic()
                        self._left -= max(_LEAST_S, self._then - began)
        finally:
            self._waiting -= 1
        raise await _refusal(-self._left / _SHARE)


async def _refusal(wait_s: float) -> errors.Busy:
    """The error, after a moment: those who ask again at once keep nobody busy."""
    await asyncio.sleep(_REFUSED_S)
    return errors.Busy(
        "This key reads more than its share of the server's time.",
        code="reading_limited",
        hint="Ask less often, or read the project from the command line; the project token has no such limit.",
        retry_after_s=max(1.0, wait_s),
    )
