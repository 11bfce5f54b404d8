"""A running or ended experiment, and what a verdict costs: for terminal, page and agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from headway.nouns.evidence import Waiting
from headway.nouns.times import rfc3339
from headway.nouns.wire import Time, served

ExperimentEnding = Literal["better", "worse", "no difference", "stopped", "replaced"]
ENDINGS: tuple[ExperimentEnding, ...] = get_args(ExperimentEnding)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentState:
    """A candidate that gets a share of the traffic until its test ends; `ended` is empty while it runs."""

    task: str
    policy: str
    policy_hash: str
    against: str  # the current policy
    share: float  # of the traffic, while it runs or ran
    since: Time
    who: str
    from_decision: int  # the last decision before it
    decisions: int  # made since
    needed: int | None  # decisions that show `uplift` with 80% power; once it runs longer, by the last verdict
    uplift: float | None
    most: int  # at which "no difference" is the verdict at the latest
    ended: ExperimentEnding | Literal[""] = ""  # empty while it runs
    ended_at: Time | None = None
    per_day: float | None = None  # the present rate of decisions
    expected_end: Time | None = None  # when `needed` is reached at that rate, or count at the latest
    waiting: int = 0  # decisions that the last verdict could not count, because their outcomes are not in
    unit: str = "decision"  # what `decisions` counts
    verdict: str | None = None  # the word of the last one
    difference: float | None = None  # only if the verdict shows an estimate
    interval: tuple[float, float] | None = None

    @served
    def running(self) -> bool:
        return not self.ended

    @served
    def progress(self) -> float | None:
        """The share of the needed decisions that have been made, at most 1."""
        return None if not self.needed else min(1.0, self.decisions / self.needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCost:
    """What a verdict on a candidate costs from now on, with 80% power."""

    task: str
    policy: str
    against: str
    uplift: float  # that the decisions show
    share: float  # that the loop would give the candidate; 0: none, the log alone decides in time
    decisions: int | None  # with that share
    experiment_share: float  # the cheapest share above 0
    log_alone: int | None  # without any; None: never
    by_share: Mapping[float, int | None]  # by share of the traffic, 0 included
    within: int  # decisions in which a verdict is wanted
    known: int  # decisions that the test has already
    pilot: int  # decisions that this is estimated from
    per_day: float | None  # the present rate of decisions
    until: float | None = None  # when `decisions` have been made at that rate
    log_until: float | None = None
    unit: str = "decision"  # what is counted
    waiting: Waiting | None = None  # decisions that are made and not counted yet

    @property
    def in_time(self) -> bool:
        """Whether the log alone decides in time."""
        return self.log_alone is not None and self.log_alone <= self.within

    def days(self, decisions: int | None) -> float | None:
        """The days that so many decisions take at the present rate."""
        return None if decisions is None or not self.per_day else decisions / self.per_day

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON; times as RFC 3339."""
        return {
            **asdict(self),
            "by_share": {f"{share:g}": decisions for share, decisions in self.by_share.items()},
            "until": None if self.until is None else rfc3339(self.until),
            "log_until": None if self.log_until is None else rfc3339(self.log_until),
            "waiting": None if self.waiting is None else asdict(self.waiting) | {"until": rfc3339(self.waiting.until)},
            "in_time": self.in_time,
        }
