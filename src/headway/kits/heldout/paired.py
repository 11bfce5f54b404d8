"""Evidence from pairs of scores: fresh episodes of a world, held-out rows.

Scores with known limits are tested by betting, which is exact for any bounded scores and for any number of looks. Where
nobody knows the limits, an asymptotic confidence sequence decides, and the evidence says that it could not be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.kits.heldout.intervals import bootstrap
from headway.nouns import Diagnostic, Estimate, Evidence, Floats, Plan, errors
from headway.prove import About, Bets, ColumnMean, Floors, GuardRule, Planned, judge_pairs

LEAST_EPISODES = 50
UNBOUNDED = "Nothing says how large a difference can be, so the test holds for many {unit} only (asymptotically)."
_STEP = 10  # pairs that are bet on with the same stakes
_POINTS = 60  # of the curve
Limits = tuple[float, float]


def from_world(
    candidate: Sequence[float] | Floats,
    current: Sequence[float] | Floats,
    about: About,
    *,
    limits: Limits | None = None,
    horizon: int | None = None,
    display: bool = True,
    guards: Sequence[GuardRule] = (),
    metrics: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    segments: Mapping[str, Sequence[str]] | None = None,
    least: int = LEAST_EPISODES,
) -> Evidence:
    """Evidence from fresh episodes: returns of both policies on the same seeds, in the order they were run.

    `limits`: between which every return lies. `horizon`: the number of episodes that was fixed beforehand, if no plan
    is registered. `metrics` gives a guard's value per episode for (candidate, current). Without `display` there are no
    bounds, no curve and no bootstrap interval: for a look that only asks whether to go on.
    """
    scores = _Scores(candidate, current, limits, None, horizon, display)
    return _paired("world", scores, about, guards, metrics or {}, segments or {}, least)


def from_heldout(
    candidate: Sequence[float] | Floats,
    current: Sequence[float] | Floats,
    about: About,
    *,
    limits: Limits | None = None,
    groups: Sequence[str] | None = None,
    guards: Sequence[GuardRule] = (),
    metrics: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    segments: Mapping[str, Sequence[str]] | None = None,
    least: int = Floors().rows,
    tuned_at: int | None = None,
) -> Evidence:
    """Evidence from later rows that were not used for training: one score per row and policy, higher is better.

    `limits`: between which every score lies. `groups` (episode, branch, prompt cluster): rows of one group are averaged
    first, because they are not independent. `tuned_at`: the number of groups at which the bets are strongest, fixed
    before any row is seen; the test is valid at every number.
    """
    scores = _Scores(candidate, current, limits, groups, None, tuned_at=tuned_at)
    return _paired("heldout", scores, about, guards, metrics or {}, segments or {}, least)


class _Scores(NamedTuple):
    """One score per row and policy, and what is known about them."""

    candidate: Sequence[float] | Floats
    current: Sequence[float] | Floats
    limits: Limits | None
    groups: Sequence[str] | None
    horizon: int | None
    display: bool = True
    tuned_at: int | None = None


class _Tested(NamedTuple):
    """What a rule says about paired differences, for both sides."""

    rule: str
    statistic: float
    statistic_worse: float
    threshold: float
    threshold_worse: float
    bounds: tuple[float, float] | None
    curve: tuple[tuple[int, float, float, float], ...]
    unchecked: tuple[str, ...] = ()


def _paired(
    kind: str,
    scores: _Scores,
    about: About,
    guards: Sequence[GuardRule],
    metrics: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    segments: Mapping[str, Sequence[str]],
    least: int,
) -> Evidence:
    ours, theirs = _pair("returns" if kind == "world" else "scores", scores.candidate, scores.current)
    labels, each = _labels(ours - theirs, segments), ours - theirs
    measured = {rule.name: _pair(rule.name, *metrics[rule.name]) for rule in guards if rule.name in metrics}
    data = hashlib.sha256(ours.tobytes() + theirs.tobytes())
    if scores.groups is not None:
        data.update("\0".join(scores.groups).encode())
        ours, theirs = _averaged(ours, theirs, scores.groups)
    _within(scores.limits, ours, theirs)
    horizon = scores.horizon if about.plan is None else about.plan.horizon
    differences = ours - theirs
    used = differences if horizon is None else differences[:horizon]
    unit = "episodes" if kind == "world" else "held-out rows"
    if scores.limits is None:
        tested = _by_sequence(used, about, unit)
    else:
        better, worse = (
            Bets(alpha, horizon or scores.tuned_at, ends=horizon is not None)
            for alpha in (about.share, about.alpha_worse)
        )
        tested = _by_bets(used, about, scores.limits, better, worse, display=scores.display)
    mean = _column(used)
    plain = mean.estimate("paired mean")
    return about.compose(
        kind=kind,
        n=mean.n,
        difference=_with_bootstrap(plain, differences, about.seed) if scores.display else plain,
        values={"candidate": _column(ours).estimate("mean"), "current": _column(theirs).estimate("mean")},
        statistic=tested.statistic,
        statistic_worse=tested.statistic_worse,
        threshold=tested.threshold,
        threshold_worse=tested.threshold_worse,
        rule=tested.rule,
        alpha=about.share,
        counts={unit: mean.n},
        data_hash=data.hexdigest(),
        needed=about.still_needed(mean.variance, mean.n, mean.mean),
        diagnostics=_diagnostics(used, least, unit),
        guards=judge_pairs(guards, measured, labels, each, unit=unit),
        curve=tested.curve,
        bounds=tested.bounds,
        ended=horizon is not None and mean.n >= horizon,
        unchecked=tested.unchecked,
    )


def _by_bets(used: Floats, about: About, limits: Limits, better: Bets, worse: Bets, *, display: bool) -> _Tested:
    """Bets on the differences, which lie within the limits' width; stakes depend on earlier pairs only."""
    width = limits[1] - limits[0]
    past = _column(np.array([-width / 2.0, width / 2.0]))  # before the first pair: the widest spread
    points = set(np.unique(np.linspace(0, used.size // _STEP, _POINTS).astype(int)).tolist())
    curve = []
    for start in range(0, used.size, _STEP):
        pairs = used[start : start + _STEP]
        better.add(pairs - about.margin, np.full(pairs.size, -width - about.margin), past.variance)
        worse.add(-pairs, np.full(pairs.size, -width), past.variance)
        past.add(pairs)
        if display and (start // _STEP in points or start + _STEP >= used.size):
            low = better.lower_bound(-width - about.margin) + about.margin
            curve.append((better.n, better.total / better.n + about.margin, low, -worse.lower_bound(-width)))
    return _Tested(
        rule=about.bet,
        statistic=better.log_wealth(),
        statistic_worse=worse.log_wealth(),
        threshold=log(1.0 / about.share),
        threshold_worse=log(1.0 / about.alpha_worse),
        bounds=(curve[-1][2], curve[-1][3]) if curve else None,
        curve=tuple(curve),
    )


def _by_sequence(used: Floats, about: About, unit: str) -> _Tested:
    mean = _column(used)
    n, limit = mean.n, about.threshold(mean.n, mean.variance) if mean.n else 0.0
    return _Tested(
        rule=about.rule,
        statistic=mean.total - about.margin * n,
        statistic_worse=-mean.total,
        threshold=limit,
        threshold_worse=limit,
        bounds=(mean.mean - limit / n, mean.mean + limit / n) if n else None,
        curve=_curve(used, about),
        unchecked=(UNBOUNDED.format(unit=unit),),
    )


def _within(limits: Limits | None, ours: Floats, theirs: Floats) -> None:
    if limits is None or not ours.size:
        return
    low, high = float(min(ours.min(), theirs.min())), float(max(ours.max(), theirs.max()))
    if low < limits[0] - 1e-9 or high > limits[1] + 1e-9:
        raise errors.InvalidInput(
            f"A score is {low if low < limits[0] else high:g}; it was declared to lie between {limits[0]:g} and "
            f"{limits[1]:g}.",
            code="bad_pairs",
            hint="Correct the declared limits (`returns` of a world), and prove again.",
        )


def plan_pairs(
    pilot: Sequence[float] | Floats,
    about: About,
    *,
    uplift: float,
    power: float,
    lowest: float,
    least: int,
    unit: str,
    step: int = 1,
) -> Planned:
    """The number of pairs for this uplift, from the spread of a pilot; a multiple of `step`, at least `least`."""
    variance = _column(np.asarray(pilot)).variance
    needed = about.planned(variance, uplift=uplift, power=power, lowest=lowest)
    horizon = max(least, -(-(needed or least) // step) * step)
    plan = Plan(horizon=horizon, uplift=uplift, power=power, alpha=about.share, margin=about.margin)
    return Planned(plan=plan, variance=variance, pilot=len(pilot), unit=unit)


def _labels(differences: Floats, segments: Mapping[str, Sequence[str]]) -> dict[str, NDArray[np.str_]]:
    """[row]; the label of each row, by segment."""
    labels = {name: np.asarray(labels, dtype=np.str_) for name, labels in segments.items()}
    for name, label in labels.items():
        if label.shape != differences.shape:
            raise errors.InvalidInput(
                f"Segment {name!r} has {label.size} labels for {differences.size} rows.",
                code="bad_pairs",
                hint="Give one label per row.",
            )
    return labels


def _with_bootstrap(estimate: Estimate, differences: Floats, seed: int) -> Estimate:
    """The estimate with the interval for display, over all rows; unchanged below two rows."""
    if estimate.n < 2:
        return estimate
    low, high = bootstrap(differences, seed=seed)
    return replace(estimate, value=float(differences.mean()), low=low, high=high)


def _curve(used: Floats, about: About) -> tuple[tuple[int, float, float, float], ...]:
    """n, mean, lower and upper bound at up to _POINTS points, for the plot."""
    n = used.size
    rows = np.unique(np.linspace(2, n, min(_POINTS, max(n - 1, 1))).astype(int)) if n >= 2 else np.zeros(0, dtype=int)
    sums, squares = np.cumsum(used), np.cumsum(used**2)
    curve = []
    for k in rows.tolist():
        total = float(sums[k - 1])
        wide = about.threshold(k, max(0.0, (float(squares[k - 1]) - total**2 / k) / (k - 1))) / k
        curve.append((k, total / k, total / k - wide, total / k + wide))
    return tuple(curve)


def _diagnostics(used: Floats, least: int, unit: str) -> tuple[Diagnostic, ...]:
    size = float(np.abs(used).sum())
    share = float(np.abs(used).max(initial=0.0)) / size if size > 0.0 else 0.0
    return (
        Diagnostic.at_least("rows", used.size, least, f"{used.size:,} {unit}", f"Run the proof with more {unit}."),
        Diagnostic.at_most(
            "row_share",
            share,
            Floors().row_share,
            f"the largest single pair makes up {share:.0%} of all differences",
            f"One pair decides the result: run more {unit}.",
        ),
    )


def _pair(name: str, first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise errors.InvalidInput(
            f"The {name} of candidate and current have the shapes {a.shape} and {b.shape}; expected two lists of the "
            "same length, of finite numbers.",
            code="bad_pairs",
            hint="Run both policies on the same seeds or rows, in the same order.",
        )
    return a, b


def _averaged(ours: Floats, theirs: Floats, groups: Sequence[str]) -> tuple[Floats, Floats]:
    """One row per group, in the order in which groups first appear."""
    if len(groups) != ours.size:
        raise errors.InvalidInput(
            f"There are {len(groups)} groups for {ours.size} rows.",
            code="bad_pairs",
            hint="Give one group per row.",
        )
    where: NDArray[np.int64] = np.zeros(ours.size, dtype=np.int64)
    known: dict[str, int] = {}
    for row, name in enumerate(groups):
        where[row] = known.setdefault(name, len(known))
    size = np.bincount(where)
    return np.bincount(where, weights=ours) / size, np.bincount(where, weights=theirs) / size


def _column(values: Floats) -> ColumnMean:
    mean = ColumnMean()
    mean.add(values)
    return mean
