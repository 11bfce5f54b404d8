"""`headway up`: server, loop and page, until Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from headway.cli.executable import path_line, program
from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, verb
from headway.nouns import Catalogue, catalogue, load

if TYPE_CHECKING:
    from headway.settings import Settings


@verb("up", "headway up", "headway up --demo --port 9000", extended=True, waits=True)
@click.option("--host", metavar="ADDRESS", help="By default only this machine; callers at any other address need keys.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 for any free port.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="Server processes; several need PostgreSQL.")
@click.option("--no-watch", is_flag=True, help="Only the server, without the loop that learns, proves and promotes.")
def up(
    session: Session,
    host: str | None,
    port: int | None,
    workers: int | None,
    no_watch: bool,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Start everything: the server, the loop that learns, and the page.

    Creates the project if there is none. Ctrl-C stops everything; acknowledged requests are stored.
    """  # `more`: what `_start` shows and runs, from options of kits
    from headway.settings import load as load_settings

    session.folder.mkdir(parents=True, exist_ok=True)
    settings = load_settings(session.folder)  # an error in headway.toml is shown here, not in a child's log
    kits = catalogue(settings.kits)
    needed = needed_workers(kits, settings, session.out.note)
    starting = [kits.all("workers")[name].starting for name in needed]
    settled: dict[str, Any] = {"workers": needed, "notes": [line for line in starting if line], **more}
    return _start(session, host=host, port=port, server_workers=workers, watch=not no_watch, **settled)


def needed_workers(kits: Catalogue, settings: Settings, note: Callable[[str], None]) -> dict[str, str]:
    """The modules of the workers that this project needs. A kit that fails here does not stop the others."""
    needed = {}
    for name, worker in kits.all("workers").items():
        try:
            if load(worker.needed)(settings):
                needed[name] = worker.module
        except Exception as error:  # noqa: BLE001 — a kit may raise anything
            kit = kits.owner("workers", name).name
            note(f"The worker {name!r} of the kit {kit!r} is not started: {type(error).__name__}: {error}")
    return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProject:
    """A project that is up."""

    url: str
    folder: str
    demo: bool


@renders(RunningProject)
def _running(out: Output, project: RunningProject) -> None:
    out.line(f"Headway is up at {project.url}, for the project in {project.folder}")


def _start(
    session: Session,
    *,
    host: str | None,
    port: int | None,
    server_workers: int | None,
    watch: bool,
    workers: Mapping[str, str],
    nice: int | None = None,
    demo: bool = False,
    notes: Sequence[str] = (),
    commands: Callable[[str], Sequence[str]] | None = None,
) -> int:
    """Run the processes of the folder's project until they are stopped; returns the exit status.

    `workers` names the modules of further processes; `nice` is the loop's priority.
    """
    from headway.loop import Supervisor
    from headway.serve import server_settings

    server_settings(session.folder, workers=server_workers)
    say = _printer(session)

    def ready(url: str, link: str) -> None:
        _announce(session, RunningProject(url=url, folder=str(session.folder.resolve()), demo=demo))
        if link:
            say(f"The page (this link works once): {link}")
        for line in (*notes, "Try, in another terminal:"):
            say(line)
        if line := path_line():
            say(f"  {line}")
        for command in commands(url) if commands is not None else _commands(session, url):
            say(f"  {command}")
        say("Ctrl-C stops everything.")

    supervisor = Supervisor(
        session.folder,
        say=say,
        ready=ready,
        host=host,
        port=port,
        server_workers=server_workers,
        watch=watch,
        nice=nice,
        workers=workers,
    )
    status = supervisor.run()
    say("Stopped.")
    return status


def _printer(session: Session) -> Callable[[str], None]:
    """Prints lines as they arrive; nothing with --json, whose one document is the address."""
    as_json = session.out.json

    def say(line: str) -> None:
        if not as_json:
            session.out.line(line)
            sys.stdout.flush()

    return say


def _announce(session: Session, running: RunningProject) -> None:
    """Show the address; with --json print the document now, because the caller waits for it."""
    session.show(running)
    if session.out.json:
        session.out.finish()
        session.out.json = False  # that was the one document


def first_request(settings: Settings, url: str) -> str:
    """The first decision of this project's own task, with curl."""
    import json

    task = next((task for task in settings.tasks.values() if task.kind == "choice"), None)
    ask: dict[str, object] = {"task": "route" if task is None else task.name, "text": "Summarise this page"}
    if task is None or not task.actions:
        ask["candidates"] = ["small", "large"]
    return f"curl -s {url}/v1/decisions -H 'content-type: application/json' -d {quote(json.dumps(ask))}"


def _commands(session: Session, url: str) -> list[str]:
    """The first decision and signal of this project's own task."""
    from headway.reward import is_cost
    from headway.settings import load as load_settings

    settings = load_settings(session.folder)
    task = next((task for task in settings.tasks.values() if task.kind == "choice"), None)
    if task is None:
        others = [one.traits.decides.format(task=one.name) for one in settings.tasks.values() if one.traits.decides]
        if others:
            return [session.command(others[0]), session.command("headway status")]
    signals = ("reward",) if task is None else task.required or tuple(task.guards)[:1] or ("reward",)
    values = " ".join(f"{name}={0.001 if is_cost(name) else 1}" for name in signals)
    lines = [
        first_request(settings, url),
        session.command(f"headway signal DECISION_ID {values}"),
        session.command("headway status"),
    ]
    if task is not None and set(task.actions) & set(settings.upstreams):
        lines.append(session.command(f"headway connect openai --task {task.name}"))
    name = program()
    return [line.replace("headway ", f"{name} ", 1) if line.startswith("headway ") else line for line in lines]
