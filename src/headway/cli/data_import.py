"""`headway data import`, `mine`, `transform`, `leaks`: history from elsewhere, and what in it gives outcomes away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.format import number
from headway.cli.verb import Session, pairs, quoted, task_argument, verb

if TYPE_CHECKING:
    from headway.project import ImportReport
    from headway.prove.leaks import Leaks

__all__ = ["import_", "leaks", "mine", "show_leaks", "transform"]

_SHOWN = 10  # problems, conflicts and fields that are listed; --json has up to a hundred
_JOURNALS = ("*.jsonl", ".jfl/journal/*.jsonl", ".jfl/map-events.jsonl", ".jfl/service-events.jsonl", "journal/*.jsonl")


@verb(
    "import",
    "headway data import training-buffer.jsonl",
    "headway data import log.csv --task route --map action=model --map reward=score --map propensity=unknown",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--format", "form", default="auto", show_default=True, help="By what the file looks like, or by name.")
@click.option("--task", metavar="TASK", help="The task that the decisions belong to; each format has one of its own.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="OURS=THEIRS",
    help="Which column is our text, action, reward, propensity, state.NAME, signal.NAME, …; repeat for several.",
)
@click.option("--candidates", default="", metavar="A,B", help="What could be chosen, where the rows do not say.")
@click.option("--dry-run", is_flag=True, help="Only report; store nothing. Exit status 1 if a line is wrong.")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="Store nothing of a file with a bad line, or everything else of it.",
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
    """Bring in history from elsewhere: logs, training buffers, journals, tables.

    The same file again adds nothing, and a run that was killed is finished by the next one. What a file does not say,
    above all the probability of its actions, stays unknown: it can be learned from, and nothing is proven with it.
    """
    columns = pairs(mapping, "column")
    named = [each.strip() for each in candidates.split(",") if each.strip()]
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
        counted = {name: project.rewards(name).signals for report in reports for name in report.tasks}
    return _reported(session, reports, counted)


@verb("mine", "headway data mine .jfl/journal/*.jsonl", "headway data mine ../project --dry-run")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--task", metavar="TASK", help="The task that the decisions belong to; next-action by default.")
@click.option("--dry-run", is_flag=True, help="Only report; store nothing.")
def mine(session: Session, paths: tuple[Path, ...], task: str | None, dry_run: bool) -> int:
    """Mine weak labels from jfl journals and events; a folder is searched for them.

    They are marked as mined, by source and by rater. Nothing is proven with them, and `headway learn` reads them only
    when it is told to (--mined).
    """
    from headway.observe.ingest.formats import detect

    files = list(_journals(paths))
    reports = []
    with session.project(create=not dry_run) as project, session.out.progress() as progress:
        for path in files:
            found = detect(path, project.catalogue.all_formats())
            if not found.weak:
                session.out.note(
                    f"{path}: {found.name} is measured, not mined: headway data import {quoted(str(path))}"
                )
                continue
            reports.append(
                project.import_file(
                    path, format=found.name, task=task, dry_run=dry_run, on_error="skip", progress=progress
                )
            )
        counted = {name: project.rewards(name).signals for report in reports for name in report.tasks}
    return _reported(session, reports, counted)


def _journals(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted({each for pattern in _JOURNALS for each in path.glob(pattern) if each.is_file()})
        else:
            yield path


@verb("leaks", "headway data leaks next-action", "headway data leaks route --json")
@task_argument()
@click.option("--mined", is_flag=True, help="Look at rows with mined labels too.")
def leaks(session: Session, task: str, mined: bool) -> int:
    """Which fields give the outcome away, and what else would flatter a policy.

    Exit status 1 if a field does. `headway learn` leaves such fields out by itself.
    """
    from headway.project import leaks_document

    with session.project() as project:
        found = project.leaks(task, mined=mined)
    session.out.document({"task": task, **leaks_document(found)})
    show_leaks(session, found)
    if found.found:
        session.next(f"headway learn {task}")
        return 1
    session.out.line(f"No field of {task!r} gives the outcome away ({found.labelled:,} rows looked at).")
    session.next(f"headway learn {task}")
    return 0


@verb(
    "transform",
    "headway data transform next-action --out training.jsonl",
    "headway data transform route --out route.jsonl --mined --json",
)
@task_argument()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE", help="To this file."
)
@click.option("--mined", is_flag=True, help="With the rows that have mined labels.")
@click.option("--trust", multiple=True, metavar="FIELD", help="Keep this field although it looks leaky.")
@click.option("--force", is_flag=True, help="Overwrite the file if there is one.")
def transform(session: Session, task: str, out: Path, mined: bool, trust: tuple[str, ...], force: bool) -> None:
    """Write what `learn` reads: one JSON object per row, leaky fields left out, with its part of the split."""
    with session.project() as project, session.out.progress() as progress:
        written = project.transform(task, out, mined=mined, trust=trust, overwrite=force, progress=progress)
    session.out.document(written.document())
    session.out.line(
        f"{out}  {written.rows:,} rows: {', '.join(f'{n:,} {part}' for part, n in written.parts.items())}."
    )
    for field in written.left_out:
        session.out.note(f"left out: {field} gives the outcome away.")
    session.next(f"headway learn {task}")


# -- what people read


def _reported(session: Session, reports: list[ImportReport], counted: dict[str, frozenset[str]]) -> int:
    session.out.document({"files": [report.document() for report in reports]})
    dry = any(each.dry_run for each in reports)
    session.out.table(
        ("file", "format", "read", "would store" if dry else "stored", *_FATES, "with label", "without"),
        [
            (
                each.file,
                each.format,
                *(number(getattr(each, name)) for name in ("read", "stored", *_COUNTED)),
                number(each.labelled),
                number(each.records - each.labelled),
            )
            for each in reports
        ],
        right=("read", "would store", "stored", *_FATES, "with label", "without"),
    )
    for report in reports:
        _details(session, report, counted)
    if not reports:
        session.out.line("There is nothing to import.")
        return 1
    tasks = sorted({name for report in reports for name in report.tasks})
    if dry:
        session.next(f"headway data import {' '.join(quoted(each.file) for each in reports)}")
    elif tasks:
        session.next(f"headway data stats {tasks[0]}")
    return 1 if dry and any(report.rejected for report in reports) else 0


_COUNTED = ("already", "late", "conflicts", "rejected", "skipped")
_FATES = ("already there", "late", "conflicts", "rejected", "no decision")


def _details(session: Session, report: ImportReport, counted: dict[str, frozenset[str]]) -> None:
    out = session.out
    if report.schemas:
        out.line(f"{report.file}: {', '.join(f'{count:,} {name}' for name, count in sorted(report.schemas.items()))}.")
    if report.statuses:
        shares = ", ".join(f"{count:,} {name}" for name, count in sorted(report.statuses.items()))
        out.line(f"{report.file}: by the task's reward {shares}.")
    weak = report.sources.get("mined", 0)
    if weak:
        out.note(f"{report.file}: {weak:,} labels are mined, not measured; `learn` reads them only with --mined.")
    made_up = report.sources.get("synthetic", 0)
    if made_up:
        out.note(f"{report.file}: {made_up:,} decisions are synthetic, and stay marked so.")
    if report.unknown_propensity:
        out.note(
            f"{report.file}: {report.unknown_propensity:,} decisions do not say how likely their action was: "
            "nothing is proven with them."
        )
    for name in report.tasks:
        if counted[name] and report.label not in counted[name] and report.labelled:
            out.note(
                f"The reward of {name!r} counts {', '.join(sorted(counted[name]))}; these rows carry {report.label}: "
                f"declare reward = {{ {report.label} = 1.0 }} in headway.toml, then headway rewards rescore {name}."
            )
    for why, count in Counter(report.why_skipped).most_common(_SHOWN):
        out.line(f"no decision: {count:,} × {why}")
    for clash in report.clashes[:_SHOWN]:
        out.note(f"conflict: {report.file} line {clash.line}: {clash.message}")
    for problem in report.problems[:_SHOWN]:
        out.note(f"rejected: {report.file} line {problem.line}: {problem.message} {problem.cure}".rstrip())
    if report.ignored:
        fields = ", ".join(f"{name} ({count:,})" for name, count in Counter(report.ignored).most_common(_SHOWN))
        more = f" and {len(report.ignored) - _SHOWN:,} more" if len(report.ignored) > _SHOWN else ""
        out.line(f"fields without a place: {fields}{more}")
    if report.leaks is not None:
        show_leaks(session, report.leaks)


def show_leaks(session: Session, found: Leaks) -> None:
    """A table of leaky fields, and the counts beside it."""
    if found.found:
        session.out.table(
            ("leaky field", "where", "how", "label", "rows", "of"),
            [
                (each.field, each.where, each.kind, each.label, number(each.hits), number(each.rows))
                for each in found.found
            ],
            right=("rows", "of"),
        )
        session.out.note(
            f"leak: {found.flagged:,} of {found.labelled:,} labelled rows give their outcome away; "
            f"learning leaves {', '.join(found.fields)} out."
        )
    if found.backwards:
        session.out.note(f"clock: {found.backwards:,} outcomes are dated before their decision.")
    if found.twins:
        session.out.note(
            f"duplicates: {found.twins:,} rows kept for proving have a text that is trained on too "
            f"({found.exact_twins:,} letter by letter)."
        )
