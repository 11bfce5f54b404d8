"""Compare the raters of a task, and choose what to ask them next.

project.raters("reply")["rating"].raters["ann"].bias
project.questions("reply", count=5)             # the decisions for which one more rating helps most
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.nouns import Decision, errors
from headway.observe import signals_given
from headway.project import Project
from headway.reward import Agreed, Rewards, by_signal

_LATEST = 10_000  # decisions among which questions are chosen
_LEAST_RELEVANCE = 0.1


def raters(project: Project, task: str) -> dict[str, Agreed[int]]:
    """For each signal with several raters: their consensus and each rater's habits. Also works without `consensus`."""
    return by_signal(project.rewards(task), _given(project, task, several=True))


def _given(project: Project, task: str, *, several: bool = False) -> list[tuple[int, str, str, float]]:
    """Live signals of a task: draw, name, rater, value."""
    query = project.query
    return signals_given(project.database, query.name_id("task", task), query.frame(task).name, several=several)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A decision for which one more rating would help most."""

    decision: Decision
    signal: str
    ratings: int
    std: float  # of its quality now
    after: float  # of its quality after one more rating by a typical rater
    relevance: float  # 0.1 to 1: how undecided the policy was
    gain: float  # reduction of variance, times relevance
    whom: str  # the most informative rater; empty: any
    why: str


def questions(project: Project, task: str, *, count: int, signal: str | None = None) -> list[Question]:
    """The latest decisions to ask about, ranked by the reduction of variance by one more rating, times relevance.

    With v the variance of the item's deviation and w the precision of a typical rating, the reduction is
    v²w/(1 + vw). Relevance is the entropy of the action probabilities, relative to its maximum.
    """
    rewards = project.rewards(task)
    live = _given(project, task)
    agreements = by_signal(rewards, live)
    name = _signal(rewards, agreements, signal)
    ratings: dict[int, list[tuple[str, float]]] = {}
    for draw, signal_name, rater, value in live:
        if signal_name == name:
            ratings.setdefault(draw, []).append((rater, value))
    candidates = [
        _question(decision, name, agreements.get(name), ratings.get(decision.seq, []))
        for decision in project.query.latest(task, _LATEST)
        if not decision.draw_id and not decision.position
    ]
    candidates.sort(key=lambda question: (-question.gain, -question.decision.seq))
    return candidates[:count]


def _signal(rewards: Rewards, agreements: Mapping[str, Agreed[int]], wanted: str | None) -> str:
    known = sorted(rewards.signals | agreements.keys())
    if wanted is not None:
        if rewards.signals and wanted not in known:
            raise errors.InvalidInput(
                f"{wanted!r} does not count in this task's reward.",
                code="unknown_signal",
                hint=errors.did_you_mean(wanted, known),
            )
        return wanted
    if not known:
        raise errors.InvalidInput(
            "There is no signal to ask for.", code="unknown_signal", hint="Name it with --signal."
        )
    # the signal that people rate: most raters, then most ratings; without ratings, one with stars or thumbs
    return min(known, key=lambda name: (_people(agreements.get(name)), not rewards.rated(name), name))


def _people(agreed: Agreed[int] | None) -> tuple[int, int]:
    if agreed is None:
        return 0, 0
    return -len(agreed.raters), -len(agreed.items)


def _question(
    decision: Decision, signal: str, agreed: Agreed[int] | None, ratings: Sequence[tuple[str, float]]
) -> Question:
    if agreed is None or not agreed.compared:
        spread, precision = 1.0, 1.0
        variance = 1.0 / (1.0 + len(ratings))
    else:
        spread, precision = agreed.spread, agreed.typical
        quality = agreed.items.get(decision.seq)
        variance = spread * (1.0 if quality is None else 1.0 - quality.reliability)
    after = variance / (1.0 + variance * precision)
    relevance = _relevance(decision)
    raters = {rater for rater, _ in ratings}
    free = [] if agreed is None else [(-about.information, name) for name, about in agreed.raters.items()
                                      if name and name not in raters and about.reversed < 0.5]  # fmt: skip
    whom = min(free)[1] if free and agreed is not None and agreed.compared else ""
    return Question(
        decision=decision,
        signal=signal,
        ratings=len(ratings),
        std=math.sqrt(variance),
        after=math.sqrt(after),
        relevance=relevance,
        gain=(variance - after) * relevance,
        whom=whom,
        why=_why(decision, ratings, relevance),
    )


def _relevance(decision: Decision) -> float:
    entropy = -sum(p * math.log(p) for p in decision.probabilities if p > 0.0)
    most = math.log(len(decision.probabilities)) if len(decision.probabilities) > 1 else 0.0
    return max(_LEAST_RELEVANCE, entropy / most if most > 0.0 else 0.0)


def _why(decision: Decision, ratings: Sequence[tuple[str, float]], relevance: float) -> str:
    if not ratings:
        first = "not rated yet"
    elif len(ratings) == 1:
        first = f"one rating so far ({ratings[0][1]:g})"
    else:
        values = sorted(value for _, value in ratings)
        verb = "agree on" if values[0] == values[-1] else "are between"
        shown = f"{values[0]:g}" if values[0] == values[-1] else f"{values[0]:g} and {values[-1]:g}"
        first = f"{len(ratings)} ratings {verb} {shown}"
    if not decision.probabilities:
        return first
    share = max(decision.probabilities)
    if relevance > 0.9:
        return f"{first}; the policy was undecided (at most {share:.0%} on one action)"
    return f"{first}; the policy put {share:.0%} on one action"
