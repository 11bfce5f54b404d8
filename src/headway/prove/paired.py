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
from headway.prove.log import Floats
from headway.prove.power import still_needed
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
    labels = {name: np.asarray(labels, dtype=np.str_) for name, labels in segments.items()}
    for name, label in labels.items():
        if label.shape != ours.shape:
            raise InvalidInput(
                f"Segment {name!r} has {label.size} labels for {ours.size} rows.",
                code="bad_pairs",
                hint="Give one label per row.",
            )
    raw = ours - theirs
    by_segment: dict[str, Groups] = {}
    for name, label in labels.items():
        by_segment.setdefault(name, Groups()).add(label, raw)
    tallies: dict[str, MetricTally] = {}
    for name, (mine, other) in metrics.items():
        a, b = _pair(name, mine, other)
        tally = tallies.setdefault(name, MetricTally(1))
        tally.scores.add(a - b)
    data = hashlib.sha256(ours.tobytes() + theirs.tobytes())
    if groups is not None:
        data.update("\0".join(groups).encode())
        ours, theirs = _averaged(ours, theirs, groups)
    differences = ours - theirs
    alpha, plan = about.share, about.plan
    used = differences if plan is None else differences[: plan.horizon]
    mean = ColumnMean()
    mean.add(used)
    n = mean.n

    def threshold(rows: int, variance: float) -> float:
        if plan is not None:
            return sequential.horizon_threshold(variance, plan.horizon, alpha)
        return sequential.sequence_threshold(variance, rows, alpha)

    limit = threshold(n, mean.variance) if n else 0.0
    rows = np.unique(np.linspace(2, n, min(60, max(n - 1, 1))).astype(int)) if n >= 2 else np.zeros(0, dtype=int)
    sums, squares = np.cumsum(used), np.cumsum(used**2)
    curve = []
    for k in rows.tolist():
        total = float(sums[k - 1])
        wide = threshold(k, max(0.0, (float(squares[k - 1]) - total**2 / k) / (k - 1))) / k
        curve.append((k, total / k, total / k - wide, total / k + wide))
    unit = "episodes" if kind == "world" else "held-out rows"
    enough = n >= least
    size = float(np.abs(used).sum())
    share = float(np.abs(used).max(initial=0.0)) / size if size > 0.0 else 0.0
    diagnostics = (
        Diagnostic(
            name="rows",
            value=float(n),
            limit=float(least),
            ok=enough,
            blocks=True,
            message=f"{n:,} {unit}" + ("" if enough else f" (at least {least:,} needed)"),
            cure="" if enough else f"Run the proof with more {unit}.",
        ),
        Diagnostic(
            name="row_share",
            value=share,
            limit=Floors().row_share,
            ok=share <= Floors().row_share,
            blocks=True,
            message=f"the largest single pair makes up {share:.0%} of all differences",
            cure="" if share <= Floors().row_share else f"One pair decides the result: run more {unit}.",
        ),
    )
    method = "paired mean"
    display = intervals.bootstrap(differences, seed=about.seed) if n >= 2 else None
    difference = mean.estimate(method)
    if display is not None:
        difference = replace(difference, value=float(differences.mean()), low=display[0], high=display[1])
    return compose(
        about,
        kind=kind,
        n=n,
        difference=difference,
        values={"candidate": _mean_of(ours), "current": _mean_of(theirs)},
        statistic=mean.total - about.margin * n,
        statistic_worse=-mean.total,
        threshold=limit,
        rule=sequential.CONFIDENCE_SEQUENCE if plan is None else sequential.horizon_rule(plan.horizon),
        alpha=alpha,
        counts={unit: n},
        data_hash=data.hexdigest(),
        needed=_still(mean, about, alpha),
        diagnostics=diagnostics,
        guards=(*judge_metrics(guards, tallies), *judge_segments(by_segment)),
        curve=tuple(curve),
        bounds=(mean.mean - limit / n, mean.mean + limit / n) if n else None,
        ended=plan is not None and n >= plan.horizon,
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


def _mean_of(values: Floats) -> Estimate:
    mean = ColumnMean()
    mean.add(values)
    return mean.estimate("mean")


def _still(mean: ColumnMean, about: About, alpha: float) -> int | None:
    uplift = (about.plan.uplift if about.plan is not None else mean.mean) - about.margin
    return still_needed(mean.variance, mean.n, uplift, alpha, registered=about.plan is not None)


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
