"""Two arms whose outcomes are 1 or 0 with known chances, which may change during a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["LARGE", "SMALL", "World", "falling", "steady"]

SMALL, LARGE = "small", "large"
World = Callable[[int], Mapping[str, float]]  # the chance of every arm at the n-th decision of a run


def steady(small: float, large: float) -> World:
    """The same chances at all times."""
    chances = {SMALL: small, LARGE: large}
    return lambda _place: chances


def falling(small: float, large: tuple[float, float], *, since: int, over: int) -> World:
    """`large` falls in a straight line from one chance to the other, `over` decisions from `since` on."""
    before, after = large

    def chances(place: int) -> Mapping[str, float]:
        done = min(1.0, max(0.0, (place - since) / over))
        return {SMALL: small, LARGE: before + done * (after - before)}

    return chances
