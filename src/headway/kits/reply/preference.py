"""The kind of evidence `preference`: blind comparisons of what two policies give, one vote each.

A comparison is a decision of the task between two policies: its candidates are their references, and its action is the
one to show first, drawn with probability ½ whoever is current. The vote is the signal `preferred`: 1 if the first was
preferred, 0 if the second was, 0.5 if neither. Whoever votes sees no names, and a habit of preferring the first one
cancels out.

    headway decide reply "…" --candidates reply@4f2a,reply@90c1        # → reply@90c1: show that one first
    headway signal dec_… preferred=1                                   # the first was better

A policy may bring checks of its own (`quality` of a policy: what was measured after its training). A candidate that
fails one is refused, whatever the votes say, and also before anybody has voted.

Votes on other pairs of policies, and comparisons whose order was not drawn evenly, are counted and left out. One that
was shown and has no vote counts at its worst (`votes.py`), but not before a later one has a vote: it is recent then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import exp, isclose
from typing import TYPE_CHECKING

from headway.kits.reply.duels import VoteTally, comparisons
from headway.kits.reply.votes import PREFERENCE_ALPHA
from headway.nouns import Diagnostic, Evidence, Guard, PolicyRef, Settled, errors, ids
from headway.observe import RaterSignals
from headway.project import Project, ProofQuestion, budget_place

if TYPE_CHECKING:
    from headway.kits.reply.votes import BlindComparison
    from headway.prove import About, GuardRule, Planned


SIGNAL = "preferred"


class PreferenceKind:
    """Votes of blind comparisons."""

    name, grows = "preference", True

    def applies(self, question: ProofQuestion) -> bool:
        del question  # a family that names this kind is judged by it
        return True

    def missing(self, question: ProofQuestion) -> errors.HeadwayError | None:
        if votes_on(question) or not _passes_its_checks(question):
            return None
        mine, other = question.candidate[0], question.other[0]
        task = question.settings.name
        hint = (
            f"Ask which one to show first (headway decide {task} --candidates {mine},{other}), show both without "
            f"their names, and send the vote: headway signal DECISION {SIGNAL}=1 (the first), 0 (the second) or 0.5."
        )
        if question.settings.kind == "reply":
            hint = f"Vote on pairs of replies: headway compare {task} --ask, or Compare blind on the page."
        return errors.InvalidInput(f"Nobody has compared {mine} with {other} yet.", code="no_evidence", hint=hint)

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.kits.reply.votes import from_votes
        from headway.prove import judge_pairs

        question.left.clear()
        evidence = from_votes(votes_on(question), about)
        diagnostics, own = _own_checks(question, preferred=evidence.statistic > evidence.threshold)
        return replace(
            evidence,
            counts={**evidence.counts, **question.left},
            diagnostics=(*evidence.diagnostics, *diagnostics),
            guards=(*judge_pairs(guards, unit="Votes"), *own),
        )

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        del about, uplift, power
        raise errors.InvalidInput(
            f"Comparisons of {question.settings.name!r} need no plan: a proof may look after every vote.",
            code="no_plan",
            hint=f"Run: headway prove {question.settings.name}",
        )


PREFERENCE = PreferenceKind()


def _own_checks(question: ProofQuestion, *, preferred: bool) -> tuple[Sequence[Diagnostic], Sequence[Guard]]:
    """The checks that the candidate brings."""
    ref, digest = question.candidate
    if PolicyRef.parse(ref).built_in:
        return (), ()
    settings, servings = question.settings, question.project.servings
    policy = servings.policy(settings.name, servings.body(settings), ref, digest)
    quality = getattr(policy, "quality", None)
    if quality is None:
        return (), ()
    checks = quality(preferred=preferred)
    return checks.diagnostics, checks.guards


def _passes_its_checks(question: ProofQuestion) -> bool:
    """Whether no check of the candidate's own fails already; its length may differ as long as votes may prefer it."""
    diagnostics, guards = _own_checks(question, preferred=True)
    return all(diagnostic.ok for diagnostic in diagnostics) and all(guard.ok for guard in guards)


