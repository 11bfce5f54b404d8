"""What a verdict on a candidate costs: decisions and days, from the log alone and with a share of the traffic; and the
plan of a registered test."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from headway.nouns import VerdictCost, VerdictForecast, errors
from headway.observe import latest_draws
from headway.project.prove.budget import next_test
from headway.project.prove.kinds.kind import LOG, ProofQuestion, pick, provable
from headway.project.prove.logged import ProofRows, logged
from headway.project.prove.subject import stored_evidence, tested_policy
from headway.project.publish import record_change

if TYPE_CHECKING:
    from headway.nouns import Verdict, Waiting
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, CurrentPolicy
    from headway.prove import SharePilot
    from headway.settings import TaskSettings


_DAY_S = 86_400.0
_LATEST = 1000  # decisions that the present rate is measured on
_LEAST_S = 60.0  # a shorter time gives no rate per day
_PILOT = 4000  # rows that a cost is estimated from, the newest of them


def verdict_cost(project: Opened, task: str, *, policy: str | None = None, power: float = 0.8) -> VerdictCost:
    """The decisions and days that a verdict on a candidate will take, with the log alone and with a share.

    It is about the newest candidate unless one is named.
    """
    from headway.prove import cheapest

    candidate, settings, current = tested_policy(project, policy, task)
    pilot = task_pilot(project, settings, candidate, current)
    known, alpha, waiting = _test_so_far(project, settings, candidate, current)
    per_day = arrival_rate(project, settings.name)
    within, running = planned_within(settings, per_day), project.ledger.experiment(settings.name)
    plan = cheapest(
        pilot,
        within=within,
        alpha=alpha,
        margin=settings.margin,
        most_share=settings.most_share,
        power=power,
        known=known,
        running=running is not None and running.policy_hash == candidate.digest,
    )
    return VerdictCost(
        task=settings.name,
        policy=candidate.ref,
        against=current.ref,
        uplift=plan.uplift,
        share=plan.share,
        decisions=plan.decisions,
        experiment_share=plan.acting.share,
        log_alone=plan.log_alone,
        by_share={row.share: row.decisions for row in plan.costs},
        within=within,
        known=known,
        pilot=pilot.n,
        per_day=per_day,
        waiting=waiting,
        unit=settings.unit,
        loss=None if plan.decisions is None else plan.share * plan.decisions * pilot.shortfall,
    )


def with_forecast(project: Opened, verdict: Verdict) -> Verdict:
    """The verdict with how many more decisions it takes, and how long: the words of every door."""
    evidence, more = verdict.evidence, verdict.more
    if more is None or evidence is None:
        return verdict
    from headway.prove import likely_range

    waiting = evidence.waiting
    per_day = arrival_rate(project, evidence.task) if evidence.kind == LOG else None
    range_of: tuple[int, int, int | None] = (more, more, more)
    if verdict.state == "wait" and evidence.needed and not evidence.shows_better and evidence.plan is None:
        range_of = likely_range(evidence) or range_of
    forecast = VerdictForecast.of(*range_of, seen=evidence.n, unit=evidence.unit, per_day=per_day)
    if more == 0 and waiting is not None:
        forecast = replace(forecast, open=waiting.open, until=waiting.until)
    hint = "" if verdict.hint.startswith("Collect about") else verdict.hint  # the conclusion says it with its range
    return replace(verdict, forecast=forecast, hint=hint)


def arrival_rate(project: Opened, task: str) -> float | None:
    """The decisions per day at present, from the latest ones; None if they span less than a minute."""
    latest = latest_draws(project.database, project.query, task, _LATEST)
    span = project.clock() - project.query.by_seq(latest[0]).at if latest else 0.0
    return len(latest) / span * _DAY_S if span >= _LEAST_S else None


def planned_within(settings: TaskSettings, per_day: float | None) -> int:
    """The decisions in which a verdict is wanted: `decide_within`, or what `decide_within_days` bring if fewer."""
    from headway.prove import LEAST

    if per_day is None:
        return settings.decide_within
    return max(LEAST, min(settings.decide_within, int(per_day * settings.decide_within_days)))


def task_pilot(
    project: Opened, settings: TaskSettings, candidate: CandidatePolicy, current: CurrentPolicy
) -> SharePilot:
    """The variance of a score with each share, from the newest rows, also those that the candidate was trained on."""
    from headway.prove import SHARES, share_pilot

    mine, other = (candidate.ref, candidate.digest), (current.ref, current.digest)
    kind = pick(ProofQuestion(project=project, settings=settings, candidate=mine, other=other))
    if kind != LOG:
        raise errors.InvalidInput(
            f"{candidate.ref} is proven by evidence of the kind {kind!r}, not by logged decisions.",
            code="bad_kind",
            hint=f"Prove it: headway prove {settings.name}",
        )
    shares = {*(share for share in SHARES if share <= settings.most_share), settings.most_share}
    rows = logged(ProofRows(project, settings, mine, other, newest=_PILOT))
    return share_pilot(rows, shares=tuple(sorted(shares)), reward_range=project.rewards(settings.name).range)


def _test_so_far(
    project: Opened, settings: TaskSettings, candidate: CandidatePolicy, current: CurrentPolicy
) -> tuple[int, float, Waiting | None]:
    """The rows that the test of a candidate has already, the error that it may spend, and what waits for outcomes."""
    from headway.prove import About

    identifier = project.ledger.latest_evidence(settings.name, candidate.digest)
    if identifier is not None:
        evidence = stored_evidence(project, identifier)
        if evidence.against_hash == current.digest and evidence.kind == LOG:
            return evidence.n, evidence.alpha, evidence.waiting
    number = next_test(project, settings.name)
    about = About(
        task=settings.name,
        candidate=candidate.ref,
        against=current.ref,
        challenger=number.k,
        promotions=number.promotions,
    )
    return 0, about.share, None


if TYPE_CHECKING:
    from headway.project.project.folder import Opened
    from headway.prove import Planned


def plan(
    project: Opened, task: str, *, uplift: float, power: float = 0.8, register: bool = False, policy: str | None = None
) -> Planned:
    """The number of decisions (or episodes, or rows) needed to prove an uplift of this size.

    `register` fixes that horizon in the ledger in advance.
    """
    from headway.prove import About

    candidate, settings, current = tested_policy(project, policy, task)
    question = ProofQuestion(
        project=project,
        settings=settings,
        candidate=(candidate.ref, candidate.digest),
        other=(current.ref, current.digest),
    )
    number = next_test(project, settings.name)
    about = About(
        task=settings.name,
        candidate=candidate.ref,
        against=current.ref,
        margin=settings.margin,
        challenger=number.k,
        promotions=number.promotions,
        reward_range=project.rewards(settings.name).range,
    )
    result = provable(question).plan(question, about, uplift=uplift, power=power)
    if register:
        record_change(
            project,
            settings.name,
            "plan",
            candidate.ref,
            candidate.digest,
            why=f"test for an uplift of {uplift:+g} over {result.plan.horizon:,} {result.unit}",
            detail=msgspec.to_builtins(result.plan),
        )
    return result
