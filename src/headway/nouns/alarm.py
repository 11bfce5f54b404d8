"""An alarm: the outcomes of what is served have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.nouns.times import rfc3339
from headway.nouns.wire import Time, served


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
    when = rfc3339(since)[:19].replace("T", " ")
    before, after = means
    only = f" Only outcomes of the key {key!r} show it, so nothing was changed: inspect them." if key else ""
    return (
        f"{what}{where} earns {after:.2f} instead of {before:.2f} since {when} UTC "
        f"({rows[1]:,} outcomes, {rows[0]:,} before).{only}"
    )
