"""`headway data export` and `transform`: files of decisions, and of the rows that `learn` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, known, renders, task_argument, verb, written
from headway.kits.data.fields import parse_time
from headway.nouns import SOURCES, plural

if TYPE_CHECKING:
    from headway.kits.data.training_rows import TransformReport


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

    from headway.kits.data.exporter import ExportFilter, export as write

    start, end = (None if time is None else parse_time(time) for time in (since, until))
    wanted = ExportFilter(tasks=tasks, since=start, until=end, role=role, source=source)
    kind = kind or {".parquet": "parquet", ".csv": "csv"}.get(out.suffix, "jsonl")
    kits = known(session.folder)
    exports = kits.all("exports")
    writer = kits.load(exports[kind]) if kind in exports else None
    with session.project() as project:
        for task in tasks:
            project.settings.task(task)
        session.settle(project, *(tasks or project.tasks()))
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
            progress=session.out.progress,
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
        out.note(f"synthetic data: {plural(synthetic, 'decision')} came from a sample world, not from users.")
    out.line(f"{exported.file}  {manifest['decisions']:,} decisions, {manifest['bytes']:,} bytes, {exported.format}.")
    for why, count in manifest["left_out"].items():
        out.note(f"left out: {count:,} decisions ({why}), which this format cannot express.")
    out.line(f"{exported.file}.manifest.json  counts by source, filters, reward versions, SHA-256.")


@verb(
    "transform",
    "headway data transform next-action --out training.jsonl",
    "headway data transform route --out route.jsonl --mined --json",
)
@task_argument()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE", help="The file to write."
)
@click.option("--mined", is_flag=True, help="Include rows with mined labels.")
@click.option("--trust", multiple=True, metavar="FIELD", help="Keep this field although it looks leaky.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def transform(session: Session, task: str, out: Path, mined: bool, trust: tuple[str, ...], force: bool) -> None:
    """Write the input of `learn`: one JSON object per row with its part of the split, without leaky fields."""
    from headway.kits.data.training_rows import transform as write

    with session.project() as project:
        report = write(project, task, out, mined=mined, trust=trust, overwrite=force, progress=session.out.progress)
    session.show(report)
    session.next(f"headway learn {task}")


@renders("TransformReport")
def _transformed(out: Output, report: TransformReport) -> None:
    out.line(f"{report.file}  {report.rows:,} rows: {written.counts(report.parts)}.")
    for field in report.left_out:
        out.note(f"left out: {field} gives the outcome away.")
