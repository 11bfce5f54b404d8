"""The kind of evidence `heldout`: who predicts later rows better, rows that neither policy was trained on.

For history without probabilities, where nothing can say what another choice would have earned. The rule is proper: a
policy cannot gain by predicting anything but what it expects.

- A policy that predicts rewards is scored by the squared error of its prediction for the logged action, as a share of
  the squared range of the reward. One that predicts none gets the mean of the rewards that were known before.
- A policy that imitates (`chances` of a policy) is scored by the logarithm of the probability that it gave the logged
  action. Others get the probabilities that they act with.

The candidate must predict better than the other policy *and* better than a constant: the mean reward, or how often
each action was chosen, over the training rows and the held-out rows before. A policy may name more rivals that it must
beat (`rivals` of a policy: simple models of the same rows). All tests must pass, so the error is that of one. Where a
rival predicts the rows as well, that blocks.

A row that is a near-copy of one that either policy has read (`observe.Kin`: a number is different, or an id) counts for
neither: who learned rows by heart would predict it. Near-copies of one another count once.

A policy that was trained on rows up to a time (`until` of a policy) is judged by rows after that time.

Not covered: whether it earns more. The evidence says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import log
from typing import TYPE_CHECKING, Any

from headway.nouns import Candidate, Diagnostic, Evidence, Floats, Settled, Situation, errors
from headway.observe import Kin, dumps
from headway.project import ProofQuestion, Unread

if TYPE_CHECKING:
    from headway.prove import About, GuardRule, Planned

NEAR_COPIES = "near-copies of training rows"
_CHUNK = 2000
_FEW_GROUPS, _TUNED_AT = 50, 100  # groups of rows that a candidate with rivals needs, and that its bets suit best
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

    def missing(self, question: ProofQuestion) -> errors.HeadwayError | None:
        if _rule(question) is not None:
            return None
        return errors.InvalidInput(
            f"{question.candidate[0]} predicts neither rewards nor actions of single rows.",
            code="no_prediction",
            hint="Learn one of a family that does (bandit, outcome, clone), or import probabilities "
            "(--map propensity=COLUMN).",
        )

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.kits.heldout.paired import from_heldout
        from headway.prove import Floors

        scored = _scored(question, after=(about.plan.from_decision or 0) if about.plan else 0)
        limits, groups = scored.rule.limits(scored.most), scored.groups
        # The bets are exact for any number of groups. Against rivals, rows count, and groups make them independent.
        rivals = len(scored.rivals) > 1
        least = _FEW_GROUPS if rivals and len(groups) >= Floors().rows else Floors().rows
        compare = partial(
            from_heldout, about=about, limits=limits, groups=groups, tuned_at=_TUNED_AT if rivals else None
        )
        evidence = compare(scored.candidate, scored.other, guards=guards, least=least)
        for name, scores in scored.rivals.items():
            rival = compare(scored.candidate, scores)
            if rival.statistic < evidence.statistic:
                evidence = replace(evidence, statistic=rival.statistic)
            evidence = _as_wide(evidence, rival)
            evidence = replace(evidence, values={**evidence.values, name: rival.values["current"]})
            if name != scored.rule.constant:
                evidence = replace(evidence, diagnostics=(*evidence.diagnostics, _beaten(name, rival)))
        return replace(
            evidence,
            counts={**evidence.counts, **question.left},
            notes=(*evidence.notes, f"Score: {scored.rule.words}.", *scored.notes, _SHOWS),
        )

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        from headway.kits.heldout.paired import plan_pairs
        from headway.prove import Floors

        scored = _scored(question, after=0)
        low, high = scored.rule.limits(scored.most)
        return plan_pairs(
            [mine - theirs for mine, theirs in zip(scored.candidate, scored.other, strict=True)],
            about,
            uplift=uplift,
            power=power,
            lowest=low - high,
            least=Floors().rows,
            unit="held-out rows",
        )


def _as_wide(evidence: Evidence, rival: Evidence) -> Evidence:
    """The evidence with lower bounds that hold against the rival too."""
    if evidence.bounds is None or rival.bounds is None:
        return replace(evidence, bounds=None, curve=())
    lows = {point[0]: point[2] for point in rival.curve}
    return replace(
        evidence,
        bounds=(min(evidence.bounds[0], rival.bounds[0]), evidence.bounds[1]),
        curve=tuple((n, mean, min(low, lows.get(n, low)), high) for n, mean, low, high in evidence.curve),
    )


HELDOUT = HeldoutKind()


def _beaten(name: str, rival: Evidence) -> Diagnostic:
    """Blocks where a simple model predicts the rows as well as the candidate."""
    lead = rival.difference.value
    ok = lead > 0.0
    return Diagnostic(
        name=f"beats_{name.replace(' ', '_')}",
        value=lead,
        limit=0.0,
        ok=ok,
        blocks=True,
        message=f"it predicts these rows {'better' if ok else 'no better'} than {name} (by {lead:+.2g} in score)",
        cure="" if ok else "Collect more rows, or learn the simpler model.",
    )


# -- rules


class _Rewards:
    """The squared error of a predicted reward, as a share of the squared `unit`, at most 1."""

    constant = "the mean reward"

    def __init__(self, low: float, high: float, unit: float | None) -> None:
        self._low, self._high, self._unit = low, high, unit or high - low
        share = "(1.5 deviations of the training rewards)², at most 1" if unit else "the squared range"
        self.words = f"squared error of the predicted reward, as a share of {share}"
        self._total, self._count = (low + high) / 2.0, 1

    def limits(self, most: int) -> tuple[float, float]:
        del most
        return (-1.0, 0.0)

    def usable(self, row: Settled) -> bool:
        return row.reward is not None

    def scores(self, rows: Sequence[Settled], mine: _Forecast, theirs: _Forecast) -> Iterator[tuple[float, ...]]:
        """By row: of the candidate, the other policy, the constant, and the candidate's rivals."""
        ours = mine.rewards(rows)
        others = theirs.rewards(rows)
        rivals = [_predicted(rival, rows) for rival in mine.rivals.values()]
        for place, row in enumerate(rows):
            assert row.reward is not None
            usual = self._total / self._count
            guesses = (ours[place], others[place], None, *(guess[place] for guess in rivals))
            yield tuple(self._score(usual if guess is None else guess, row.reward) for guess in guesses)
            self.see(row)

    def see(self, row: Settled) -> None:
        """Count a row for the constant."""
        if row.reward is not None:
            self._total, self._count = self._total + row.reward, self._count + 1

    def _score(self, guess: float, reward: float) -> float:
        within = min(max(guess, self._low), self._high)
        return -min(((reward - within) / self._unit) ** 2, 1.0)


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
            counts = [self._chosen[name] + 1.0 for name in names]
            usual = counts[row.decision.index] / sum(counts)
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
    return _Rewards(*question.settings.range, forecast.unit) if forecast.predicts else None


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
        self.rivals: dict[str, Any] = {} if self.imitates else getattr(self._policy, "rivals", dict)()
        self.until = float(getattr(self._policy, "until", 0.0))  # the last time that it was trained on
        # Rewards that fill a small part of their range are scored by their own deviation.
        self.unit = 1.5 * float(getattr(self._policy, "scale", 1.0)) if self.rivals else None

    def rewards(self, rows: Sequence[Settled]) -> list[float | None]:
        """[row]: the predicted reward of the logged action."""
        return list(_predicted(self._policy, rows)) if self.predicts else [None] * len(rows)

    def report(self, rows: Sequence[Settled]) -> tuple[str, ...]:
        """What the policy says about its predictions of these rows, in words."""
        report = getattr(self._policy, "report", None)
        return () if report is None else tuple(report(rows))

    def chances(self, rows: Sequence[Settled]) -> list[float]:
        """[row]: the probability of the logged action."""

        def shares(few: Sequence[Settled], candidates: Sequence[Candidate]) -> Floats:
            situations = [row.decision.situation for row in few]
            if self.imitates:
                imitated: Floats = self._policy.chances(situations, candidates)
                return imitated
            return self._pipeline.distributions(situations, candidates, [row.decision.seed for row in few])

        return _of_logged(rows, shares)


