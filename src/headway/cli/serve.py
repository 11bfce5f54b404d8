"""`headway serve`: the HTTP server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, verb

if TYPE_CHECKING:
    from headway.serve import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that answers, and how to stop it."""

    folder: Path
    address: Address

    def document(self) -> dict[str, Any]:
        return {**self.address.document, "stop": "Ctrl-C"}


@renders(RunningServer)
def _running(out: Output, server: RunningServer) -> None:
    out.line(f"Serving {server.folder} at {server.address.url}  (Ctrl-C stops it)", style="bold")


@verb("serve", "headway serve", "headway serve --port 0 --json", waits=True)
@click.option("--host", metavar="ADDRESS", help="The address to listen on; by default only this machine.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="8765 by default, 0 for any free port.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="Server processes; several need PostgreSQL.")
@click.option("--no-request-log", is_flag=True, help="Do not write .headway/run/requests.log.")
def serve(session: Session, host: str | None, port: int | None, workers: int | None, no_request_log: bool) -> int:
    """Serve decisions and signals over HTTP; every one is durably logged.

    Prints its address once it answers, and writes it to .headway/run/server.json. On this machine, deciding and
    signalling need no key; at any other address every request needs one (headway keys). Ctrl-C finishes open requests,
    commits what is queued, and stops.
    """
    from headway.cli.up import first_request
    from headway.serve import Workers, server_settings
    from headway.settings import load as load_settings

    session.need_folder()
    settings = server_settings(session.folder, host=host, port=port, workers=workers)

    def announce(address: Address, keys: bool) -> None:
        if not settings.loopback and not keys:
            session.out.note(
                "Callers at this address need a key, and there is none yet: headway keys add NAME --scope decide"
            )
        session.show(RunningServer(folder=session.folder.resolve(), address=address))
        session.out.next(first_request(load_settings(session.folder), address.url))
        session.out.finish()
        session.out.json = False  # that was the one document

    if settings.workers > 1:
        return Workers(session.folder, settings, announce=announce, log_requests=not no_request_log).run()
    from headway.serve import serve as run

    with session.project(create=True) as project:
        return run(
            session.folder,
            host=host,
            port=port,
            announce=lambda address, guard: announce(address, bool(guard.server.keys.list())),
            log_requests=not no_request_log,
            project=project,
        )
