"""/v1/evidence and /v1/reports: evidence, and counts and rewards by day."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headway.nouns import Evidence, conclusion, rfc3339
from headway.observe import Day, by_day
from headway.serve.endpoints import Call, endpoint, strict
from headway.serve.wire import Task


class EvidenceRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    task: str
    policy_hash: str
    at: str
    candidate: str
    against: str
    kind: str  # log, world, heldout, preference, or a kit's own
    n: int
    state: str  # pass, wait, refused or worse, by the present rules
    word: str  # better, worse, too early, no difference or cannot tell
    text: str  # the verdict as a sentence
    bounds: tuple[float, float] | None  # of the gate, on the difference
    value: float | None  # candidate minus current, with its 95% interval; null where a data check fails
    low: float | None
    high: float | None


class EvidencesAnswer(msgspec.Struct, frozen=True):
    evidence: list[EvidenceRow]


class EvidenceQuery(strict):
    task: Task | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


@endpoint("GET", "/v1/evidence", query=EvidenceQuery, gives=EvidencesAnswer, errors=(404,), scope="train")
def evidences(call: Call) -> EvidencesAnswer:
    """All evidence, newest first."""
    query: EvidenceQuery = call.query
    project = call.server.project
    if query.task is not None:
        project.settings.task(query.task)
    return EvidencesAnswer(
        [
            _row(call, identifier, task, digest, at)
            for identifier, task, digest, at in project.ledger.evidences(query.task, query.limit)
        ]
    )


def _row(call: Call, identifier: str, task: str, digest: str, at: float) -> EvidenceRow:
    verdict = call.server.project.verdict(identifier)
    evidence = verdict.evidence
    assert evidence is not None
    difference = None if verdict.disowned else evidence.difference
    return EvidenceRow(
        id=identifier,
        task=task,
        policy_hash=digest,
        at=rfc3339(at),
        candidate=evidence.candidate,
        against=evidence.against,
        kind=evidence.kind,
        n=evidence.n,
        state=verdict.state,
        word=verdict.word,
        text=conclusion(verdict),
        bounds=None if difference is None else evidence.bounds,
        value=None if difference is None else difference.value,
        low=None if difference is None else difference.low,
        high=None if difference is None else difference.high,
    )


@endpoint("GET", "/v1/evidence/{evidence}", gives=Evidence, errors=(404,), scope="train")
def evidence(call: Call) -> Evidence:
    """Everything that the gate judges."""
    stored = call.server.project.verdict(call.params["evidence"]).evidence
    assert stored is not None, "a stored verdict has its evidence"
    return stored


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    decisions: int
    signals: int
    episodes: int
    outcomes: dict[str, int]
    sources: dict[str, int]
    actions: dict[str, int]
    first: str | None
    last: str | None
    days: list[Day]


class ReportsAnswer(msgspec.Struct, frozen=True):
    reports: list[ReportAnswer]


class ReportQuery(strict):
    task: Task | None = None
    days: Annotated[int, Meta(ge=1, le=366)] = 30


@endpoint("GET", "/v1/reports", query=ReportQuery, gives=ReportsAnswer, errors=(404,), scope="train")
def reports(call: Call) -> ReportsAnswer:
    """Counts, outcomes and mean reward per task, in total and by day (UTC)."""
    query: ReportQuery = call.query
    project = call.server.project
    names = project.tasks() if query.task is None else [project.settings.task(query.task).name]
    return ReportsAnswer([_report(call, name, query.days) for name in names])


def _report(call: Call, task: str, days: int) -> ReportAnswer:
    project = call.server.project
    days_seen = by_day(project.database, project.query.name_id("task", task), since=project.clock() - days * 86_400)
    counts = project.query.counts(task)  # after the days: what comes between them is in the total only
    return ReportAnswer(
        task=task,
        decisions=counts.decisions,
        signals=counts.signals,
        episodes=counts.episodes,
        outcomes=dict(counts.by_status),
        sources=dict(counts.by_source),
        actions=project.query.by_action(task),
        first=None if counts.first_at is None else rfc3339(counts.first_at),
        last=None if counts.last_at is None else rfc3339(counts.last_at),
        days=days_seen,
    )
