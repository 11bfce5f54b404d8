"""`headway data`: count, list, export and import what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from headway.cli.data_copy import copy
from headway.cli.data_delete import delete, retain
from headway.cli.data_import import import_, leaks, mine, transform
from headway.cli.format import day, short
from headway.cli.in_use import known
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, render, renders, text, value
from headway.cli.times import parse_time
from headway.cli.verb import Session, Verbs, task_argument, verb
from headway.nouns.errors import UnknownName
from headway.nouns.kit import load
from headway.nouns.records import SOURCES, Decision, Outcome, Status
from headway.nouns.times import rfc3339

if TYPE_CHECKING:
    from headway.observe.query import Counts
    from headway.project import Project
    from headway.prove.leaks import Leaks

__all__ = ["data"]

_MOST_SHARES = 20


@click.group("data", cls=Verbs, examples=("headway data stats", "headway data import training-buffer.jsonl"))
def data() -> None:
    """Count, list, export and import what was recorded."""


@verb("stats", "headway data stats", "headway data stats route --json")
@task_argument(required=False)
def stats(session: Session, task: str | None) -> None:
    """Count decisions, signals and outcomes, by source and action."""
    tasks: dict[str, Counts] = {}
    actions: dict[str, Mapping[str, int]] = {}
    leaky: dict[str, Leaks] = {}
    with session.project() as project:
        if task is not None:
            project.settings.task(task)
        for name in project.tasks() if task is None else [task]:
            with suppress(UnknownName):  # recorded once, no longer declared: counted as stored
                project.settle(name)
            tasks[name], actions[name] = project.query.counts(name), project.query.by_action(name)
            session.synthetic(project, name)
            with suppress(UnknownName):
                leaky[name] = project.leaks(name)
        start = _first_step(project)
    session.show(RecordedTasks(tasks=tasks, actions=actions, leaks=leaky))
    counted = [name for name, counts in tasks.items() if counts.decisions]
    if counted:
        session.next(f"headway rewards analyze {counted[0]}")
    else:
        session.next(start)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTasks:
    """What was recorded, by task, and which of its fields give the outcome away."""

    tasks: Mapping[str, Counts]
    actions: Mapping[str, Mapping[str, int]]
    leaks: Mapping[str, Leaks]

    def document(self) -> dict[str, Any]:
        from headway.project import leaks_document

        return {
            "tasks": {name: {**asdict(counts), "by_action": self.actions[name]} for name, counts in self.tasks.items()},
            "leaks": {name: leaks_document(checked) for name, checked in self.leaks.items()},
        }


def _status(name: str) -> Column[tuple[str, Counts]]:
    return value(name, lambda row: row[1].by_status.get(name, 0))


_TASKS = RecordTable[tuple[str, "Counts"]](
    text("task", lambda row: row[0]),
    value("decisions", lambda row: row[1].decisions),
    value("signals", lambda row: row[1].signals),
    value("episodes", lambda row: row[1].episodes),
    *(_status(name) for name in ("rewarded", "failed", "censored", "pending")),
    text("first", lambda row: day(row[1].first_at)),
    text("last", lambda row: day(row[1].last_at)),
)


@renders(RecordedTasks)
def _recorded(out: Output, recorded: RecordedTasks) -> None:
    if not recorded.tasks:
        out.line("Nothing was recorded yet.")
    _TASKS.print(out, recorded.tasks.items())
    for name, counts in recorded.tasks.items():
        for what, shares in (("source", counts.by_source), ("action", recorded.actions[name])):
            if shares:
                first = ", ".join(f"{key} {count:,}" for key, count in list(shares.items())[:_MOST_SHARES])
                more = f", and {len(shares) - _MOST_SHARES:,} more" if len(shares) > _MOST_SHARES else ""
                out.line(f"{name} by {what}: {first}{more}")
    for checked in recorded.leaks.values():
        render(out, checked)


def _first_step(project: Project) -> str:
    """The first decision: of this project's own task, if it declares one."""
    declared = next(iter(project.settings.tasks), None)
    if declared is None:
        return 'headway decide route "Summarise this page" --candidates small,large'
    return project.next_step(declared).command


