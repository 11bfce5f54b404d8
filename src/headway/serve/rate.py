"""A limit on requests per key and second, with a burst of one second's worth."""

from __future__ import annotations

import time

from headway.nouns.errors import Busy

__all__ = ["Rates"]


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
            raise Busy(
                f"This key sent more than {self._per_s:g} requests per second.",
                code="rate_limited",
                hint="Slow down, or raise `rate_per_s` in [server].",
                retry_after_s=(1.0 - left) / self._per_s,
            )
        self._buckets[key] = (left - 1.0, now)
