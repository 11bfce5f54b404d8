"""Spans and log records into the store: calls of models as decisions, evaluations as signals.

    ingest(project, decoded(body, media, logs=False), key="app", rates=False).fates["new"]

The id of a decision follows from the key, the trace and the span: a batch that is sent again adds nothing, and another
key cannot occupy or change it. Signals need the scope `signal` as well (`rates`): an agent that sends its own traces
should not rate them.

Not covered: evaluations that come more than 24 hours before their span.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.kits.data import Origin, Record, RecordIntake, Records, RecordWriter, Wrong
from headway.kits.otel.conventions import (
    EVALUATION,
    EvaluationEvent,
    TraceSettings,
    decision_named,
    evaluation_of,
    is_decision,
    measured_of,
    record_of,
)
from headway.kits.otel.otlp import Span
from headway.nouns import Signal, errors, ids
from headway.project import Project

_BATCH = 1000
_MORE_KEYS = 64  # whose spans an evaluation may be about
_CLASH = "a span with these ids has come before, with other content"
_NEEDS_SIGNAL = "evaluations and signals of other decisions need a key with the scope signal, too"


@dataclass(slots=True)
class IngestReport:
    """What became of one request."""

    fates: Counter[str] = field(default_factory=Counter)  # new, same, signals, other
    refused: Counter[str] = field(default_factory=Counter)  # reason → how many


def ingest(
    project: Project,
    rows: Sequence[Span | str],
    *,
    key: str,
    rates: bool,
    logs: bool = False,
    senders: Callable[[], Sequence[str]] = tuple,
) -> IngestReport:
    """Store the decisions and signals of spans, or of log records, that a key has sent.

    `senders`: the keys whose spans it may rate.
    """
    report = IngestReport()
    wanted: TraceSettings = project.settings.kit_tables.get("traces", TraceSettings())
    records: dict[str, Record] = {}
    evaluations: list[EvaluationEvent] = []
    signals: list[tuple[str, dict[str, float], Span]] = []  # of decisions that other calls made

    def evaluated(row: Span, name: str, has: Mapping[str, object], at: float) -> None:
        found = evaluation_of(row, name, has, at, wanted)
        if isinstance(found, str):
            report.refused[found] += 1
        else:
            evaluations.append(found)

    intake = RecordIntake(project, "")
    for row in rows:
        if isinstance(row, str):
            report.refused[row] += 1
            continue
        if logs:
            name = row.name or str(row.attributes.get("event.name", ""))
            if name == EVALUATION:
                evaluated(row, name, row.attributes, row.at)
            else:
                report.fates["other"] += 1
            continue
        for event in row.events:
            if event.name == EVALUATION:
                evaluated(row, event.name, event.attributes, event.at)
        named = decision_named(row.attributes)
        if named and "headway.candidates" not in row.attributes:
            signals.append((named, measured_of(row, wanted, None), row))
            continue
        if not is_decision(row, wanted):
            report.fates["other"] += 1
            continue
        identifier = named or _id(project, key, row.trace, row.id)
        try:
            made = record_of(row, wanted, project.settings, id=identifier, key=key)
        except (Wrong, errors.HeadwayError) as wrong:
            report.refused[f"{wrong.message} {getattr(wrong, 'hint', '') or ''}".strip()] += 1
            continue
        taken = intake.record(made)
        if isinstance(taken, Record) and records.setdefault(identifier, taken) == taken:
            continue
        if isinstance(taken, Record):
            report.refused[_CLASH] += 1
        else:
            report.refused[f"{taken.message} {taken.cure}".strip()] += 1
    _store(project, list(records.values()), key, report)
    if rates:
        _rate(project, evaluations, signals, key, report, senders)
    elif evaluations or signals:
        report.refused[_NEEDS_SIGNAL] += len(evaluations)
        report.fates["other"] += len(signals)
    return report


def _store(project: Project, records: Sequence[Record], key: str, report: IngestReport) -> None:
    here = _decided_here(project, [record.id for record in records])
    report.fates["same"] += len(here)
    fresh = [record for record in records if record.id not in here]
    origin = Origin(file="otlp", sha256="", format="otlp", version="1", task="", at=project.clock(), key=key)
    writer = RecordWriter(project.database, project.query, project.store, origin)
    for place in range(0, len(fresh), _BATCH):
        batch = fresh[place : place + _BATCH]
        fates = writer.write(Records.of(batch)).fates
        again = [record for record, fate in zip(batch, fates, strict=True) if fate == "conflict"]
        fates = [fate for fate in fates if fate != "conflict"]
        # another request may have stored the same span in the meantime
        fates += writer.preview(Records.of(again)).fates if again else []
        report.fates.update(fate for fate in fates if fate != "conflict")
        if clashes := fates.count("conflict"):
            report.refused[_CLASH] += clashes


def _rate(
    project: Project,
    evaluations: Sequence[EvaluationEvent],
    signals: Sequence[tuple[str, dict[str, float], Span]],
    key: str,
    report: IngestReport,
    senders: Callable[[], Sequence[str]],
) -> None:
    subjects = _subjects(project, [one for one in evaluations if not one.decision], key, senders)
    wanted = [
        (subject, {one.name: one.value}, one.label, one.at, f"otlp:{one.at!r}")
        for one in evaluations
        for subject in ([one.decision] if one.decision else subjects[one.trace, one.span])
    ]
    here = _decided_here(project, [subject for subject, _, _ in signals])
    for subject, values, span in signals:
        if subject in here and any(one.rater == "proxy:" for one in project.query.signals(subject)):
            report.fates["same"] += 1  # this server's own call, which it measured itself
        else:
            wanted.append((subject, values, "", span.ended or span.at, f"otlp:{span.id}"))
    rows: list[Signal] = []
    for subject, values, label, at, word in wanted:
        for name, value in values.items():
            try:
                rows += project.checked_signals(subject, {name: value}, rater=key, label=label, at=at, key=word)
            except errors.HeadwayError as error:
                report.refused[error.message] += 1
    _submit(project, rows, report)


def _submit(project: Project, rows: list[Signal], report: IngestReport) -> None:
    """Store signals at once; where one contradicts another, each by itself."""
    try:
        if rows:
            project.submit_signals(rows, early=True).result()
            report.fates["signals"] += len(rows)
    except errors.Conflict as error:
        if len(rows) == 1:
            report.refused[error.message] += 1
        else:
            for row in rows:
                _submit(project, [row], report)


def _subjects(
    project: Project, evaluations: Iterable[EvaluationEvent], key: str, senders: Callable[[], Sequence[str]]
) -> dict[tuple[str, str], list[str]]:
    """The decision of each span: this key's own, or else those of other keys, which cannot take its ratings away."""
    spans = {(one.trace, one.span) for one in evaluations}
    own = {span: _id(project, key, *span) for span in spans}
    known = _stored(project, own.values())
    missing = [span for span in spans if own[span] not in known]
    found: dict[tuple[str, str], list[str]] = {}
    for other in [name for name in (senders() if missing else ()) if name != key][:_MORE_KEYS]:
        theirs = {_id(project, other, *span): span for span in missing}
        for identifier in _stored(project, theirs):
            found.setdefault(theirs[identifier], []).append(identifier)
    return {span: found.get(span, [own[span]]) for span in spans}


def _id(project: Project, key: str, trace: str, span: str) -> str:
    return project.query.keyed_id("otlp", key, f"{trace}:{span}")


def _stored(project: Project, identifiers: Iterable[str]) -> set[str]:
    rows = project.database.query_in("SELECT id FROM decisions WHERE id IN ({})", [ids.raw(one) for one in identifiers])
    return {ids.text(bytes(raw)) for (raw,) in rows}


def _decided_here(project: Project, identifiers: Iterable[str]) -> set[str]:
    """Those of these decisions that did not come through this door or a file."""
    rows = project.database.query_in(
        "SELECT d.id FROM decisions d LEFT JOIN imported i ON i.decision = d.id "
        "WHERE i.decision IS NULL AND d.id IN ({})",
        [ids.raw(one) for one in identifiers],
    )
    return {ids.text(bytes(raw)) for (raw,) in rows}
