"""Metrics that must not get worse: cost, latency, safety flags, failures, and every segment of the traffic.

A guard holds once the candidate is shown not to be worse by more than its tolerance (non-inferiority): the upper end of
"worse by" is below the tolerance. It fails once the lower end is above. Between the two it is undecided and needs more
decisions. The bounds are one-sided confidence sequences, valid at every look, for each guard on its own.

A segment is an alarm, not a guard: it fails if the candidate is proven worse there. Segments share one error budget
(Bonferroni over those with enough rows), so that twenty segments do not raise one by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.nouns.evidence import Guard
from headway.prove.sequential import sequence_threshold
from headway.prove.tally import Groups, MetricTally

__all__ = ["SMALLEST_SEGMENT", "GuardRule", "judge_metrics", "judge_segments"]

SMALLEST_SEGMENT = 30
LEVEL = 0.95
ALPHA = 0.05  # that a guard outside its tolerance is ever shown to be within
MOST_ROWS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRule:
    """`GuardRule(name="cost_usd", tolerance=0.001)`: the candidate may cost at most that much more per decision."""

    name: str
    tolerance: float = 0.0
    better: Literal["lower", "higher"] = "lower"


def judge_metrics(rules: Sequence[GuardRule], tallies: Mapping[str, MetricTally]) -> tuple[Guard, ...]:
    """One guard per rule; a metric that no row has fails, because it cannot be checked."""
    judged = []
    for rule in rules:
        tally = tallies.get(rule.name)
        if tally is None or tally.scores.n < 2:
            judged.append(_unmeasured(rule))
        else:
            judged.append(_judge(rule, tally))
    return tuple(judged)


def _judge(rule: GuardRule, tally: MetricTally) -> Guard:
    """Within the tolerance, outside it, or not decided yet: by bounds that hold at every look."""
    n, sign = tally.scores.n, 1.0 if rule.better == "lower" else -1.0
    worse, variance = sign * tally.scores.mean, tally.variance_with(rule.tolerance)
    wide = _half_width(variance, n)
    ok, proven = worse + wide < rule.tolerance, worse - wide > rule.tolerance
    return Guard(
        name=rule.name,
        difference=tally.scores.estimate("dr", LEVEL),
        tolerance=rule.tolerance,
        ok=ok,
        message=_message(rule, tally, worse, wide),
        undecided=not ok and not proven,
        needed=None if ok or proven else _needed(rule.tolerance - worse, variance, n),
    )


def _message(rule: GuardRule, tally: MetricTally, worse: float, wide: float) -> str:
    said = (
        f"worse by {worse:+.3g}, at most {worse + wide:+.3g} per decision ({rule.better} is better); "
        f"the tolerance is {rule.tolerance:g}"
    )
    if rule.tolerance or worse + wide < 0.0:
        return said
    return f"{said}, which asks for a proof that it gets better: set a tolerance, for example {_example(tally):.1g}"


def _example(tally: MetricTally) -> float:
    """A tolerance to start with: a twentieth of the metric's level."""
    return abs(tally.level) / 20 or 0.01


def _half_width(variance: float, n: int) -> float:
    """Of the one-sided bound on a mean, valid at every look."""
    return sequence_threshold(variance, n, ALPHA) / n


def _needed(room: float, variance: float, n: int) -> int | None:
    """Further rows until the bound is narrower than `room`; None if there is no room."""
    if room <= 0.0:
        return None
    enough = n
    while _half_width(variance, enough) >= room:
        if enough > MOST_ROWS:
            return None
        enough = enough + enough // 10 + 1
    return enough - n


def _unmeasured(rule: GuardRule) -> Guard:
    return Guard(
        name=rule.name,
        difference=MetricTally(1).scores.estimate("dr", LEVEL),
        tolerance=rule.tolerance,
        ok=False,
        message=f"no decision has the guard metric {rule.name!r}: send it as a signal",
    )


def judge_segments(segments: Mapping[str, Groups], tolerance: float = 0.0) -> tuple[Guard, ...]:
    """The reward difference in each segment, at a confidence level corrected for their number."""
    large = [
        (f"{name}={label}", mean)
        for name, groups in sorted(segments.items())
        for label, mean in sorted(groups.means.items())
        if mean.n >= SMALLEST_SEGMENT
    ]
    level = 1.0 - (1.0 - LEVEL) / max(1, len(large))
    judged = []
    for name, mean in large:
        estimate = mean.estimate("dr", level)
        judged.append(
            Guard(
                name=name,
                difference=estimate,
                tolerance=tolerance,
                ok=not (estimate.high < 0.0 and -estimate.value > tolerance),
                message=f"reward {estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}] there",
            )
        )
    return tuple(judged)
