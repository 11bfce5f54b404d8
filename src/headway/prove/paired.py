"""Evidence without propensities: preferences, fresh episodes of a world, held-out rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Diagnostic, Estimate, Evidence, EvidenceKind
from headway.prove import intervals, sequential
from headway.prove.about import About, compose
from headway.prove.diagnostics import Floors
from headway.prove.guards import GuardRule, judge_metrics, judge_segments
from headway.prove.limits import at_least, at_most
from headway.prove.log import Floats
from headway.prove.tally import ColumnMean, Groups, MetricTally

__all__ = ["LEAST_EPISODES", "from_heldout", "from_preferences", "from_world"]

LEAST_EPISODES = 50


def from_preferences(wins: int, losses: int, about: About, *, ties: int = 0) -> Evidence:
    """Evidence from a blind comparison: how often the candidate's reply was preferred. Ties are dropped.

    The e-process may be read after every vote; `about.alpha` is replaced by the one for preferences, under which the
    first challenger passes at E ≥ 20. The Wilson interval is for display only.
    """
    if min(wins, losses, ties) < 0:
        raise InvalidInput(
            f"{wins!r} wins, {losses!r} losses and {ties!r} ties: counts cannot be negative.",
            code="bad_preferences",
            hint="Count votes for the candidate, for the current policy, and undecided ones.",
        )
    alpha = sequential.challenger_alpha(sequential.PREFERENCE_ALPHA, about.challenger)
    n = wins + losses
    low, high = intervals.wilson(wins, n)
    rate = wins / n if n else 0.5
    estimate = Estimate(value=rate - 0.5, low=low - 0.5, high=high - 0.5, n=n, ess=float(n), method="win rate − ½")
    return compose(
        about,
        kind="preference",
        n=n,
        difference=estimate,
        values={"candidate": replace(estimate, value=rate, low=low, high=high, method="win rate")},
        statistic=sequential.e_process(wins, losses),
        statistic_worse=sequential.e_process(losses, wins),
        threshold=log(1.0 / alpha),
        rule=sequential.E_PROCESS,
        alpha=alpha,
        counts={"wins": wins, "losses": losses, "ties": ties},
        data_hash=hashlib.sha256(f"{wins} {losses} {ties}".encode()).hexdigest(),
        needed=_votes_needed(wins, losses, log(1.0 / alpha)),
    )


def from_world(
    candidate: Sequence[float] | Floats,
    current: Sequence[float] | Floats,
    about: About,
    *,
    guards: Sequence[GuardRule] = (),
    metrics: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    segments: Mapping[str, Sequence[str]] | None = None,
    least: int = LEAST_EPISODES,
) -> Evidence:
    """Evidence from fresh episodes: returns of both policies on the same seeds, in the order they were run.

    `metrics` gives a guard's value per episode for (candidate, current). Register the number of episodes as
    `about.plan` beforehand for the tighter rule.
    """
    return _paired("world", candidate, current, about, None, guards, metrics or {}, segments or {}, least)


def from_heldout(
    candidate: Sequence[float] | Floats,
    current: Sequence[float] | Floats,
    about: About,
    *,
    groups: Sequence[str] | None = None,
    guards: Sequence[GuardRule] = (),
    metrics: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    segments: Mapping[str, Sequence[str]] | None = None,
    least: int = Floors().rows,
) -> Evidence:
    """Evidence from later rows that were not used for training: one score per row and policy, higher is better.

    `groups` (episode, branch, prompt cluster): rows of one group are averaged first, because they are not independent.
    """
    return _paired("heldout", candidate, current, about, groups, guards, metrics or {}, segments or {}, least)


def _paired(
    kind: EvidenceKind,
    candidate: Sequence[float] | Floats,
    current: Sequence[float] | Floats,
    about: About,
    groups: Sequence[str] | None,
    guards: Sequence[GuardRule],
    metrics: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    segments: Mapping[str, Sequence[str]],
    least: int,
) -> Evidence:
    ours, theirs = _pair("returns" if kind == "world" else "scores", candidate, current)
    by_segment = _by_segment(ours - theirs, segments)
    tallies = {name: _metric_tally(name, *values) for name, values in metrics.items()}
    data = hashlib.sha256(ours.tobytes() + theirs.tobytes())
    if groups is not None:
        data.update("\0".join(groups).encode())
        ours, theirs = _averaged(ours, theirs, groups)
    differences = ours - theirs
    used = differences if about.plan is None else differences[: about.plan.horizon]
    mean = _column(used)
    n = mean.n
    limit = about.threshold(n, mean.variance) if n else 0.0
    unit = "episodes" if kind == "world" else "held-out rows"
    return compose(
        about,
        kind=kind,
        n=n,
        difference=_with_bootstrap(mean.estimate("paired mean"), differences, about.seed),
        values={"candidate": _column(ours).estimate("mean"), "current": _column(theirs).estimate("mean")},
        statistic=mean.total - about.margin * n,
        statistic_worse=-mean.total,
        threshold=limit,
        rule=about.rule,
        alpha=about.share,
        counts={unit: n},
        data_hash=data.hexdigest(),
        needed=about.still_needed(mean.variance, n, mean.mean),
        diagnostics=_diagnostics(used, least, unit),
        guards=(*judge_metrics(guards, tallies), *judge_segments(by_segment)),
        curve=_curve(used, about),
        bounds=(mean.mean - limit / n, mean.mean + limit / n) if n else None,
        ended=about.plan is not None and n >= about.plan.horizon,
    )


def _by_segment(differences: Floats, segments: Mapping[str, Sequence[str]]) -> dict[str, Groups]:
    labels = {name: np.asarray(labels, dtype=np.str_) for name, labels in segments.items()}
    groups: dict[str, Groups] = {}
    for name, label in labels.items():
        if label.shape != differences.shape:
            raise InvalidInput(
                f"Segment {name!r} has {label.size} labels for {differences.size} rows.",
                code="bad_pairs",
                hint="Give one label per row.",
            )
        groups[name] = Groups()
        groups[name].add(label, differences)
    return groups


def _metric_tally(name: str, candidate: Sequence[float], current: Sequence[float]) -> MetricTally:
    ours, theirs = _pair(name, candidate, current)
    tally = MetricTally(1)
    tally.scores.add(ours - theirs)
    both = np.concatenate([ours, theirs])
    tally.low, tally.high, tally.weights = float(both.min()), float(both.max()), float(ours.size)
    return tally


def _with_bootstrap(estimate: Estimate, differences: Floats, seed: int) -> Estimate:
    """The estimate with the interval for display, over all rows; unchanged below two rows."""
    if estimate.n < 2:
        return estimate
    low, high = intervals.bootstrap(differences, seed=seed)
    return replace(estimate, value=float(differences.mean()), low=low, high=high)


def _curve(used: Floats, about: About) -> tuple[tuple[int, float, float, float], ...]:
    """n, mean, lower and upper bound at up to 60 points, for the plot."""
    n = used.size
    rows = np.unique(np.linspace(2, n, min(60, max(n - 1, 1))).astype(int)) if n >= 2 else np.zeros(0, dtype=int)
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
        at_least("rows", used.size, least, f"{used.size:,} {unit}", f"Run the proof with more {unit}."),
        at_most(
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
        raise InvalidInput(
            f"The {name} of candidate and current have the shapes {a.shape} and {b.shape}; expected two lists of the "
            "same length, of finite numbers.",
            code="bad_pairs",
            hint="Run both policies on the same seeds or rows, in the same order.",
        )
    return a, b


def _averaged(ours: Floats, theirs: Floats, groups: Sequence[str]) -> tuple[Floats, Floats]:
    """One row per group, in the order in which groups first appear."""
    if len(groups) != ours.size:
        raise InvalidInput(
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


def _votes_needed(wins: int, losses: int, threshold: float) -> int | None:
    """Votes still needed at the present win rate; None if it is not above one half."""
    if wins <= losses:
        return None
    n = wins + losses
    rate = wins / n
    low, high = n, n
    while sequential.e_process(round(high * rate), high - round(high * rate)) < threshold:
        low, high = high, high * 2
        if high > 10_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        won = round(middle * rate)
        if sequential.e_process(won, middle - won) < threshold:
            low = middle
        else:
            high = middle
    return max(0, high - n)
