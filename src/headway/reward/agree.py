"""From signals of several raters to one value each, how surely it is known, and what to ask about next.

    agreeing(rewards, given)                    # per decision: values that its raters agree on, and its weight
    questions(decisions, given, rewards)        # what a further rating would tell most about

`given` are live signals, (number of the decision that drew, name, rater, value).
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

__all__ = ["WEIGHTS", "Given", "Question", "agreeing", "by_signal", "questions"]

Given = tuple[int, str, str, float]
WEIGHTS = 64  # weights are multiples of 1/64, so that sums of weighted rows stay exact
_LEAST_RELEVANCE = 0.1


def agreeing(rewards: Rewards, given: Sequence[Given]) -> dict[int, tuple[dict[str, float], float]]:
    """Per decision that drew: the values that its raters agree on, and its weight in learning.

    Only signals that at least two raters gave are weighed; a measured one has one source and is taken as it is. The
    weight is the share of the rated signals' variance that the ratings explain, by what each signal moves the reward.
    """
    found: dict[int, tuple[dict[str, float], float]] = {}
    known: dict[int, tuple[float, float]] = {}
    for name, agreed in by_signal(rewards, given).items():
        if not agreed.compared:
            continue
        part = rewards.worth(name) ** 2 * agreed.spread
        step = _step(agreed.spread)
        for draw, quality in agreed.items.items():
            values, _ = found.setdefault(draw, ({}, 1.0))
            values[name] = round(quality.mean / step) * step
            explained, whole = known.get(draw, (0.0, 0.0))
            known[draw] = (explained + part * quality.reliability, whole + part)
    for draw, (explained, whole) in known.items():
        share = explained / whole if whole > 0.0 else 1.0
        found[draw] = (found[draw][0], max(1, round(share * WEIGHTS)) / WEIGHTS)
    return found


def _step(spread: float) -> float:
    """What consensus values are rounded to, about a thousandth of their spread: a power of two.

    One more rating moves every other item of its rater a little. Rounded, most outcomes stay as they are, and they are
    still a function of the live ratings alone.
    """
    return 2.0 ** math.floor(math.log2(math.sqrt(max(spread, 1e-300))) - 9)


def by_signal(rewards: Rewards, given: Sequence[Given]) -> dict[str, Agreed[int]]:
    """What the raters of each signal that counts agree on."""
    by_name: dict[str, list[Rating[int]]] = {}
    for draw, name, rater, value in given:
        if name not in RESERVED and (not rewards.signals or name in rewards.signals):
            by_name.setdefault(name, []).append(Rating(draw, rater, value))
    return {name: consensus(rows) for name, rows in sorted(by_name.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A decision that a further rating would tell most about."""

    decision: Decision
    signal: str
    ratings: int
    std: float  # of its quality now
    after: float  # and after one more rating by a typical rater
    relevance: float  # 0.1 to 1: how undecided the policy was
    gain: float  # variance that goes, times relevance
    whom: str  # who would tell most; empty: anybody
    why: str


def questions(
    decisions: Iterable[Decision], given: Sequence[Given], rewards: Rewards, *, count: int, signal: str | None = None
) -> list[Question]:
    """Which decisions to ask about next: by the variance that one more rating takes away, times how much hung on it.

    With v the variance of what sets the item apart and w the precision of a typical rating, one more takes away
    v²w/(1 + vw). Relevance is the entropy of the probabilities that were acted from, over its maximum.
    """
    found = by_signal(rewards, given)
    name = _signal(rewards, found, signal)
    told: dict[int, list[tuple[str, float]]] = {}
    for draw, each, rater, value in given:
        if each == name:
            told.setdefault(draw, []).append((rater, value))
    asked = [_question(each, name, found.get(name), told.get(each.seq, [])) for each in decisions]
    asked.sort(key=lambda each: (-each.gain, -each.decision.seq))
    return asked[:count]


def _signal(rewards: Rewards, found: Mapping[str, Agreed[int]], wanted: str | None) -> str:
    known = sorted(rewards.signals | found.keys())
    if wanted is not None:
        if rewards.signals and wanted not in known:
            raise InvalidInput(
                f"{wanted!r} does not count in this task's reward.",
                code="unknown_signal",
                hint=did_you_mean(wanted, known),
            )
        return wanted
    if not known:
        raise InvalidInput(
            "Nobody knows which signal to ask for.", code="unknown_signal", hint="Name it with --signal."
        )
    # the one that people rate: most raters, then most ratings; a term of stars or thumbs where nobody has rated
    return min(known, key=lambda each: (_people(found.get(each)), not rewards.rated(each), each))


def _people(agreed: Agreed[int] | None) -> tuple[int, int]:
    if agreed is None:
        return 0, 0
    return -len(agreed.raters), -len(agreed.items)


def _question(
    decision: Decision, signal: str, agreed: Agreed[int] | None, told: Sequence[tuple[str, float]]
) -> Question:
    if agreed is None or not agreed.compared:
        spread, precision = 1.0, 1.0
        variance = 1.0 / (1.0 + len(told))
    else:
        spread, precision = agreed.spread, agreed.typical
        quality = agreed.items.get(decision.seq)
        variance = spread * (1.0 if quality is None else 1.0 - quality.reliability)
    after = variance / (1.0 + variance * precision)
    relevance = _relevance(decision)
    asked = {rater for rater, _ in told}
    free = [] if agreed is None else [(-each.information, name) for name, each in agreed.raters.items()
                                      if name and name not in asked and each.reversed < 0.5]  # fmt: skip
    whom = min(free)[1] if free and agreed is not None and agreed.compared else ""
    return Question(
        decision=decision,
        signal=signal,
        ratings=len(told),
        std=math.sqrt(variance),
        after=math.sqrt(after),
        relevance=relevance,
        gain=(variance - after) * relevance,
        whom=whom,
        why=_why(decision, told, relevance),
    )


def _relevance(decision: Decision) -> float:
    entropy = -sum(p * math.log(p) for p in decision.probabilities if p > 0.0)
    most = math.log(len(decision.probabilities)) if len(decision.probabilities) > 1 else 0.0
    return max(_LEAST_RELEVANCE, entropy / most if most > 0.0 else 0.0)


def _why(decision: Decision, told: Sequence[tuple[str, float]], relevance: float) -> str:
    if not told:
        first = "nobody has rated it"
    elif len(told) == 1:
        first = f"one rating so far ({told[0][1]:g})"
    else:
        values = sorted(value for _, value in told)
        apart = "agree on" if values[0] == values[-1] else "lie between"
        shown = f"{values[0]:g}" if values[0] == values[-1] else f"{values[0]:g} and {values[-1]:g}"
        first = f"{len(told)} ratings {apart} {shown}"
    if not decision.probabilities:
        return first
    share = max(decision.probabilities)
    if relevance > 0.9:
        return f"{first}; the policy was undecided ({share:.0%} on its favourite)"
    return f"{first}; {share:.0%} was on the policy's favourite"
