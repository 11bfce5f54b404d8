"""`headway data delete` and `retain`: delete what was recorded, permanently."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, Verbs, document_of, render, renders, verb
from headway.kits.data.fields import parse_time
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.project import DeletionReport


@click.group("data", cls=Verbs, examples=("headway data stats", "headway data import training-buffer.jsonl"))
def data() -> None:
    """Count, list, export, import and delete what was recorded."""


@verb(
    "delete", "headway data delete --rater ann --dry-run", "headway data delete --before 2026-01-01 --task route --yes"
)
@click.option("--before", metavar="TIME", help="Decisions made before this time, for example 2026-01-01.")
@click.option("--episode", metavar="NAME", help="One episode with all its decisions.")
@click.option("--rater", metavar="NAME", help="All ratings of one rater.")
@click.option("--decision", metavar="ID", help="One decision.")
@click.option("--task", metavar="TASK", help="Only in this task.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(
    session: Session,
    before: str | None,
    episode: str | None,
    rater: str | None,
    decision: str | None,
    task: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete decisions, or the ratings of a rater, with everything that depends on them. It cannot be undone.

    Rewards are computed again without the deleted rows, online policies unlearn them, and caches, the write-ahead log
    and free pages are cleared. Bundles that were learned from them are listed and kept.
    """
    from headway.nouns import ids
    from headway.observe import DeletionFilter

    wanted = DeletionFilter(
        before=None if before is None else parse_time(before),
        episode=episode,
        rater=rater,
        decision=None if decision is None else ids.parse_decision(decision),
        task=task,
    )

    def waits(why: str) -> None:
        session.out.aside(f"Waiting: {why}.")

    with session.project() as project:
        if not dry_run and not yes:
            _confirm(session, project.erase(wanted, dry_run=True, waiting=waits))
        done = project.erase(wanted, dry_run=dry_run, waiting=waits)
    session.show(done)
    if dry_run:
        options = (
            ("--before", before),
            ("--episode", episode),
            ("--rater", rater),
            ("--decision", decision),
            ("--task", task),
        )
        given = " ".join(f"{name} {quote(value)}" for name, value in options if value is not None)
        session.next(f"headway data delete {given}")
    else:
        session.next(f"headway learn {done.tasks[0]}" if done.bundles else "headway data stats")


@verb("retain", "headway data retain --dry-run", "headway data retain")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and change nothing.")
def retain(session: Session, dry_run: bool) -> None:
    """Delete what is older than `keep_days` under [store] in headway.toml; `headway watch` does so every hour."""
    with session.project() as project:
        days = project.settings.store.keep_days
        done = project.retain(dry_run=dry_run)
    session.show(Retention(days=days, deleted=done, dry_run=dry_run))
    session.next("headway data retain" if dry_run and done is not None else "headway data stats")


def _confirm(session: Session, report: DeletionReport) -> None:
    if not sys.stdin.isatty() or not session.out.terminal:
        raise errors.InvalidInput(
            f"{_counts(report)} would be deleted permanently.",
            code="not_confirmed",
            hint="Check with --dry-run, then add --yes.",
        )
    session.out.line(f"This deletes {_counts(report)} permanently. Delete your own exports and backups yourself.")
    session.out.hush()
    if not click.confirm("Delete?", err=True):
        raise errors.InvalidInput("Nothing was deleted.", code="not_confirmed")


@renders("DeletionReport")
def _deleted(out: Output, report: DeletionReport) -> None:
    out.line(f"{'Would delete' if report.dry_run else 'Deleted'} {_counts(report)}.")
    for task, policy in report.snapshots.items():
        out.line(f"{task} now {policy}: the online policy no longer includes the deleted rows.")
    if report.bundles:
        out.line(f"Learned from deleted rows, and kept: {', '.join(report.bundles)}. Learn again to replace them.")
    for file in report.remains:
        out.line(f"May still hold some of it: {file}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The rows that `keep_days` deleted; None: no row was too old."""

    days: float
    deleted: DeletionReport | None
    dry_run: bool

    def document(self) -> dict[str, Any]:
        from headway.project import DeletionReport

        return document_of(self.deleted or DeletionReport(dry_run=self.dry_run))


@renders(Retention)
def _retention(out: Output, retention: Retention) -> None:
    if retention.deleted is not None:
        render(out, retention.deleted)
    elif retention.days:
        out.line(f"Nothing is older than {retention.days:g} days.")
    else:
        out.line("`keep_days` is not set: everything is kept.")


def _counts(report: DeletionReport) -> str:
    named = {"decision": report.decisions, "signal": report.signals, "outcome": report.outcomes}
    named |= {"episode": report.episodes, "detail": report.details}
    parts = [f"{count:,} {name}{'' if count == 1 else 's'}" for name, count in named.items() if count]
    parts += [f"{report.copies:,} {'copy' if report.copies == 1 else 'copies'} elsewhere"] if report.copies else []
    return ", ".join(parts) or "nothing"


data.add_command(delete)
data.add_command(retain)
