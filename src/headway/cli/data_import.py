"""`headway data import`, `mine`, `transform`, `leaks`: history from elsewhere, and its flaws."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.format import counts
from headway.cli.import_report import Imported, TaskLeaks
from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verb import Session, again, pairs, quoted, task_argument, verb

if TYPE_CHECKING:
    from headway.project import ImportReport, Project, TransformReport


_JOURNALS = ("*.jsonl", ".jfl/journal/*.jsonl", ".jfl/map-events.jsonl", ".jfl/service-events.jsonl", "journal/*.jsonl")


@verb(
    "import",
    "headway data import training-buffer.jsonl",
    "headway data import log.csv --task route --map action=model --map reward=score --map propensity=unknown",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--format", "form", default="auto", show_default=True, help="The format; `auto` recognises it.")
@click.option("--task", metavar="TASK", help="The task of the decisions; every format has a default.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="OURS=THEIRS",
    help="The column for text, action, reward, propensity, state.NAME, signal.NAME, …; repeatable.",
)
@click.option("--candidates", default="", metavar="A,B", help="The candidates, if the rows do not name them.")
@click.option("--dry-run", is_flag=True, help="Only report; store nothing. Exit status 1 if a line is invalid.")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="With an invalid line: store nothing of the file, or skip the line.",
)
def import_(
    session: Session,
    files: tuple[Path, ...],
    form: str,
    task: str | None,
    mapping: tuple[str, ...],
    candidates: str,
    dry_run: bool,
    on_error: Any,
) -> int:
    """Import history from elsewhere: logs, training buffers, journals, tables.

    Importing the same file again adds nothing, and the next run finishes an interrupted one. Rows without the
    probability of their action can be learned from, but prove nothing.
    """
    columns = pairs(mapping, "column")
    named = [name.strip() for name in candidates.split(",") if name.strip()]
    with session.project(create=not dry_run) as project, session.out.progress() as progress:
        reports = [
            project.import_file(
                path,
                format=form,
                task=task,
                columns=columns,
                candidates=named,
                dry_run=dry_run,
                on_error=on_error,
                progress=progress,
            )
            for path in files
        ]
        imported = _imported(project, reports)
    return _finish(session, imported)


@verb("mine", "headway data mine .jfl/journal/*.jsonl", "headway data mine ../project --dry-run")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--task", metavar="TASK", help="The task of the decisions; next-action by default.")
@click.option("--dry-run", is_flag=True, help="Only report; store nothing.")
def mine(session: Session, paths: tuple[Path, ...], task: str | None, dry_run: bool) -> int:
    """Mine weak labels from jfl journals and events; a folder is searched for them.

    They are marked as mined, by source and by rater. They prove nothing, and `headway learn` reads them only with
    --mined.
    """
    from headway.observe.ingest.formats import detect

    files = list(_journals(paths))
    reports = []
    with session.project(create=not dry_run) as project, session.out.progress() as progress:
        for path in files:
            detected = detect(path, project.catalogue.all_formats())
            if not detected.weak:
                session.out.note(
                    f"{path}: {detected.name} is measured, not mined: headway data import {quoted(str(path))}"
                )
                continue
            reports.append(
                project.import_file(
                    path, format=detected.name, task=task, dry_run=dry_run, on_error="skip", progress=progress
                )
            )
        imported = _imported(project, reports)
    return _finish(session, imported)


def _journals(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted({file for pattern in _JOURNALS for file in path.glob(pattern) if file.is_file()})
        else:
            yield path


@verb("leaks", "headway data leaks next-action", "headway data leaks route --json")
@task_argument()
@click.option("--mined", is_flag=True, help="Check rows with mined labels too.")
def leaks(session: Session, task: str, mined: bool) -> int:
    """Find fields that give the outcome away, and other flaws that flatter a policy.

    Exit status 1 if there is such a field. `headway learn` leaves them out.
    """
    with session.project() as project:
        checked = TaskLeaks(task=task, leaks=project.leaks(task, mined=mined))
    session.show(checked)
    session.next(f"headway learn {task}")
    return 1 if checked.leaks.found else 0


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
    with session.project() as project, session.out.progress() as progress:
        written = project.transform(task, out, mined=mined, trust=trust, overwrite=force, progress=progress)
    session.show(written)
    session.next(f"headway learn {task}")


@renders("TransformReport")
def _transformed(out: Output, report: TransformReport) -> None:
    out.line(f"{report.file}  {report.rows:,} rows: {counts(report.parts)}.")
    for field in report.left_out:
        out.note(f"left out: {field} gives the outcome away.")


def _imported(project: Project, reports: list[ImportReport]) -> Imported:
    tasks = sorted({name for report in reports for name in report.tasks})
    return Imported(reports=reports, counted={name: project.rewards(name).signals for name in tasks})


def _finish(session: Session, imported: Imported) -> int:
    session.show(imported)
    reports = imported.reports
    if not reports:
        return 1
    if imported.dry_run:
        session.next(again("dry_run"))
        return 1 if any(report.rejected for report in reports) else 0
    if imported.counted:
        session.next(f"headway data stats {next(iter(imported.counted))}")
    return 0
