"""An outage: something that decisions can choose did not answer."""

from __future__ import annotations

from dataclasses import dataclass

from headway.nouns.times import rfc3339
from headway.nouns.wire import Time, served


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """An upstream that did not answer, as its breaker saw it: who, since when, until when, and what it led to."""

    upstream: str
    since: Time  # when the first call that failed began
    opened: Time  # when its breaker opened: from then on it was left out
    until: Time | None  # when a call succeeded again; None: it is down
    code: str  # of the failure that opened the breaker
    failures: int  # calls that failed
    elsewhere: int  # requests that went to another upstream: it was left out, or had just failed

    @property
    def open(self) -> bool:
        return self.until is None

    @served
    def text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        when = f"since {_second(self.since)} UTC" if self.until is None else f"until {_second(self.until)} UTC"
        if self.until is not None:
            when = f"from {_second(self.since)} {when}"
        calls = "1 call" if self.failures == 1 else f"{self.failures:,} calls"
        went = "1 request" if self.elsewhere == 1 else f"{self.elsewhere:,} requests"
        verb = "is" if self.until is None else "was"
        return f"{self.upstream!r} {verb} down {when} ({self.code}): {calls} failed, {went} went elsewhere."


def _second(moment: float) -> str:
    return rfc3339(moment)[:19].replace("T", " ")
