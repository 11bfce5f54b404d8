"""Combine the signals of several raters into one value and a weight, and choose what to ask raters next.

    agreeing(rewards, given)                    # per decision: the combined values, and its weight
    questions(decisions, given, rewards)        # the decisions for which one more rating helps most

`given` holds live signals: (number of the draw, name, rater, value).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.nouns.errors import InvalidInput, did_you_mean
from headway.nouns.records import Decision
from headway.reward.compose import Rewards
from headway.reward.raters import Agreed, Rating, consensus
from headway.reward.signals import RESERVED

Given = tuple[int, str, str, float]
WEIGHTS = 64  # weights are multiples of 1/64, so that sums of weighted rows stay exact
_LEAST_RELEVANCE = 0.1


def agreeing(rewards: Rewards, given: Sequence[Given]) -> dict[int, tuple[dict[str, float], float]]:
    """Per draw: the combined values of its raters, and its weight in learning.

    Only signals with at least two raters are combined; a measured signal has one source and is used unchanged. The
    weight is the share of the rated signals' variance that the ratings explain, weighted by each signal's effect on
    the reward.
    """
    agreements: dict[int, tuple[dict[str, float], float]] = {}
    known: dict[int, tuple[float, float]] = {}
    for name, agreed in by_signal(rewards, given).items():
        if not agreed.compared:
            continue
        part = rewards.worth(name) ** 2 * agreed.spread
        step = _step(agreed.spread)
        for draw, quality in agreed.items.items():
            values, _ = agreements.setdefault(draw, ({}, 1.0))
            values[name] = round(quality.mean / step) * step
            explained, whole = known.get(draw, (0.0, 0.0))
            known[draw] = (explained + part * quality.reliability, whole + part)
    for draw, (explained, whole) in known.items():
        share = explained / whole if whole > 0.0 else 1.0
        agreements[draw] = (agreements[draw][0], max(1, round(share * WEIGHTS)) / WEIGHTS)
    return agreements


def _step(spread: float) -> float:
    """The step to which consensus values are rounded: a power of two, about a thousandth of their spread.

    One more rating slightly moves every other item of its rater. With rounding most outcomes do not change, and they
    still depend only on the live ratings.
    """
    return 2.0 ** math.floor(math.log2(math.sqrt(max(spread, 1e-300))) - 9)


def by_signal(rewards: Rewards, given: Sequence[Given]) -> dict[str, Agreed[int]]:
    """The consensus of the raters, by signal."""
    by_name: dict[str, list[Rating[int]]] = {}
    for draw, name, rater, value in given:
        if name not in RESERVED and (not rewards.signals or name in rewards.signals):
            by_name.setdefault(name, []).append(Rating(draw, rater, value))
    return {name: consensus(rows) for name, rows in sorted(by_name.items())}


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


def questions(
    decisions: Iterable[Decision], given: Sequence[Given], rewards: Rewards, *, count: int, signal: str | None = None
) -> list[Question]:
    """The decisions to ask about next, ranked by the reduction of variance by one more rating, times relevance.

    With v the variance of the item's deviation and w the precision of a typical rating, the reduction is
    v²w/(1 + vw). Relevance is the entropy of the action probabilities, relative to its maximum.
    """
    agreements = by_signal(rewards, given)
    name = _signal(rewards, agreements, signal)
    ratings: dict[int, list[tuple[str, float]]] = {}
    for draw, signal_name, rater, value in given:
        if signal_name == name:
            ratings.setdefault(draw, []).append((rater, value))
    candidates = [
        _question(decision, name, agreements.get(name), ratings.get(decision.seq, [])) for decision in decisions
    ]
    candidates.sort(key=lambda question: (-question.gain, -question.decision.seq))
    return candidates[:count]


def _signal(rewards: Rewards, agreements: Mapping[str, Agreed[int]], wanted: str | None) -> str:
    known = sorted(rewards.signals | agreements.keys())
    if wanted is not None:
        if rewards.signals and wanted not in known:
            raise InvalidInput(
                f"{wanted!r} does not count in this task's reward.",
                code="unknown_signal",
                hint=did_you_mean(wanted, known),
            )
        return wanted
    if not known:
        raise InvalidInput("There is no signal to ask for.", code="unknown_signal", hint="Name it with --signal.")
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