@verb("log", "headway data log", "headway data log route --status pending -n 50 --json")
@task_argument(required=False)
@click.option("-n", "count", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@click.option(
    "--status", type=click.Choice(get_args(Status)), help="Only decisions with such an outcome; pending: none yet."
)
def log(session: Session, task: str | None, count: int, status: str | None) -> None:
    """List the latest decisions, newest first."""
    from headway.observe.search import DecisionFilter, all_decisions

    with session.project() as project:
        if task is not None:
            project.settings.task(task)
            project.settle(task)
        found = all_decisions(project.database, DecisionFilter(task=task, status=status))
        decisions = tuple(_logged(decision, outcome) for decision, outcome in islice(found, count))
        start = "" if decisions else _first_step(project) if task is None else project.next_step(task).command
    session.show(DecisionLog(decisions=decisions))
    if decisions:
        session.next(f"headway explain {decisions[0].id}")
    else:
        session.next(start)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """A decision with its outcome, on one line."""

    id: str
    at: str
    task: str
    text: str
    action: str
    propensity: float | None
    policy: str
    source: str
    status: str
    reward: float | None


def _logged(decision: Decision, outcome: Outcome) -> LoggedDecision:
    return LoggedDecision(
        id=decision.id,
        at=rfc3339(decision.at),
        task=decision.task,
        text=decision.situation.text,
        action=decision.action,
        propensity=decision.propensity or None,
        policy=decision.policy,
        source=decision.source,
        status=outcome.status,
        reward=outcome.reward,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLog:
    decisions: Sequence[LoggedDecision]


_LOG = RecordTable[LoggedDecision](
    text("id", lambda row: row.id),
    text("at", lambda row: row.at[:19]),
    text("task", lambda row: row.task),
    text("action", lambda row: row.action),
    value("p", lambda row: row.propensity, 2),
    text("policy", lambda row: row.policy),
    text("source", lambda row: row.source),
    text("outcome", lambda row: row.status),
    value("reward", lambda row: row.reward),
    text("text", lambda row: short(row.text)),
)


@renders(DecisionLog)
def _log(out: Output, logged: DecisionLog) -> None:
    if not logged.decisions:
        out.line("Nothing was decided yet.")
    _LOG.print(out, logged.decisions)


@verb(
    "export",
    "headway data export --out route.jsonl --task route",
    "headway data export --out june.parquet --since 2026-06-01 --until 2026-07-01 --source real",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE", help="The file to write."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "parquet", "csv", *known().all("exports")]),
    help="The format; from the file name by default.",
)
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only this task; repeatable.")
@click.option("--since", metavar="TIME", help="Only from this time on, for example 2026-06-01 or 2026-06-01T12:00:00Z.")
@click.option("--until", metavar="TIME", help="Only before this time.")
@click.option("--role", help="Only decisions of this role.")
@click.option("--source", type=click.Choice(list(SOURCES)), help="Only decisions of this source.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def export(
    session: Session,
    out: Path,
    kind: Any,
    tasks: tuple[str, ...],
    since: str | None,
    until: str | None,
    role: str | None,
    source: Any,
    force: bool,
) -> None:
    """Write decisions with their signals and outcomes to a file, and a manifest next to it.

    Rows are streamed; the file appears complete or not at all.
    """
    from importlib.metadata import version

    from headway.observe.export import ExportFilter
    from headway.observe.export import export as write

    start, end = (None if time is None else parse_time(time) for time in (since, until))
    wanted = ExportFilter(tasks=tasks, since=start, until=end, role=role, source=source)
    kind = kind or {".parquet": "parquet", ".csv": "csv"}.get(out.suffix, "jsonl")
    exports = known(session.folder).all("exports")
    writer = load(exports[kind]) if kind in exports else None
    with session.project() as project:
        for task in tasks:
            project.settings.task(task)
        for task in tasks or project.tasks():
            with suppress(UnknownName):  # recorded once, no longer declared: exported as stored
                project.settle(task)
        with session.out.progress() as progress:
            manifest = write(
                project.database,
                project.query,
                out,
                wanted,
                format=kind,
                writer=writer,
                now=project.clock(),
                version=version("headway"),
                overwrite=force,
                progress=progress,
            )
    session.show(ExportedFile(file=str(out), format=kind, manifest=manifest))
    session.next("headway data stats")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file with decisions; its JSON is the manifest."""

    file: str
    format: str
    manifest: Mapping[str, Any]

    def document(self) -> Mapping[str, Any]:
        return self.manifest


@renders(ExportedFile)
def _exported(out: Output, exported: ExportedFile) -> None:
    manifest = exported.manifest
    synthetic = manifest["by_source"].get("synthetic", 0)
    if synthetic:
        out.note(f"synthetic data: {synthetic:,} of these decisions come from a sample world, not from users.")
    out.line(f"{exported.file}  {manifest['decisions']:,} decisions, {manifest['bytes']:,} bytes, {exported.format}.")
    for why, count in manifest["left_out"].items():
        out.note(f"left out: {count:,} decisions ({why}), which this format cannot express.")
    out.line(f"{exported.file}.manifest.json  counts by source, filters, reward versions, SHA-256.")


for _command in (stats, log, export, import_, mine, transform, leaks, copy, delete, retain):
    data.add_command(_command)
