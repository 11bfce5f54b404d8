"""Metrics that must not get worse: cost, latency, safety flags, failures, and every segment of the traffic.

A guard fails if the candidate is proven worse on it (the interval excludes 0 on the bad side) by more than its
tolerance. Segments share one error budget (Bonferroni over those with enough rows), so that twenty segments do not
produce a failure by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.nouns.evidence import Guard
from headway.prove.tally import Groups, MetricTally

__all__ = ["SMALLEST_SEGMENT", "GuardRule", "judge_metrics", "judge_segments"]

SMALLEST_SEGMENT = 30
LEVEL = 0.95


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
        estimate = (tally or MetricTally(1)).scores.estimate("dr", LEVEL)
        if tally is None or tally.scores.n < 2:
            judged.append(
                Guard(
                    name=rule.name,
                    difference=estimate,
                    tolerance=rule.tolerance,
                    ok=False,
                    message=f"no decision has the guard metric {rule.name!r}: send it as a signal",
                )
            )
            continue
        worse = estimate.value if rule.better == "lower" else -estimate.value
        proven = estimate.low > 0.0 if rule.better == "lower" else estimate.high < 0.0
        ok = not (proven and worse > rule.tolerance)
        judged.append(
            Guard(
                name=rule.name,
                difference=estimate,
                tolerance=rule.tolerance,
                ok=ok,
                message=f"{estimate.value:+.4g} [{estimate.low:+.4g}, {estimate.high:+.4g}] each; "
                f"{rule.better} is better, tolerance {rule.tolerance:g}",
            )
        )
    return tuple(judged)


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
