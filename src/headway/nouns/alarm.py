"""An alarm: the outcomes of what is served have changed. An outage: what decisions can choose did not answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.nouns.times import rfc3339
from headway.nouns.wire import Time, served
from headway.nouns.words import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """The outcomes of what is served have changed: what, where and since when. `rows`: before and after it."""

    task: str
    stream: str  # "all", "action large", "action large, role planner", "exploration of large"
    action: str  # the action whose outcomes changed; empty: all of them
    segment: str  # the role in which it changed; empty: all of them
    since: Time  # the time of the first decision after the change
    from_decision: int  # the store's number of that decision
    before: float  # the mean reward
    after: float
    rows: tuple[int, int]
    explore: float  # the share of random choices while the alarm is open; 0: as usual
    policy: str  # the current policy when it was raised
    at: Time  # when it was raised
    seq: int  # the ledger's number
    ended: str = ""  # why it ended; empty: it is open
    ended_at: Time | None = None
    key: str = ""  # the only key whose outcomes show it: nothing was changed automatically; empty: others' do as well

    @property
    def open(self) -> bool:
        return not self.ended

    @served
    def text(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return sentence(self.action, self.segment, self.since, (self.before, self.after), self.rows, self.key)


def sentence(
    action: str, segment: str, since: float, means: tuple[float, float], rows: Sequence[int], key: str = ""
) -> str:
    """What changed, where and since when, for people."""
    what = f"{action!r}" if action else "What is served"
    where = f" for the role {segment!r}" if segment else ""
    before, after = means
    only = f" Only outcomes of the key {key!r} show it, so nothing was changed: inspect them." if key else ""
    return (
        f"{what}{where} earns {after:.2f} instead of {before:.2f} since {_second(since)} UTC "
        f"({plural(rows[1], 'outcome')}, {rows[0]:,} before).{only}"
    )


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
        verb = "is" if self.until is None else "was"
        went = f"{plural(self.failures, 'call')} failed, {plural(self.elsewhere, 'request')} went elsewhere"
        return f"{self.upstream!r} {verb} down {when} ({self.code}): {went}."


def _second(moment: float) -> str:
    return rfc3339(moment)[:19].replace("T", " ")
