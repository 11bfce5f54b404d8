"""A running or ended experiment, and what a verdict costs: for terminal, page and agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from headway.nouns.evidence import Waiting
from headway.nouns.forecast import VerdictForecast
from headway.nouns.times import rfc3339
from headway.nouns.wire import Time, document, served
from headway.nouns.words import plural

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
    uplift: float | None
    most: int  # at which "no difference" is the verdict at the latest
    ended: ExperimentEnding | Literal[""] = ""  # empty while it runs
    ended_at: Time | None = None
    forecast: VerdictForecast | None = None  # of the last verdict; before that, of the plan
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
        """The share of the decisions that a verdict takes, by the middle of the forecast."""
        if self.forecast is None or not self.forecast.soon:
            return None
        left = (self.forecast.low + (self.forecast.high or 2 * self.forecast.low)) / 2
        return self.decisions / (self.decisions + left) if self.decisions or left else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RampState:
    """A promotion that takes over the traffic in steps."""

    task: str
    policy: str
    against: str  # the policy that it replaces, which decides on the rest
    shares: tuple[float, ...]  # of all steps
    step: int  # the running one, from 1
    share: float  # that the policy has now; the last step holds some traffic back
    since: Time  # when this step began
    decisions: int  # made since
    counted: int  # of these, with their outcomes at the last look
    least: int  # with which the step ends
    held: str = ""  # why it goes on nevertheless, in words
    unit: str = "decision"  # what is counted

    @served
    def text(self) -> str:
        """One sentence."""
        now = f"{self.policy} decides on {self.share:.0%} of {self.task}, step {self.step} of {len(self.shares)}"
        seen = f"{self.counted:,} of {plural(self.least, 'outcome')}"
        why = f"the step goes on, because {self.held}" if self.held else seen
        return f"Promotion on its way: {now}, {why}. {self.against} decides on the rest."


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
    unit: str = "decision"  # what is counted
    waiting: Waiting | None = None  # decisions that are made and not counted yet
    loss: float | None = None  # reward that the experiment is expected to lose where the candidate is worse, in all

    @property
    def offer(self) -> str:
        """What a person is asked who may start an experiment: what it takes, what it may cost, until when."""
        takes = "" if self.decisions is None else f" for {self.forecast(self.decisions).text}"
        lost = "less than 0.1" if self.loss is not None and self.loss < 0.1 else f"{self.loss or 0.0:,.1f}"
        cost = "" if self.loss is None else f" Expected loss of reward if it is worse: {lost} in all."
        alone = "would never tell" if self.log_alone is None else f"takes {self.forecast(self.log_alone).text}"
        return (
            f"{self.policy} looks better than {self.against}. An experiment shows whether it is: it decides on "
            f"{self.share:.0%} of the traffic{takes}. Without one, a proof {alone}.{cost}"
        )

    @property
    def in_time(self) -> bool:
        """Whether the log alone decides in time."""
        return self.log_alone is not None and self.log_alone <= self.within

    def forecast(self, decisions: int) -> VerdictForecast:
        """So many decisions as a forecast, in the words of every other."""
        seen, unit = max(self.known, self.pilot), f"{self.unit}s"
        return VerdictForecast.of(decisions, decisions, decisions, seen=seen, unit=unit, per_day=self.per_day)

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON; times as RFC 3339."""
        return {
            **asdict(self),
            "by_share": {f"{share:g}": decisions for share, decisions in self.by_share.items()},
            "waiting": None if self.waiting is None else asdict(self.waiting) | {"until": rfc3339(self.waiting.until)},
            "in_time": self.in_time,
            "forecast": document(self.forecast(self.decisions)) if self.decisions else None,
        }
