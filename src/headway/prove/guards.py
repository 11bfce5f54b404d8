"""Metrics that must not get worse: cost, latency, safety flags, failures, and every segment of the traffic.

A guard holds once the candidate is shown not to be worse by more than its tolerance (non-inferiority), and fails once
it is shown to be worse by more; between the two it is undecided and needs more decisions. Both are bets on the range
that the guard declares (`headway.prove.guard_bets`), valid at every look, for each guard on its own. Without a range,
or with values beyond it, nobody can tell: one call that hangs for five minutes outweighs thousands that do not.

A segment is an alarm, not a guard: it fails if the candidate is proven worse there. Segments share one error budget
(Bonferroni over those with enough rows), so that twenty segments do not raise one by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats, Guard, plural
from headway.prove.guard_bets import ALPHA, GuardRule, GuardTally
from headway.prove.power import still_needed
from headway.prove.tally import ColumnMean, Groups

SMALLEST_SEGMENT = 30
LEVEL = 0.95


def judge_guards(
    rules: Sequence[GuardRule],
    tallies: Mapping[str, GuardTally],
    segments: Mapping[str, Groups],
    *,
    unit: str = "",
) -> tuple[Guard, ...]:
    """One guard per rule and large segment. `unit`: what measures no rule that is without a tally, "held-out rows"."""
    judged = [
        _not_measured(rule, unit)
        if unit and rule.name not in tallies
        else _judge(rule, tallies.get(rule.name) or GuardTally(rule))
        for rule in rules
    ]
    return (*judged, *_judge_segments(segments))


def judge_pairs(
    rules: Sequence[GuardRule],
    metrics: Mapping[str, tuple[Floats, Floats]] = MappingProxyType({}),
    segments: Mapping[str, NDArray[np.str_]] = MappingProxyType({}),
    differences: Floats | None = None,
    *,
    unit: str,
) -> tuple[Guard, ...]:
    """The same of paired scores: a rule's values (candidate, current), and the segments of the differences."""
    tallies, groups = dict[str, GuardTally](), dict[str, Groups]()
    for rule in rules:
        if rule.name in metrics:
            tallies[rule.name] = GuardTally(rule)
            tallies[rule.name].bet_pairs(*metrics[rule.name])
    for name, labels in segments.items():
        assert differences is not None
        groups[name] = Groups()
        groups[name].add(labels, differences)
    return judge_guards(rules, tallies, groups, unit=unit)


def _not_measured(rule: GuardRule, unit: str) -> Guard:
    """A guard that fails: nothing says that the metric stays as it is."""
    none, said = ColumnMean().estimate("none"), f"{unit} do not measure {rule.name!r}"
    return Guard(name=rule.name, difference=none, tolerance=rule.tolerance, ok=False, message=said)


def _judge(rule: GuardRule, tally: GuardTally) -> Guard:
    """Within the tolerance, outside it, not decided yet, or not to be told: by bets that hold at every look."""
    unknown, cure = unknown_guard(rule, (tally.low, tally.high) if tally.scores.n > 1 else (), "decision")
    worse = rule.sign * tally.scores.mean
    ok, broken = not unknown and tally.kept(), not unknown and tally.broken()
    decided = bool(ok or broken or unknown)
    return Guard(
        name=rule.name,
        difference=tally.scores.estimate("dr", LEVEL),
        tolerance=rule.tolerance,
        ok=ok,
        message=unknown or _message(rule, tally, worse, ok=ok),
        undecided=not decided,
        needed=None
        if decided
        else still_needed(
            tally.scores.variance, tally.n, rule.tolerance - worse, ALPHA, registered=False, lowest=tally.within.lowest
        ),
        cure=cure,
    )


def unknown_guard(rule: GuardRule, values: Sequence[float], unit: str) -> tuple[str, str]:
    """Why nobody can tell from these values, and the cure; both empty if the bets decide."""
    name = rule.name
    if not values:
        return f"no {unit} has the guard metric {name!r}", f"Send {name} as a signal with every outcome."
    low, high = min(values), max(values)
    seen = f"its values so far lie between {low:g} and {high:g}"
    if rule.range is None:
        example = f"for example range = {_fitting_range(low, high)}, in guards.{name}"
        return (
            f"nothing says how large {name} can be, and {seen}",
            f"Declare the smallest and the largest {name} that are possible, {example}.",
        )
    if low < rule.range[0] or high > rule.range[1]:
        wide = _fitting_range(min(low, rule.range[0]), max(high, rule.range[1]))
        return (
            f"{name} has the range [{rule.range[0]:g}, {rule.range[1]:g}], but {seen}",
            f"Set guards.{name}.range to what is possible, for example {wide}.",
        )
    return "", ""


def _fitting_range(low: float, high: float) -> str:
    """A range to start with: rounded outward, with room for ten times the largest value."""
    bottom = 0.0 if low >= 0.0 else _outward(10.0 * low)
    return f"[{bottom:g}, {_outward(10.0 * high) if high > 0.0 else 0.0:g}]"


def _outward(value: float) -> float:
    """Rounded away from 0 to one digit."""
    unit = 10.0 ** floor(log10(abs(value)))
    return ceil(abs(value) / unit) * unit * (1.0 if value > 0.0 else -1.0)


def _message(rule: GuardRule, tally: GuardTally, worse: float, *, ok: bool) -> str:
    said = f"worse by {worse:+.3g} per decision ({rule.better} is better); the tolerance is {rule.tolerance:g}"
    if tally.missing:
        how = "are left out" if rule.at_random else "count at the worst end of its range"
        said += f"; {tally.missing:,} of {plural(tally.asked, 'value is', 'values are')} missing and {how}"
    if rule.tolerance or ok:
        return said
    return f"{said}, which asks for a proof that it gets better: set a tolerance, for example {_example(tally):.1g}"


def _example(tally: GuardTally) -> float:
    """A tolerance to start with: a twentieth of the metric's level."""
    return abs(tally.level) / 20 or 0.01


def _judge_segments(segments: Mapping[str, Groups]) -> tuple[Guard, ...]:
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
                tolerance=0.0,
                ok=estimate.high >= 0.0,
                message=f"reward {estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}] there",
            )
        )
    return tuple(judged)
