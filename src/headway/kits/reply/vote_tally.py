"""The votes on two policies so far, and how the e-value grew with them. Reads only: no look is charged."""

from __future__ import annotations

from math import exp

from headway.kits.reply.duels import VoteTally
from headway.kits.reply.preference import PREFERENCE, votes_on
from headway.kits.reply.votes import PREFERENCE_ALPHA
from headway.project import Opened, ProofQuestion, budget_place, candidate_policy

_MOST = 700.0  # the exponent of the largest number


def vote_tally(project: Opened, task: str, policy: str, against: str) -> VoteTally:
    """The votes of blind comparisons of two policies."""
    from headway.prove import About, e_process

    candidate = candidate_policy(project, policy, task)
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
