"""When the loop starts the test of a candidate, and whether it needs an experiment. A person may prove at any time.

A candidate spends nothing until its proof is looked at, so the loop first looks at the rows that it was trained on. It
is tested as soon as it looks better there by more than a standard error, or when waiting no longer helps: after a
sixteenth of `decide_within` decisions if the log alone will decide, after a twentieth if an experiment will, which
tells more than waiting does. Until then, the next learning replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.nouns import InvalidInput
from headway.project.prove.cost import verdict_cost
from headway.project.prove.kinds.kind import LOG, ProofQuestion, pick
from headway.project.prove.screen import first_look
from headway.project.prove.subject import experiments
from headway.project.prove.terms import present_terms

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, Standing
    from headway.settings import TaskSettings


_LOG_WAITS = 16  # `decide_within` is divided by this
_EXPERIMENT_WAITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the test of a candidate starts now."""

    now: bool
    why: str = ""  # in words, if it does not
    experiment: bool = False  # the log alone does not decide in time


def readiness(project: Opened, standing: Standing) -> Readiness:
    """Whether the test of a candidate that is not under test starts now, and whether it needs an experiment."""
    candidate = standing.candidate
    assert candidate is not None
    settings, current = project.settings.task(standing.task), standing.current
    mine, other = (candidate.ref, candidate.digest), (current.ref, current.digest)
    if pick(ProofQuestion(project=project, settings=settings, candidate=mine, other=other)) != LOG:
        return Readiness(now=True)
    look = first_look(project, settings, present_terms(project, settings, mine, other))
    if look is not None and look.same:
        return Readiness(now=False, why=f"{candidate.ref} makes the same choices as {current.ref}")
    if settings.unit == "episode":  # only an experiment can tell, and the steps say nothing about when to start it
        return Readiness(now=True, experiment=experiments(settings))
    if look is not None and look.difference <= 0.0:
        return Readiness(now=False, why=f"{candidate.ref} is no better even on its training data")
    waited = None if look is None or look.clear else _waited(project, settings.name)
    unclear = Readiness(now=False, why=f"{candidate.ref} does not clearly look better yet")
    if waited is not None and waited < settings.decide_within // _EXPERIMENT_WAITS:
        return unclear
    needs = _needs_experiment(project, settings, candidate)
    if waited is not None and not needs and waited < settings.decide_within // _LOG_WAITS:
        return unclear
    return Readiness(now=True, experiment=needs)


def _needs_experiment(project: Opened, settings: TaskSettings, candidate: CandidatePolicy) -> bool:
    if not experiments(settings) or settings.name in project.servings.compared:
        return False
    try:
        return verdict_cost(project, settings.name, policy=candidate.ref).share > 0.0
    except InvalidInput:  # nothing to plan from yet
        return False


def _waited(project: Opened, task: str) -> int:
    """Decisions that have settled since the first candidate after the last test, promotion or rollback."""
    first = None
    for entry in project.ledger.entries(task, "candidate", "test", "experiment", "promote", "rollback"):
        first = (first or entry) if entry.kind == "candidate" else None
    return 0 if first is None else project.query.count_settled(task, after=int(first.detail.get("upto", 0)))