def _predicted(policy: Any, rows: Sequence[Settled]) -> list[float]:
    """[row]: a policy's predicted reward of the logged action."""

    def means(few: Sequence[Settled], candidates: Sequence[Candidate]) -> Floats:
        situations, seeds = [row.decision.situation for row in few], [row.decision.seed for row in few]
        mean: Floats = policy.opinions(situations, candidates, seeds, confidence=False).mean
        return mean

    return _of_logged(rows, means)


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
    """Scores of both policies, and of a constant and other rivals by name, in the order of the rows."""

    rule: _Rewards | _Actions
    candidate: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    rivals: dict[str, list[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    groups: list[str] = field(default_factory=list)
    most: int = 1  # candidates of a row


def _scored(question: ProofQuestion, *, after: int) -> _Scored:
    rule = _rule(question)
    assert rule is not None, "`missing` was asked before"
    question.left.clear()
    scored, mine, theirs = _Scored(rule), _Forecast(question, question.candidate), _Forecast(question, question.other)
    scored.rivals = {name: [] for name in (rule.constant, *mine.rivals)}
    kin = Kin(question.project.query, question.settings.name)
    rows = _rows(question, rule, after, mine.until, kin)
    while batch := list(islice(rows, _CHUNK)):
        scored.notes = scored.notes or mine.report(batch)
        for row, (ours, other, *others) in zip(batch, rule.scores(batch, mine, theirs), strict=True):
            scored.candidate.append(ours)
            scored.other.append(other)
            for scores, score in zip(scored.rivals.values(), others, strict=True):
                scores.append(score)
            scored.groups.append(row.decision.situation.episode or kin.name(row.decision.situation))
            scored.most = max(scored.most, len(row.decision.candidates))
        if question.progress is not None:
            question.progress("prove", len(scored.groups), None)
    if not scored.groups:
        listed = ", ".join(f"{count:,} {name}" for name, count in question.left.items())
        raise errors.InvalidInput(
            f"No settled decision of {question.settings.name!r} can be evidence{f': {listed}' if listed else ''}.",
            code="no_evidence",
            hint="Import rows about other situations: a text of which only a number is new is no evidence."
            if question.left[NEAR_COPIES]
            else "Import later rows, or send outcomes with `headway signal`, then prove again.",
        )
    return scored


def _rows(question: ProofQuestion, rule: _Rewards | _Actions, after: int, until: float, kin: Kin) -> Iterator[Settled]:
    """Rows after a time that neither policy was trained on, with what the rule needs; `left` counts the others."""
    unread = Unread(question.project, question.settings, question.candidate, question.other)
    read: set[str] = set()
    for row in question.project.query.settled(question.settings.name):
        spoken = unread.speaks(row.decision, row.first or None)
        if not spoken and row.decision.situation.episode is None:
            read.add(kin.name(row.decision.situation))
        if row.decision.source != "mined" and (row.decision.at <= until or not spoken):
            rule.see(row)
    for row in question.project.query.settled(question.settings.name):
        if row.decision.seq <= after or not unread.speaks(row.decision, row.first or None):
            continue
        why = _why_not(row, rule, until)
        if not why and row.decision.situation.episode is None and kin.name(row.decision.situation) in read:
            why = NEAR_COPIES
        if why:
            question.left[why] += 1
        else:
            yield row


def _why_not(row: Settled, rule: _Rewards | _Actions, until: float) -> str:
    """Why a row can be no evidence by itself; empty if it can."""
    if row.decision.at <= until:
        return "not later than the training rows"
    if row.decision.source == "mined":
        return "with a mined label"
    return "" if rule.usable(row) else "without a reward"
