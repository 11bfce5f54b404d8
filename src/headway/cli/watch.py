"""`headway watch`: the background loop alone, once, or as a service."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, verb

if TYPE_CHECKING:
    from headway.loop import TaskCheck


@verb("watch", "headway watch", "headway watch --once", waits=True)
@click.option("--once", is_flag=True, help="Check every task once, do what is due, and stop.")
@click.option("--now", "whenever", is_flag=True, help="Ignore the window and idle_s settings under [watch].")
@click.option("--install", is_flag=True, help="Write a systemd unit that runs it in the background.")
@click.option("--dry-run", is_flag=True, help="With --install: print the unit, write nothing.")
def watch(session: Session, once: bool, whenever: bool, install: bool, dry_run: bool) -> int:
    """Learn, prove, and promote or wait, whenever there are enough new outcomes.

    Only one can run per project. Ctrl-C stops it; the next start repeats an interrupted step.
    """
    if dry_run and not install:
        raise click.UsageError("--dry-run needs --install.")
    if install:
        return _install(session, dry_run)
    with session.project(create=True):
        pass  # report errors in the settings or a missing folder before anything is locked
    from headway.loop import Watch

    def say(line: str) -> None:
        session.out.line(line)
        sys.stdout.flush()

    with Watch(session.folder, say=say, timed=not whenever) as loop:
        if once:
            with session.out.at_work("headway watch --once"):
                checks = loop.check()
            for teller in loop.tellers.values():
                teller.wait(teller.longest_s)
            session.show(TaskChecks(tasks=checks))
            session.next("headway status")
            return 1 if any(check.error for check in checks) else 0
        say(f"Watching {session.folder.resolve()}; Ctrl-C stops it.")
        loop.run()
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChecks:
    """One pass of the loop over every task."""

    tasks: Sequence[TaskCheck]

    def document(self) -> dict[str, Any]:
        return {
            "tasks": [
                {
                    "task": check.task,
                    "skipped": check.skipped,
                    "error": check.error,
                    "done": None if check.done is None else check.done.body(),
                }
                for check in self.tasks
            ]
        }


@renders(TaskChecks)
def _checks(out: Output, checks: TaskChecks) -> None:
    if all(check.done is None and not check.error for check in checks.tasks):
        out.line("Nothing is due.")  # the loop itself reports everything else


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """A systemd unit; `path`: where it was written."""

    unit: str
    text: str
    path: str | None = None

    def document(self) -> dict[str, Any]:
        shown = {"unit": self.unit, "text": self.text, "written": None if self.path is None else True}
        return shown if self.path is None else {**shown, "path": self.path}


@renders(ServiceUnit)
def _unit(out: Output, unit: ServiceUnit) -> None:
    if unit.path is None:
        out.raw(unit.text)
    else:
        out.line(f"{unit.path} written.")


def _install(session: Session, dry_run: bool) -> int:
    from headway.loop import service

    text, name = service.unit(session.folder), service.unit_name(session.folder)
    if dry_run:
        session.show(ServiceUnit(unit=name, text=text))
        return 0
    path = service.install(session.folder)
    session.show(ServiceUnit(unit=name, text=text, path=str(path)))
    session.out.next(f"systemctl --user daemon-reload && systemctl --user enable --now {name}")
    session.out.undo(f"systemctl --user disable --now {name} && rm {quote(str(path))}")
    return 0
