"""`headway data import` and `mine`: history from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from headway.cli import Column, Output, RecordTable, Session, pairs, renders, verb, written
from headway.kits.data.commands.recorded import print_leaks
from headway.nouns import plural

if TYPE_CHECKING:
    from headway.kits.data.importer import ImportReport
    from headway.project import Project


_MOST = 10  # problems, conflicts and fields that are listed; --json has up to a hundred
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
    from headway.kits.data.importer import import_file

    columns = pairs(mapping, "column")
    named = [name.strip() for name in candidates.split(",") if name.strip()]
    with session.project(create=not dry_run) as project:
        reports = [
            import_file(
                project,
                path,
                format=form,
                task=task,
                columns=columns,
                candidates=named,
                dry_run=dry_run,
                on_error=on_error,
                progress=session.out.progress,
            )
            for path in files
        ]
        imported = _reported(session, project, reports)
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
    from headway.kits.data.formats import detect
    from headway.kits.data.importer import import_file

    files = list(_journals(paths))
    reports = []
    with session.project(create=not dry_run) as project:
        for path in files:
            detected = detect(path, project.catalogue.all_formats())
            if not detected.weak:
                session.out.note(
                    f"{path}: {detected.name} is measured, not mined: headway data import {quote(str(path))}"
                )
                continue
            reports.append(
                import_file(
                    project,
                    path,
                    format=detected.name,
                    task=task,
                    dry_run=dry_run,
                    on_error="skip",
                    progress=session.out.progress,
                )
            )
        imported = _reported(session, project, reports)
    return _finish(session, imported)


def _journals(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted({file for pattern in _JOURNALS for file in path.glob(pattern) if file.is_file()})
        else:
            yield path


def _reported(session: Session, project: Project, reports: list[ImportReport]) -> Imported:
    tasks = sorted({name for report in reports for name in report.tasks})
    if any(not report.dry_run and (report.stored or report.late) for report in reports):
        session.settle(project, *tasks)
    return Imported(reports=reports, counted={name: project.rewards(name).signals for name in tasks})


def _again(*without: str) -> str:
    """This command line with every option that was given, except some: to run it again in another way."""
    context = click.get_current_context()
    words = [context.command_path]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in (*without, *_SHARED):
            continue
        values = context.params[name] if parameter.multiple or parameter.nargs != 1 else [context.params[name]]
        flag = "" if isinstance(parameter, click.Argument) else max(parameter.opts, key=len)
        if isinstance(parameter, click.Option) and parameter.is_flag:
            words.append(flag)
        elif parameter.multiple:
            words += [f"{flag} {' '.join(map(_word, value if parameter.nargs != 1 else [value]))}" for value in values]
        else:
            words.append(f"{flag} {' '.join(map(_word, values))}".strip())
    return " ".join(words)


_SHARED = ("project_folder", "as_json")


def _word(value: object) -> str:
    return quote(str(value))


def _finish(session: Session, imported: Imported) -> int:
    session.show(imported)
    reports = imported.reports
    if not reports:
        return 1
    if imported.dry_run:
        session.next(_again("dry_run"))
        return 1 if any(report.rejected for report in reports) else 0
    if imported.counted:
        session.next(f"headway data stats {next(iter(imported.counted))}")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One report per file, and the signals that the reward of each task counts."""

    reports: Sequence[ImportReport]
    counted: Mapping[str, frozenset[str]]

    @property
    def dry_run(self) -> bool:
        return any(report.dry_run for report in self.reports)

    def document(self) -> dict[str, Any]:
        return {"files": [report.document() for report in self.reports]}


def _files(stored: str) -> RecordTable[ImportReport]:
    return RecordTable(
        Column.text("file", lambda report: report.file),
        Column.text("format", lambda report: report.format),
        Column.value("read", lambda report: report.read),
        Column.value(stored, lambda report: report.stored),
        Column.value("already there", lambda report: report.already),
        Column.value("late", lambda report: report.late),
        Column.value("conflicts", lambda report: report.conflicts),
        Column.value("rejected", lambda report: report.rejected),
        Column.value("no decision", lambda report: report.skipped),
        Column.value("with label", lambda report: report.labelled),
        Column.value("without", lambda report: report.records - report.labelled),
    )


@renders(Imported)
def _imported(out: Output, imported: Imported) -> None:
    _files("would store" if imported.dry_run else "stored").print(out, imported.reports)
    for report in imported.reports:
        _remarks(out, report, imported.counted)
        _problems(out, report)
        if report.leaks is not None:
            print_leaks(out, report.leaks)
    if not imported.reports:
        out.line("There is nothing to import.")


def _remarks(out: Output, report: ImportReport, counted: Mapping[str, frozenset[str]]) -> None:
    if report.schemas:
        out.line(f"{report.file}: {written.counts(dict(sorted(report.schemas.items())))}.")
    if report.statuses:
        out.line(f"{report.file}: by the task's reward {written.counts(dict(sorted(report.statuses.items())))}.")
    mined, synthetic = report.sources.get("mined", 0), report.sources.get("synthetic", 0)
    if mined:
        out.note(f"{report.file}: {plural(mined, 'mined label')}, not measured: `learn` reads these only with --mined.")
    if synthetic:
        out.note(f"{report.file}: {synthetic:,} decisions are synthetic, and stay marked so.")
    if report.unknown_propensity:
        out.note(
            f"{report.file}: {plural(report.unknown_propensity, 'decision')} without a probability of the action: "
            "they cannot show who earns more."
        )
    for task in report.tasks:
        if counted[task] and report.label not in counted[task] and report.labelled:
            out.note(
                f"The reward of {task!r} counts {', '.join(sorted(counted[task]))}; these rows carry {report.label}: "
                f"declare reward = {{ {report.label} = 1.0 }} in headway.toml, then headway rewards rescore {task}."
            )


def _problems(out: Output, report: ImportReport) -> None:
    for why, count in Counter(report.why_skipped).most_common(_MOST):
        out.line(f"no decision: {count:,} × {why}")
    for clash in report.clashes[:_MOST]:
        out.note(f"conflict: {report.file} line {clash.line}: {clash.message}")
    for problem in report.problems[:_MOST]:
        out.note(f"rejected: {report.file} line {problem.line}: {problem.message} {problem.cure}".rstrip())
    if report.ignored:
        fields = ", ".join(f"{name} ({count:,})" for name, count in Counter(report.ignored).most_common(_MOST))
        more = f" and {len(report.ignored) - _MOST:,} more" if len(report.ignored) > _MOST else ""
        out.line(f"fields that are not imported: {fields}{more}")