def votes_on(question: ProofQuestion) -> list[BlindComparison]:
    """The comparisons of these two policies, in the order of their decisions; `left` counts what cannot be one."""
    exact = cache(lambda name: _exact(question, name))  # looking one up reads the registry
    names = {exact(question.candidate[0]): True, exact(question.other[0]): False}
    shown: list[BlindComparison] = []
    answered = 0
    for row in _comparisons(question):
        sides = [names.get(exact(candidate.name)) for candidate in row.decision.candidates]
        if sorted(sides, key=str) != [False, True]:
            question.left["of other policies"] += 1
        elif not all(isclose(share, 0.5, abs_tol=1e-9) for share in row.decision.probabilities or (0.0,)):
            question.left["in an order that was not drawn evenly"] += 1
        else:
            shown.append(_vote(row, first=bool(sides[row.decision.index])))
            answered = len(shown) if SIGNAL in row.signals else answered
    if len(shown) > answered:
        question.left["waiting for a vote"] += len(shown) - answered
    return shown[:answered]


def _comparisons(question: ProofQuestion) -> Iterator[Settled]:
    """Decisions between two with their signals so far and who voted, whatever the task's reward is about."""
    project, task = question.project, question.settings.name
    pairs = comparisons(project.database, project.query, task, since=question.since)
    rows = list(project.query.outcomes(pairs, signals=True))
    raters = RaterSignals(project.database, (SIGNAL,))
    said = raters.of([(ids.raw(row.decision.id), task, row.decision.situation.episode, "rewarded") for row in rows])
    return (replace(row, said=by) for row, by in zip(rows, said, strict=True))


def _exact(question: ProofQuestion, name: str) -> str:
    """A policy by its content hash, where it is one; a name that is no policy stays as it is."""
    if not PolicyRef.matches(name) or PolicyRef.parse(name).built_in:
        return name
    try:
        return question.project.registry.find(name)
    except errors.HeadwayError:  # it is not, or no longer, in the registry
        return name


def _vote(row: Settled, *, first: bool) -> BlindComparison:
    """The comparison from the candidate's side."""
    from headway.kits.reply.votes import BlindComparison

    def turned(value: float) -> float:
        within = min(max(value, 0.0), 1.0)
        return within if first else 1.0 - within

    together = row.signals.get(SIGNAL)  # what each said is listed only where several voted
    if together is None:
        return BlindComparison(None, {}, row.decision.key)
    by = {rater: turned(dict(said).get(SIGNAL, together)) for rater, said in row.said.items()}
    return BlindComparison(turned(together), by, row.decision.key)


_MOST = 700.0  # the exponent of the largest number


def vote_tally(project: Project, task: str, policy: str, against: str) -> VoteTally:
    """The votes of blind comparisons of two policies."""
    from headway.prove import About, e_process

    candidate = project.candidate(policy, task)
    settings = project.settings.task(candidate.task)
    project.settle(settings.name)
    mine, other = (candidate.ref, candidate.digest), project.servings.resolve(settings, against)
    question = ProofQuestion(project=project, settings=settings, candidate=mine, other=other)
    shown = votes_on(question)
    at_random = settings.missing == "at random"
    votes, e_values, wins, against_it = list[float](), list[float](), 0, 0
    for value in (comparison.value for comparison in shown):
        if value is None:
            against_it += not at_random  # as the gate counts one that was shown and not answered
            continue
        votes.append(value)
        wins, against_it = wins + (value > 0.5), against_it + (value < 0.5)
        e_values.append(exp(min(_MOST, e_process(wins, against_it))))
    place = budget_place(question, PREFERENCE.name)
    about = About(
        task=settings.name, candidate=candidate.ref, against=other[0], alpha=PREFERENCE_ALPHA, challenger=place.k,
        promotions=place.promotions,
    )  # fmt: skip
    return VoteTally(
        task=settings.name,
        candidate=candidate.ref,
        against=other[0],
        wins=sum(vote > 0.5 for vote in votes),
        losses=sum(vote < 0.5 for vote in votes),
        ties=votes.count(0.5),
        e_value=e_values[-1] if e_values else 1.0,
        passes_at=1.0 / about.share,
        votes=votes,
        e_values=e_values,
    )
