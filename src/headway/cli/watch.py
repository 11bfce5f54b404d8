"""`headway watch`: the background loop alone, once, or as a service."""

from __future__ import annotations

import sys

import click

from headway.cli.verb import Session, quoted, verb

__all__ = ["watch"]


@verb("watch", "headway watch", "headway watch --once")
@click.option("--once", is_flag=True, help="Look once at every task, do what is due, and end.")
@click.option("--now", "whenever", is_flag=True, help="Whatever the hour: leave [watch]'s window and idle_s aside.")
@click.option("--install", is_flag=True, help="Write a systemd unit that runs it in the background.")
@click.option("--dry-run", is_flag=True, help="With --install: show the unit, write nothing.")
def watch(session: Session, once: bool, whenever: bool, install: bool, dry_run: bool) -> int:
    """Learn, prove, and promote or wait, whenever enough has come in.

    One at a time per project. Ctrl-C ends it; what it had begun is done again at the next start.
    """
    if dry_run and not install:
        raise click.UsageError("--dry-run needs --install.")
    if install:
        return _install(session, dry_run)
    with session.project(create=True):
        pass  # a clear message about settings or a missing folder, before anything is locked
    from headway.loop.watch import Watch

    def say(line: str) -> None:
        session.out.line(line)
        sys.stdout.flush()

    with Watch(session.folder, say=say, timed=not whenever) as looking:
        if once:
            looked = looking.look()
            session.out.document(
                {
                    "tasks": [
                        {
                            "task": each.task,
                            "skipped": each.skipped,
                            "error": each.error,
                            "done": None if each.done is None else each.done.body(),
                        }
                        for each in looked
                    ]
                }
            )
            if all(each.done is None and not each.error for each in looked):
                session.out.line("Nothing is due.")
            session.next("headway status")
            return 1 if any(each.error for each in looked) else 0
        say(f"Watching {session.folder.resolve()}; Ctrl-C ends it.")
        looking.run()
    return 0


def _install(session: Session, dry_run: bool) -> int:
    from headway.loop import service

    text, name = service.unit(session.folder), service.unit_name(session.folder)
    document = {"unit": name, "text": text, "written": None if dry_run else True}
    if dry_run:
        session.out.document(document)
        session.out.raw(text)
        return 0
    path = service.install(session.folder)
    session.out.document({**document, "path": str(path)})
    session.out.line(f"{path} written.")
    session.out.next(f"systemctl --user daemon-reload && systemctl --user enable --now {name}")
    session.out.undo(f"systemctl --user disable --now {name} && rm {quoted(str(path))}")
    return 0
