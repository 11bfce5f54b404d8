"""The kind of evidence `preference`: blind comparisons of what two policies give, one vote each.

A comparison is a decision of the task between two policies: its candidates are their references, and its action is the
one to show first, drawn with probability ½ whoever is current. The vote is the signal `preferred`: 1 if the first was
preferred, 0 if the second was, 0.5 if neither. Whoever votes sees no names, and a habit of preferring the first one
cancels out.

    headway decide reply "…" --candidates reply@4f2a,reply@90c1        # → reply@90c1: show that one first
    headway signal dec_… preferred=1                                   # the first was better

A policy may bring checks of its own (`quality` of a policy: what was measured after its training). A candidate that
fails one is refused, whatever the votes say, and also before anybody has voted.

Votes on other pairs of policies, and comparisons whose order was not drawn evenly, are counted and left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isclose
from typing import TYPE_CHECKING, NamedTuple

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.nouns.evidence import Diagnostic, Evidence, Guard, RaterShare
from headway.nouns.records import Settled, is_own
from headway.project.prove.kinds.kind import ProofQuestion

if TYPE_CHECKING:
    from headway.prove.about import About
    from headway.prove.guards import GuardRule
    from headway.prove.power import Planned

__all__ = ["PREFERENCE", "SIGNAL", "PreferenceKind", "votes_on"]

SIGNAL = "preferred"


class _Vote(NamedTuple):
    """What came of one comparison: 1 for the candidate, 0 for the other policy, ½ for neither; and who voted."""

    value: float
    by: dict[str, float]  # rater → value


class PreferenceKind:
    """Votes of blind comparisons."""

    name, grows = "preference", True

    def applies(self, question: ProofQuestion) -> bool:
        del question  # a family that names this kind is judged by it
        return True

    def missing(self, question: ProofQuestion) -> HeadwayError | None:
        if next(votes_on(question), None) is not None or not _passes_its_checks(question):
            return None
        mine, other = question.candidate[0], question.other[0]
        task = question.settings.name
        hint = (
            f"Ask which one to show first (headway decide {task} --candidates {mine},{other}), show both without "
            f"their names, and send the vote: headway signal DECISION {SIGNAL}=1 (the first), 0 (the second) or 0.5."
        )
        if question.settings.kind == "reply":
            hint = f"Vote on pairs of replies: headway compare {task} --ask, or Compare blind on the page."
        return InvalidInput(f"Nobody has compared {mine} with {other} yet.", code="no_evidence", hint=hint)

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.prove.paired import guards_not_measured
        from headway.prove.votes import from_preferences

        question.left.clear()
        votes = list(votes_on(question))
        wins, losses = _counted([vote.value for vote in votes])
        evidence = from_preferences(wins, losses, about, ties=len(votes) - wins - losses)
        diagnostics, own = _own_checks(question, preferred=evidence.statistic > evidence.threshold)
        return replace(
            evidence,
            counts={**evidence.counts, **question.left},
            diagnostics=(*evidence.diagnostics, *diagnostics),
            guards=(*guards_not_measured(guards, "Votes"), *own),
            raters=_raters(votes, evidence.threshold),
        )

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        del about, uplift, power
        raise InvalidInput(
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


def votes_on(question: ProofQuestion) -> Iterator[_Vote]:
    """The votes on these two policies, in the order of their decisions; `left` counts what cannot be one."""
    names = {_exact(question, question.candidate[0]): True, _exact(question, question.other[0]): False}
    for row in _comparisons(question):
        shown = [names.get(_exact(question, candidate.name)) for candidate in row.decision.candidates]
        if sorted(shown, key=str) != [False, True]:
            question.left["of other policies"] += 1
        elif not all(isclose(share, 0.5, abs_tol=1e-9) for share in row.decision.probabilities or (0.0,)):
            question.left["in an order that was not drawn evenly"] += 1
        elif SIGNAL not in row.signals:
            question.left["without a vote"] += 1
        else:
            yield _vote(row, first=bool(shown[row.decision.index]))


def _comparisons(question: ProofQuestion) -> Iterator[Settled]:
    """Settled rows; of a reply task, whose reward is about single replies, the decisions between two policies."""
    query, task = question.project.query, question.settings.name
    if question.settings.kind != "reply":
        return query.settled(task, signals=True, raters=(SIGNAL,))
    pairs = (decision for decision in query.decisions(task) if len(decision.candidates) == 2)
    seqs = [decision.seq for decision in pairs if decision.at > question.since]
    return query.outcomes(seqs, signals=True, raters=(SIGNAL,))


def _exact(question: ProofQuestion, name: str) -> str:
    """A policy by its content hash, where it is one; a name that is no policy stays as it is."""
    if not PolicyRef.matches(name) or PolicyRef.parse(name).built_in:
        return name
    try:
        return question.project.registry.find(name)
    except HeadwayError:  # it is not, or no longer, in the registry
        return name


def _vote(row: Settled, *, first: bool) -> _Vote:
    """The vote from the candidate's side."""

    def turned(value: float) -> float:
        within = min(max(value, 0.0), 1.0)
        return within if first else 1.0 - within

    together = row.signals[SIGNAL]  # what each said is listed only where several voted
    by = {rater: turned(dict(said).get(SIGNAL, together)) for rater, said in row.said.items()}
    return _Vote(turned(together), by)


def _counted(values: Sequence[float]) -> tuple[int, int]:
    wins = sum(value > 0.5 for value in values)
    losses = sum(value < 0.5 for value in values)
    return wins, losses


def _raters(votes: Sequence[_Vote], threshold: float) -> tuple[RaterShare, ...]:
    """The share of each rater, and what the votes say without it."""
    from headway.prove.sequential import e_process

    given = Counter(rater for vote in votes for rater in vote.by)
    shares = []
    for rater, rows in given.most_common():
        rest = [[value for name, value in vote.by.items() if name != rater] for vote in votes]
        wins, losses = _counted([sum(values) / len(values) for values in rest if values])
        shares.append(
            RaterShare(
                name=rater,
                rows=rows,
                share=rows / len(votes),
                uplift=None,
                own=is_own(rater),
                others=wins + losses,
                statistic=e_process(wins, losses),
                threshold=threshold,
            )
        )
    return tuple(shares)
