"""`headway data`: what was recorded, counted, listed, exported."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from headway.cli.data_copy import copy
from headway.cli.data_delete import delete, retain
from headway.cli.data_import import import_, leaks, mine, show_leaks, transform
from headway.cli.format import number
from headway.cli.in_use import known
from headway.cli.times import moment
from headway.cli.verb import Session, Verbs, task_argument, verb
from headway.nouns.errors import UnknownName
from headway.nouns.kit import load
from headway.nouns.records import SOURCES

__all__ = ["data"]


@click.group("data", cls=Verbs, examples=("headway data stats", "headway data import training-buffer.jsonl"))
def data() -> None:
    """Count, list, export and import what was recorded."""


@verb("stats", "headway data stats", "headway data stats route --json")
@task_argument(required=False)
def stats(session: Session, task: str | None) -> None:
    """How many decisions, signals and outcomes there are, by source and action."""
    import msgspec

    from headway.project import leaks_document

    found: dict[str, Any] = {}
    leaky: dict[str, Any] = {}
    with session.project() as project:
        if task is not None:
            project.settings.task(task)
        for name in project.tasks() if task is None else [task]:
            with suppress(UnknownName):  # recorded once, no longer declared: counted as it stands
                project.settle(name)
            found[name] = project.query.counts(name)
            session.synthetic(project, name)
            with suppress(UnknownName):
                leaky[name] = project.leaks(name)
    session.out.document(
        {
            "tasks": {name: msgspec.to_builtins(counts) for name, counts in found.items()},
            "leaks": {name: leaks_document(each) for name, each in leaky.items()},
        }
    )
    if not found:
        session.out.line("Nothing was recorded yet.")
        session.next('headway decide route "Summarise this page" --candidates small,large')
        return
    session.out.table(
        ("task", "decisions", "signals", "episodes", "rewarded", "failed", "censored", "pending", "first", "last"),
        [
            (
                name,
                *(number(each) for each in (counts.decisions, counts.signals, counts.episodes)),
                *(number(counts.by_status.get(each, 0)) for each in ("rewarded", "failed", "censored", "pending")),
                _day(counts.first_at),
                _day(counts.last_at),
            )
            for name, counts in found.items()
        ],
        right=("decisions", "signals", "episodes", "rewarded", "failed", "censored", "pending"),
    )
    for name, counts in found.items():
        for what, shares in (("source", counts.by_source), ("action", counts.by_action)):
            if shares:
                shown = list(shares.items())[:20]
                more = f", and {len(shares) - 20:,} more" if len(shares) > 20 else ""
                session.out.line(f"{name} by {what}: {', '.join(f'{key} {count:,}' for key, count in shown)}{more}")
    for each in leaky.values():
        show_leaks(session, each)
    session.next(f"headway rewards analyze {next(iter(found))}")


@verb("log", "headway data log", "headway data log route -n 50 --json")
@task_argument(required=False)
@click.option("-n", "count", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
def log(session: Session, task: str | None, count: int) -> None:
    """The latest decisions, newest first."""
    rows = []
    with session.project() as project:
        if task is not None:
            project.settings.task(task)
            project.settle(task)
        for each in project.query.latest(task, count):
            outcome = project.query.outcome(each)
            rows.append(
                {
                    "id": each.id,
                    "at": _moment(each.at),
                    "task": each.task,
                    "text": each.situation.text,
                    "action": each.action,
                    "propensity": each.propensity if each.propensity_known else None,
                    "policy": each.policy,
                    "source": each.source,
                    "status": outcome.status,
                    "reward": outcome.reward,
                }
            )
    session.out.document({"decisions": rows})
    if not rows:
        session.out.line("Nothing was decided yet.")
        session.next(f'headway decide {task or "route"} "Summarise this page"')
        return
    session.out.table(
        ("id", "at", "task", "action", "p", "policy", "source", "outcome", "reward", "text"),
        [
            (
                row["id"],
                str(row["at"])[:19],
                row["task"],
                row["action"],
                number(row["propensity"], 2),
                row["policy"],
                row["source"],
                row["status"],
                number(row["reward"]),
                _short(str(row["text"])),
            )
            for row in rows
        ],
        right=("p", "reward"),
    )
    session.next(f"headway explain {rows[0]['id']}")


@verb(
    "export",
    "headway data export --out route.jsonl --task route",
    "headway data export --out june.parquet --since 2026-06-01 --until 2026-07-01 --source real",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE", help="To this file."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "parquet", "csv", *known().all("exports")]),
    help="By the file's name by default.",
)
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="Only this task; repeat for several.")
@click.option("--since", metavar="TIME", help="From this time on, for example 2026-06-01 or 2026-06-01T12:00:00Z.")
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option("--role", help="Only decisions of this role.")
@click.option("--source", type=click.Choice(list(SOURCES)), help="Only decisions of this source.")
@click.option("--force", is_flag=True, help="Overwrite the file if there is one.")
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
    """Write decisions with their signals and outcomes to a file, and a manifest beside it.

    It streams, and the file appears whole or not at all.
    """
    from importlib.metadata import version

    from headway.observe.export import ExportFilter
    from headway.observe.export import export as write

    wanted = ExportFilter(tasks=tasks, since=_time(since), until=_time(until), role=role, source=source)
    kind = kind or {".parquet": "parquet", ".csv": "csv"}.get(out.suffix, "jsonl")
    exports = known(session.folder).all("exports")
    writer = load(exports[kind]) if kind in exports else None
    with session.project() as project:
        for task in tasks:
            project.settings.task(task)
        for task in tasks or project.tasks():
            with suppress(UnknownName):  # recorded once, no longer declared: exported as it stands
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
    session.out.document(manifest)
    made_up = manifest["by_source"].get("synthetic", 0)
    if made_up:
        session.out.note(f"synthetic data: {made_up:,} of these decisions come from a sample world, not from users.")
    session.out.line(f"{out}  {manifest['decisions']:,} decisions, {manifest['bytes']:,} bytes, {kind}.")
    for why, count in manifest["left_out"].items():
        session.out.note(f"left out: {count:,} decisions ({why}), which this format cannot say.")
    session.out.line(f"{out}.manifest.json  counts by source, filters, reward versions, SHA-256.")
    session.next("headway data stats")


for each in (stats, log, export, import_, mine, transform, leaks, copy, delete, retain):
    data.add_command(each)


def _time(text: str | None) -> float | None:
    """An ISO time as seconds since 1970; a day or a time without a zone is UTC."""
    return None if text is None else moment(text)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _day(at: float | None) -> str:
    return "–" if at is None else _moment(at)[:10]


def _short(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
