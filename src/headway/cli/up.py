"""`headway up`: server, loop and page, until Ctrl-C."""

from __future__ import annotations

import sys

import click

from headway.cli.verb import Session, verb

__all__ = ["up"]


@verb("up", "headway up", "headway up --demo --port 9000")
@click.option("--host", metavar="ADDRESS", help="This machine alone by default; any other address asks for keys.")
@click.option("--port", type=click.IntRange(0, 65535), help="Where to listen; 0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="Server processes; with PostgreSQL.")
@click.option("--demo", is_flag=True, help="With made-up traffic, in a folder of its own; all marked synthetic.")
@click.option("--no-watch", is_flag=True, help="Only the server; learn, prove and promote by hand.")
def up(session: Session, host: str | None, port: int | None, workers: int | None, demo: bool, no_watch: bool) -> int:
    """Start everything: the server, the loop that learns, and the page.

    Where a task is answered by a local language model, also the worker that holds it. Makes the project if there is
    none. Ctrl-C stops everything; what was acknowledged is kept.
    """
    from headway.loop.supervisor import Supervisor
    from headway.serve.workers import server_settings

    session.folder.mkdir(parents=True, exist_ok=True)
    started: dict[str, str] = {}
    if demo:
        from headway.loop.demo import prepare

        prepare(session.folder)
        started["demo"] = "headway.loop.traffic"
    else:
        from headway.settings import load

        settings = load(session.folder)  # what is wrong with headway.toml is said here, not in a child's log
        if any(each.kind == "reply" or each.model for each in settings.tasks.values()):
            started["worker"] = "headway.loop.work"

    server_settings(session.folder, workers=workers)
    as_json = session.out.json

    def say(line: str) -> None:
        if as_json:
            return
        session.out.line(line)
        sys.stdout.flush()

    def ready(url: str, link: str) -> None:
        session.out.document({"url": url, "folder": str(session.folder.resolve()), "demo": demo})
        if as_json:  # whoever started it waits for the address: say it now
            session.out.finish()
            session.out.json = False  # that was the one document
        say(f"Headway is up at {url}, for the project in {session.folder.resolve()}")
        if link:
            say(f"The page (this link works once): {link}")
        if demo:
            say("DEMO: all traffic is synthetic, from a sample world; nothing here was said by users.")
        say("Try, in another terminal:")
        for each in _commands(session, url, demo):
            say(f"  {each}")
        say("Ctrl-C stops everything.")

    supervisor = Supervisor(
        session.folder,
        say=say,
        ready=ready,
        host=host,
        port=port,
        server_workers=workers,
        watch=not no_watch,
        nice=0 if demo else None,  # whoever watches a demo waits for the loop
        workers=started,
    )
    status = supervisor.run()
    say("Stopped.")
    return status


def _commands(session: Session, url: str, demo: bool) -> list[str]:
    if demo:
        return [
            session.command("headway status"),
            session.command("headway report route"),
            f"curl -s {url}/v1/ledger",
        ]
    body = '{"task": "route", "text": "Summarise this page", "candidates": ["small", "large"]}'
    return [
        f"curl -s {url}/v1/decisions -H 'content-type: application/json' -d '{body}'",
        session.command("headway signal DECISION_ID reward=1"),
        session.command("headway status"),
    ]
