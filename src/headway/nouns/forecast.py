"""When a test is likely to have a verdict: one record, whose words every door shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10, sqrt

from headway.nouns.times import lasting, moment
from headway.nouns.wire import Time, served
from headway.nouns.words import plural

SOON = 20  # times what was seen so far: more than that is not soon
_LEAST = 50  # of very little, a multiple says nothing
_WIDE = 10  # times: of a wider range only the end says something
_DAY_S = 86_400.0
_ABOUT = 4.0  # times: a narrower range of time is one duration


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictForecast:
    """How many more of what a test counts bring a verdict, most likely, and how long that takes at the present rate."""

    low: int
    high: int | None  # None: it may also take very long
    soon: bool  # False: more than 20 times what was seen
    unit: str  # "decisions"
    per_day: float | None = None  # the present rate of these
    open: int = 0  # nothing more is needed but these outcomes
    until: Time | None = None  # by then open outcomes count as missing, and the test has its decisions

    @classmethod
    def of(
        cls, low: int, expected: int, high: int | None, *, seen: int, unit: str, per_day: float | None = None
    ) -> VerdictForecast:
        """The forecast for a range with its most likely number, where so many were seen."""
        reach = SOON * max(seen, _LEAST)
        if high is not None and high > reach and high > expected:
            high = None
        return cls(low=min(low, expected), high=high, soon=expected <= reach, unit=unit, per_day=per_day)

    @served
    def text(self) -> str:
        """In words, for example "120 to 400 more decisions, about 2 days"."""
        if self.open and self.until is not None:
            return f"waiting for {plural(self.open, 'outcome')}, at the latest until {moment(self.until)}"
        if not self.soon:
            return f"not soon, more than {SOON} times the {self.unit} so far are needed"
        low = _rounded(self.low, floor)
        if self.high is None:
            return f"at least {low:,} more {self.unit}{self._time()}"
        high = _rounded(self.high, ceil)
        if self.low == self.high:
            return f"about {plural(self.low, 'more ' + self.unit.removesuffix('s'))}{self._time()}"
        if self.low * _WIDE <= self.high:
            return f"up to {high:,} more {self.unit}{self._time()}"
        return f"{low:,} to {high:,} more {self.unit}{self._time()}"

    def _time(self) -> str:
        if not self.per_day:
            return ""
        low, high = (max(1.0, count) / self.per_day * _DAY_S for count in (self.low, self.high or self.low))
        if low > 36_500 * _DAY_S:
            return ""
        if self.high is None:
            return f", at least {lasting(low)}"
        if high < 60.0:
            return ", less than a minute"
        if high <= _ABOUT * low:
            return f", about {lasting(sqrt(low * high))}"
        if self.low * _WIDE <= self.high:
            return f", at most {lasting(high)}"
        return f", {lasting(low)} to {lasting(high)}"


def _rounded(count: int, way: Callable[[float], float]) -> int:
    """To two digits, down or up, so that it does not change at every look."""
    step: int = 10 ** max(0, int(log10(max(1, count))) - 1)
    return int(way(count / step)) * step
