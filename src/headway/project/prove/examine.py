"""Evidence for a candidate, from the rows that it has never read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from headway.nouns import Crew, Evidence, Plan, Progress, Verdict, errors
from headway.project.prove.budget import BudgetPlace, keep_verdict, name_of_test, number_of
from headway.project.prove.cost import with_forecast
from headway.project.prove.finality import frozen_lag, measured_lags
from headway.project.prove.fitting import guard_rules
from headway.project.prove.keys import leave_keys_out
from headway.project.prove.kinds.kind import LOG, ProofQuestion, SeenRows, provable
from headway.project.prove.subject import (
    candidate_policy,
    current_policy,
    experiments,
    gate_rules,
    known_raters,
    most_decisions,
    registered_plan,
    registered_start,
)
from headway.project.prove.terms import present_terms
from headway.promote import gate

if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, Terms
    from headway.prove import About, GuardRule
    from headway.settings import TaskSettings


@dataclass(frozen=True, slots=True)
class RollbackTest:
    """Whether to take back a policy that acts: by the decisions since a time, with an error budget of its own."""

    since: float
    alpha: float  # the share of policies that are no worse and are ever taken back


@dataclass(frozen=True, slots=True)
class Examined:
    """A verdict, with what it was computed with."""

    verdict: Verdict
    about: About
    guards: tuple[GuardRule, ...]
    rules: gate.GateRules
    measured: Evidence  # before one key at a time is left out and the look is charged
    seen: SeenRows | None = None


def prove(
    project: Opened,
    policy: str | None = None,
    *,
    against: str = "current",
    task: str | None = None,
    progress: Progress | None = None,
    trust_keys: Sequence[str] = (),
    crew: Crew | None = None,
    who: str = "",
) -> Verdict:
    """Is this candidate better than the current policy? The newest candidate unless one is named.

    A verdict that depends on one key's ratings is refused, unless that key is in `trust_keys`. A `crew` plays
    the episodes of a proof by a world side by side; the verdict is the same. `who` signs the look in the ledger.
    """
    return examine(
        project, policy, against=against, task=task, progress=progress, trust=trust_keys, crew=crew, who=who
    ).verdict


def examine(
    project: Opened,
    policy: str | None,
    *,
    against: str,
    task: str | None,
    progress: Progress | None = None,
    keep_rows: bool = False,
    trust: Sequence[str] = (),
    outcomes: bool = False,
    rollback: RollbackTest | None = None,
    crew: Crew | None = None,
    who: str = "",
) -> Examined:
    """A verdict on a candidate, stored with its evidence.

    `keep_rows`: the result has the logged rows. `outcomes`: by the outcomes of its decisions, even if it could be
    judged without any. `rollback`: asks whether to take the candidate back, which is not charged to the error budget.
    `crew`: where episodes of a world are played.
    """
    candidate = candidate_policy(project, policy, task)
    settings = project.settings.task(candidate.task)
    trusted = known_raters(project, trust)
    project.settle(settings.name, progress=progress)
    erased = project.ledger.erased()
    other = _opponent(project, settings, candidate, against)
    terms = present_terms(project, settings, (candidate.ref, candidate.digest), other)
    after = None if rollback else registered_start(project, settings.name, candidate.digest)
    question = ProofQuestion(
        project=project,
        settings=settings,
        candidate=(candidate.ref, candidate.digest),
        other=other,
        progress=progress,
        seen=SeenRows() if keep_rows else None,
        since=0.0 if rollback is None else rollback.since,
        after=after,
        crew=crew,
    )
    kind = provable(question, outcomes=outcomes)
    plan = None if rollback else registered_plan(project, settings.name)
    test = None if rollback else name_of_test(plan, kind.name, experiment=after, changed=terms.changed)
    if test is not None and kind.name == LOG:
        lags = measured_lags(project, settings)
        test, final_s = frozen_lag(project, settings.name, terms, test, lags)
        question = replace(question, lags=lags, final_s=final_s)
    about = _about(project, terms, settings, trusted, plan=plan, test=test, rollback=rollback)
    guards = guard_rules(settings)
    evidence = measured = kind.evidence(question, about, guards)
    rules = gate_rules(settings)
    if rollback is None:
        evidence = leave_keys_out(question, evidence, rules)
    verdict = keep_verdict(project, settings, terms, evidence, rules, test=test, erased=erased, who=who)
    return Examined(with_forecast(project, verdict), about, tuple(guards), rules, measured, question.seen)


def _opponent(project: Opened, settings: TaskSettings, candidate: CandidatePolicy, against: str) -> tuple[str, str]:
    """(reference, hash) of the policy that the candidate is compared with."""
    if against == "current":
        current = current_policy(project, settings)
        ref, digest = current.ref, current.digest
    else:
        ref, digest = project.servings.resolve(settings, against)
    if digest == candidate.digest:
        raise errors.InvalidInput(
            f"{candidate.ref} is compared with itself.",
            code="same_policy",
            hint=f"Learn a new candidate (headway learn {settings.name}) or name another policy with --against.",
        )
    return ref, digest


def _about(
    project: Opened,
    terms: Terms,
    settings: TaskSettings,
    trusted: tuple[str, ...],
    *,
    plan: Plan | None,
    test: str | None,
    rollback: RollbackTest | None,
) -> About:
    """What the evidence says about itself. `test` is None for a rollback."""
    from headway.prove import About

    task = settings.name
    number = BudgetPlace(1, 0) if test is None else number_of(project, task, terms, test)
    about = About(
        task=task,
        candidate=terms.candidate,
        against=terms.against,
        candidate_hash=terms.candidate_hash,
        against_hash=terms.against_hash,
        plan=plan,
        challenger=number.k,
        promotions=number.promotions,
        most=0 if rollback else most_decisions(settings),
        most_share=settings.most_share if experiments(settings) else 0.0,
        margin=settings.margin,
        reward_version=terms.reward_version,
        reward_range=project.rewards(task).range,
        seed=settings.seed,
        command=f"headway prove {task} --policy {terms.candidate} --against {terms.against}"
        + "".join(f" --trust-key {quote(name)}" for name in trusted),
        trusted=trusted,
        config_hash=terms.config_hash,
        behaviour=terms.behaviour,
        declared=terms.declared,
    )
    if rollback:
        return replace(about, alpha_worse=rollback.alpha, guard=True)
    heads = project.ledger.heads(task)
    acting = heads.canary or heads.experiment
    acts = acting is not None and acting.policy_hash == terms.candidate_hash
    # What acts can be taken back with an error budget of its own; "worse" of any other candidate shares the test's.
    return about if acts else replace(about, alpha_worse=about.share)
