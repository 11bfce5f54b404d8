"""`headway data delete` and `headway data retain`: for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from headway.cli.times import moment
from headway.cli.verb import Session, quoted, verb
from headway.nouns.errors import InvalidInput

if TYPE_CHECKING:
    from headway.project import DeletionReport

__all__ = ["delete", "retain"]


@verb(
    "delete", "headway data delete --rater ann --dry-run", "headway data delete --before 2026-01-01 --task route --yes"
)
@click.option("--before", metavar="TIME", help="Decisions made before this time, for example 2026-01-01.")
@click.option("--episode", metavar="NAME", help="One episode with all its decisions.")
@click.option("--rater", metavar="NAME", help="Everything that one rater said.")
@click.option("--decision", metavar="ID", help="One decision.")
@click.option("--task", metavar="TASK", help="Only in this task.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
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
    """Delete decisions, or what a rater said, with everything that hangs on them. It cannot be undone.

    Rewards settle again as if it had never been there, online policies take back what they learned from it, caches, the
    write-ahead log and free pages are emptied. Bundles that were learned from it are listed, and stay.
    """
    from headway.nouns.ids import parse_decision_id
    from headway.observe.erase import DeletionFilter

    wanted = DeletionFilter(
        before=None if before is None else moment(before),
        episode=episode,
        rater=rater,
        decision=None if decision is None else parse_decision_id(decision),
        task=task,
    )
    with session.project() as project:
        if not dry_run and not yes:
            found = project.erase(wanted, dry_run=True)
            _confirmed(session, found)
        done = project.erase(wanted, dry_run=dry_run)
    _tell(session, done)
    if dry_run:
        given = (
            ("--before", before),
            ("--episode", episode),
            ("--rater", rater),
            ("--decision", decision),
            ("--task", task),
        )
        words = " ".join(f"{name} {quoted(value)}" for name, value in given if value is not None)
        session.next(f"headway data delete {words}")
    else:
        session.next(f"headway learn {done.tasks[0]}" if done.bundles else "headway data stats")


@verb("retain", "headway data retain --dry-run", "headway data retain")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
def retain(session: Session, dry_run: bool) -> None:
    """Delete what is older than `keep_days` under [store] in headway.toml; `headway watch` does it by itself."""
    from headway.project import DeletionReport

    with session.project() as project:
        days = project.settings.store.keep_days
        done = project.retain(dry_run=dry_run)
    if done is None:
        session.out.document(DeletionReport(dry_run=dry_run).document())
        session.out.line(f"Nothing is older than {days:g} days." if days else "Nothing is said about how long to keep.")
        session.next("headway data stats")
        return
    _tell(session, done)
    session.next("headway data retain" if dry_run else "headway data stats")


def _confirmed(session: Session, found: DeletionReport) -> None:
    if not sys.stdin.isatty() or not session.out.terminal:
        raise InvalidInput(
            f"{_counts(found)} would be deleted for good.",
            code="not_confirmed",
            hint="Look first with --dry-run, then add --yes.",
        )
    session.out.line(f"This deletes {_counts(found)} for good. Exports and backups that you made are yours to delete.")
    if not click.confirm("Delete?", err=True):
        raise InvalidInput("Nothing was deleted.", code="not_confirmed")


def _tell(session: Session, done: DeletionReport) -> None:
    session.out.document(done.document())
    session.out.line(f"{'Would delete' if done.dry_run else 'Deleted'} {_counts(done)}.")
    for task, policy in done.snapshots.items():
        session.out.line(f"{task} now {policy}: the online policy took back what it had learned from them.")
    if done.bundles:
        session.out.line(
            f"Learned from deleted rows, and kept: {', '.join(done.bundles)}. Learn again to replace them."
        )
    for each in done.remains:
        session.out.line(f"May still hold some of it: {each}.")


def _counts(done: DeletionReport) -> str:
    named = [
        (done.decisions, "decision"),
        (done.signals, "signal"),
        (done.outcomes, "outcome"),
        (done.episodes, "episode"),
        (done.details, "detail"),
    ]
    parts = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in named if count]
    return ", ".join(parts) or "nothing"
