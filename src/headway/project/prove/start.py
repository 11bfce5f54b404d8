"""When the loop starts the test of a candidate, and whether it needs an experiment. A person may prove at any time.

A candidate spends nothing until its proof is looked at, so the loop first looks at the rows that it was trained on. It
is tested as soon as it looks better there by more than a standard error, or when waiting no longer helps: after a
sixteenth of `decide_within` decisions if the log alone will decide, after a twentieth if an experiment will, which
tells more than waiting does. Until then, the next learning replaces it. With `experiment = "ask"`, a candidate that
needs an experiment waits for a person to start it: `offered`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headway.nouns import errors
from headway.project.prove.cost import verdict_cost
from headway.project.prove.kinds.kind import LOG, ProofQuestion, pick
from headway.project.prove.screen import first_look
from headway.project.prove.subject import experiments
from headway.project.prove.terms import present_terms

if TYPE_CHECKING:
    from headway.nouns import VerdictCost
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, CurrentPolicy, Standing
    from headway.prove import Look
    from headway.settings import TaskSettings


_LOG_WAITS = 16  # `decide_within` is divided by this
_EXPERIMENT_WAITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the test of a candidate starts now."""

    now: bool
    why: str = ""  # in words, if it does not
    experiment: bool = False  # the log alone does not decide in time
    cost: VerdictCost | None = None  # of a verdict, where that was computed


def readiness(project: Opened, standing: Standing) -> Readiness:
    """Whether the test of a candidate that is not under test starts now, and whether it needs an experiment."""
    candidate = standing.candidate
    assert candidate is not None
    settings, current = project.settings.task(standing.task), standing.current
    mine, other = (candidate.ref, candidate.digest), (current.ref, current.digest)
    if pick(ProofQuestion(project=project, settings=settings, candidate=mine, other=other)) != LOG:
        return Readiness(now=True)
    look = first_look(project, settings, present_terms(project, settings, mine, other))
    if known := _answer(settings, look, candidate, current):
        return Readiness(now=False, why=known)
    if settings.unit == "episode":  # only an experiment can tell, and the steps say nothing about when to start it
        return Readiness(now=True, experiment=experiments(settings))
    waited = None if look is None or look.clear else _waited(project, settings.name)
    unclear = Readiness(now=False, why=f"{candidate.ref} does not clearly look better yet")
    if waited is not None and waited < settings.decide_within // _EXPERIMENT_WAITS:
        return unclear
    cost = _cost(project, settings, candidate)
    needs = cost is not None and cost.share > 0.0
    if waited is not None and not needs and waited < settings.decide_within // _LOG_WAITS:
        return unclear
    return Readiness(now=True, experiment=needs, cost=cost)


def known_answer(project: Opened, settings: TaskSettings, candidate: CandidatePolicy, current: CurrentPolicy) -> str:
    """Why a proof of the candidate can only fail, as its training rows say; empty if that is not known."""
    mine, other = (candidate.ref, candidate.digest), (current.ref, current.digest)
    try:
        if pick(ProofQuestion(project=project, settings=settings, candidate=mine, other=other)) != LOG:
            return ""
        look = first_look(project, settings, present_terms(project, settings, mine, other))
    except errors.HeadwayError:  # its bundle, world or kit is gone
        return ""
    return _answer(settings, look, candidate, current)


def _answer(settings: TaskSettings, look: Look | None, candidate: CandidatePolicy, current: CurrentPolicy) -> str:
    if look is not None and look.same:
        return f"{candidate.ref} makes the same choices as {current.ref}"
    if look is None or look.difference > 0.0 or settings.unit == "episode":
        return ""
    return f"{candidate.ref} is no better even on its training data"


def _cost(project: Opened, settings: TaskSettings, candidate: CandidatePolicy) -> VerdictCost | None:
    """What a verdict costs, where an experiment is possible; None if there is nothing to plan from yet."""
    if not experiments(settings) or settings.name in project.servings.compared:
        return None
    try:
        return verdict_cost(project, settings.name, policy=candidate.ref)
    except errors.InvalidInput:
        return None


def offered(project: Opened, standing: Standing) -> Standing:
    """The standing with the experiment that a person is asked to start, if one is worth it.

    The answer is remembered until the data has grown by a tenth.
    """
    settings, candidate = project.settings.task(standing.task), standing.candidate
    busy = standing.experiment or standing.canary or standing.proven or standing.decided or standing.unprovable
    if standing.tested and standing.admission is not None and standing.admission.state == "stale":
        return standing  # what is logged already may prove it again
    if candidate is None or busy or not experiments(settings) or settings.experiments != "ask":
        return standing
    about = candidate.digest, standing.current.digest, standing.tested
    known = project.experiment_offers.get(standing.task)
    if known is None or known[0] != about or standing.settled * 10 >= known[1] * 11:
        known = about, standing.settled, _offer(project, settings, standing, candidate)
        project.experiment_offers[standing.task] = known
    return replace(standing, offer=known[2])


def _offer(project: Opened, settings: TaskSettings, standing: Standing, candidate: CandidatePolicy) -> str:
    """What a person is asked; empty where no experiment is worth it."""
    if standing.tested:
        cost = _cost(project, settings, candidate)
        return "" if cost is None or cost.share <= 0.0 else cost.offer
    ready = readiness(project, standing)
    if not ready.now or not ready.experiment:
        return ""
    if ready.cost is not None:
        return ready.cost.offer
    share = f"at most {settings.most_share:.0%} of the {settings.unit}s"
    return f"Only an experiment can prove {candidate.ref}: it decides on {share} until its test ends."


def _waited(project: Opened, task: str) -> int:
    """Decisions that have settled since the first candidate after the last test, promotion or rollback."""
    first = None
    for entry in project.ledger.entries(task, "candidate", "test", "experiment", "promote", "rollback"):
        first = (first or entry) if entry.kind == "candidate" else None
    return 0 if first is None else project.query.count_settled(task, after=int(first.detail.get("upto", 0)))
