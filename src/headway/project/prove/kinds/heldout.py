"""The kind of evidence `heldout`: who predicts later rows better, rows that neither policy was trained on.

For history without probabilities, where nothing can say what another choice would have earned. The rule is proper: a
policy cannot gain by predicting anything but what it expects.

- A policy that predicts rewards is scored by the squared error of its prediction for the logged action, as a share of
  the squared range of the reward. One that predicts none gets the mean of the rewards that were known before.
- A policy that imitates (`chances` of a policy) is scored by the logarithm of the probability that it gave the logged
  action. Others get the probabilities that they act with.

The candidate must predict better than the other policy *and* better than a constant: the mean reward, or how often
each action was chosen, over the training rows and the held-out rows before. Both tests must pass, so the error is that
of one.

Not covered: whether it earns more. The evidence says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.nouns.errors import HeadwayError, InvalidInput
from headway.nouns.evidence import Evidence
from headway.nouns.protocols import Floats
from headway.nouns.records import Candidate, Settled, Situation
from headway.observe.rows import dumps
from headway.project.prove.kinds.kind import ProofQuestion
from headway.project.prove.unread import Unread

if TYPE_CHECKING:
    from headway.prove.about import About
    from headway.prove.guards import GuardRule
    from headway.prove.power import Planned

__all__ = ["HELDOUT", "HeldoutKind"]

_CHUNK = 2000
_MIXED = 0.02  # of every forecast is uniform, so that one surprise does not decide
_SHOWS = (
    "Held-out rows show who predicts better, not who earns more: nothing says what another action would have come to. "
    "Decisions that Headway makes, or imported probabilities (--map propensity=COLUMN), can show that."
)


class HeldoutKind:
    """Predictions of held-out rows."""

    name, grows = "heldout", True

    def applies(self, question: ProofQuestion) -> bool:
        """Whether there is history without probabilities, and the candidate predicts something about it."""
        known = question.project.query.count_judged(question.settings.name, known=False, most=1)
        return bool(known) and _rule(question) is not None

    def missing(self, question: ProofQuestion) -> HeadwayError | None:
        if _rule(question) is not None:
            return None
        return InvalidInput(
            f"{question.candidate[0]} predicts neither rewards nor actions of single rows.",
            code="no_prediction",
            hint="Learn one of a family that does (bandit, outcome, clone), or import probabilities "
            "(--map propensity=COLUMN).",
        )

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.prove.paired import from_heldout

        scored = _scored(question, after=(about.plan.from_decision or 0) if about.plan else 0)
        limits, groups = scored.rule.limits(scored.most), scored.groups
        evidence = from_heldout(scored.candidate, scored.other, about, limits=limits, groups=groups, guards=guards)
        constant = from_heldout(scored.candidate, scored.constant, about, limits=limits, groups=groups)
        if constant.statistic < evidence.statistic:
            evidence = replace(evidence, statistic=constant.statistic, bounds=constant.bounds, curve=constant.curve)
        return replace(
            evidence,
            values={**evidence.values, scored.rule.constant: constant.values["current"]},
            counts={**evidence.counts, **question.left},
            notes=(*evidence.notes, f"Score: {scored.rule.words}.", _SHOWS),
        )

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        from headway.prove.diagnostics import Floors
        from headway.prove.paired import plan_pairs

        scored = _scored(question, after=0)
        low, high = scored.rule.limits(scored.most)
        return plan_pairs(
            np.array(scored.candidate) - np.array(scored.other),
            about,
            uplift=uplift,
            power=power,
            lowest=low - high,
            least=Floors().rows,
            unit="held-out rows",
        )


HELDOUT = HeldoutKind()


# -- rules


class _Rewards:
    """The squared error of a predicted reward."""

    words = "squared error of the predicted reward, as a share of the squared range"
    constant = "the mean reward"

    def __init__(self, low: float, high: float) -> None:
        self._low, self._high = low, high
        self._total, self._count = (low + high) / 2.0, 1

    def limits(self, most: int) -> tuple[float, float]:
        del most
        return (-1.0, 0.0)

    def usable(self, row: Settled) -> bool:
        return row.reward is not None

    def scores(self, rows: Sequence[Settled], mine: _Forecast, theirs: _Forecast) -> Iterator[tuple[float, ...]]:
        ours = mine.rewards(rows)
        others = theirs.rewards(rows)
        for place, row in enumerate(rows):
            assert row.reward is not None
            usual = self._total / self._count
            guesses = (ours[place], others[place], None)
            yield tuple(self._score(usual if guess is None else guess, row.reward) for guess in guesses)
            self.see(row)

    def see(self, row: Settled) -> None:
        """Count a row for the constant."""
        if row.reward is not None:
            self._total, self._count = self._total + row.reward, self._count + 1

    def _score(self, guess: float, reward: float) -> float:
        within = min(max(guess, self._low), self._high)
        return -(((reward - within) / (self._high - self._low)) ** 2)


class _Actions:
    """The logarithm of the probability of the logged action."""

    words = "logarithm of the probability of the logged action"
    constant = "how often each action was chosen"

    def __init__(self) -> None:
        self._chosen: Counter[str] = Counter()

    def limits(self, most: int) -> tuple[float, float]:
        return (log(_MIXED / max(most, 1)), 0.0)

    def usable(self, row: Settled) -> bool:
        del row
        return True

    def scores(self, rows: Sequence[Settled], mine: _Forecast, theirs: _Forecast) -> Iterator[tuple[float, ...]]:
        ours, others = mine.chances(rows), theirs.chances(rows)
        for place, row in enumerate(rows):
            names = [candidate.name for candidate in row.decision.candidates]
            counts = np.array([self._chosen[name] + 1.0 for name in names])
            usual = float(counts[row.decision.index] / counts.sum())
            yield tuple(_log_share(share, len(names)) for share in (ours[place], others[place], usual))
            self.see(row)

    def see(self, row: Settled) -> None:
        """Count a row for the constant."""
        self._chosen[row.decision.action] += 1


def _log_share(share: float, count: int) -> float:
    return log((1.0 - _MIXED) * share + _MIXED / count)


def _rule(question: ProofQuestion) -> _Rewards | _Actions | None:
    """How the candidate is scored; None if it predicts nothing about single rows."""
    forecast = _Forecast(question, question.candidate)
    if forecast.imitates:
        return _Actions()
    return _Rewards(*question.settings.range) if forecast.predicts else None


# -- forecasts


class _Forecast:
    """What one policy expects of logged rows."""

    def __init__(self, question: ProofQuestion, policy: tuple[str, str]) -> None:
        settings, servings = question.settings, question.project.servings
        body = servings.body(settings)
        self._policy: Any = servings.policy(settings.name, body, *policy)
        self._pipeline = servings.pipeline(settings.name, body, *policy)
        self.imitates = hasattr(self._policy, "chances")
        self.predicts = _predicts_rewards(self._policy)

    def rewards(self, rows: Sequence[Settled]) -> list[float | None]:
        """[row]: the predicted reward of the logged action."""
        if not self.predicts:
            return [None] * len(rows)

        def means(few: Sequence[Settled], candidates: Sequence[Candidate]) -> Floats:
            situations, seeds = [row.decision.situation for row in few], [row.decision.seed for row in few]
            mean: Floats = self._policy.opinions(situations, candidates, seeds, confidence=False).mean
            return mean

        return list(_of_logged(rows, means))

    def chances(self, rows: Sequence[Settled]) -> list[float]:
        """[row]: the probability of the logged action."""

        def shares(few: Sequence[Settled], candidates: Sequence[Candidate]) -> Floats:
            situations = [row.decision.situation for row in few]
            if self.imitates:
                imitated: Floats = self._policy.chances(situations, candidates)
                return imitated
            return self._pipeline.distributions(situations, candidates, [row.decision.seed for row in few])

        return _of_logged(rows, shares)


def _predicts_rewards(policy: Any) -> bool:
    """Whether it predicts the reward of a single decision; a discounted return is not one."""
    if float(getattr(policy, "knobs", {}).get("gamma") or 0.0) > 0.0:
        return False
    asked = policy.opinions((Situation(task=""),), (Candidate("a"), Candidate("b")), (0,), confidence=False)
    return asked.mean is not None


def _of_logged(
    rows: Sequence[Settled], table: Callable[[Sequence[Settled], Sequence[Candidate]], Floats]
) -> list[float]:
    """The column of the logged action of every row; rows with the same candidates are asked about together."""
    together: dict[tuple[object, ...], list[int]] = {}
    for place, row in enumerate(rows):
        key = tuple((candidate.name, dumps(candidate.features)) for candidate in row.decision.candidates)
        together.setdefault(key, []).append(place)
    logged = [0.0] * len(rows)
    for places in together.values():
        few = [rows[place] for place in places]
        values = table(few, few[0].decision.candidates)
        for line, place in enumerate(places):
            logged[place] = float(values[line, rows[place].decision.index])
    return logged


# -- rows


@dataclass(slots=True)
class _Scored:
    """Scores of both policies and of a constant, in the order of the rows."""

    rule: _Rewards | _Actions
    candidate: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    constant: list[float] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    most: int = 1  # candidates of a row


def _scored(question: ProofQuestion, *, after: int) -> _Scored:
    rule = _rule(question)
    assert rule is not None, "`missing` was asked before"
    question.left.clear()
    scored, mine, theirs = _Scored(rule), _Forecast(question, question.candidate), _Forecast(question, question.other)
    rows = _rows(question, rule, after)
    while batch := list(islice(rows, _CHUNK)):
        for row, (ours, other, constant) in zip(batch, rule.scores(batch, mine, theirs), strict=True):
            scored.candidate.append(ours)
            scored.other.append(other)
            scored.constant.append(constant)
            situation = row.decision.situation
            scored.groups.append(situation.episode or situation.text or dumps(situation.state))
            scored.most = max(scored.most, len(row.decision.candidates))
        if question.progress is not None:
            question.progress("prove", len(scored.groups), None)
    if not scored.groups:
        listed = ", ".join(f"{count:,} {name}" for name, count in question.left.items())
        raise InvalidInput(
            f"No settled decision of {question.settings.name!r} can be evidence{f': {listed}' if listed else ''}.",
            code="no_evidence",
            hint="Import later rows, or send outcomes with `headway signal`, then prove again.",
        )
    return scored


def _rows(question: ProofQuestion, rule: _Rewards | _Actions, after: int) -> Iterator[Settled]:
    """Rows that neither policy was trained on, with what the rule needs; `left` counts the others."""
    unread = Unread(question.project, question.settings, question.candidate, question.other)
    for row in _settled(question):
        if row.decision.source != "mined" and not unread.speaks(row.decision, row.first or None):
            rule.see(row)
    for row in _settled(question):
        if row.decision.seq <= after or not unread.speaks(row.decision, row.first or None):
            continue
        if row.decision.source == "mined":
            question.left["with a mined label"] += 1
        elif not rule.usable(row):
            question.left["without a reward"] += 1
        else:
            yield row


def _settled(question: ProofQuestion) -> Iterator[Settled]:
    return question.project.query.settled(question.settings.name)
