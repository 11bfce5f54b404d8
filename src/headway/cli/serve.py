"""`headway serve`: the HTTP door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headway.cli.verb import Session, verb
from headway.nouns.errors import UnknownName

if TYPE_CHECKING:
    from headway.serve.address import Address

__all__ = ["serve"]


@verb("serve", "headway serve", "headway serve --port 0 --json")
@click.option("--host", metavar="ADDRESS", help="Where to listen; this machine alone by default.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="8765 by default; 0: any free port.")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="Processes behind the port; with PostgreSQL.")
@click.option("--no-request-log", is_flag=True, help="Do not write .headway/run/requests.log.")
def serve(session: Session, host: str | None, port: int | None, workers: int | None, no_request_log: bool) -> int:
    """Answer decisions and signals over HTTP, each durably logged.

    Prints its address once it answers, also to .headway/run/server.json. On this machine nobody needs a key to decide
    and signal; any other address asks for keys for everything (headway keys). Ctrl-C answers what is being answered,
    commits what is queued, and ends.
    """
    from headway.serve.workers import Workers, server_settings

    if not session.folder.is_dir():
        raise UnknownName(
            f"There is no folder {str(session.folder)!r}.",
            code="no_folder",
            hint="Make it first, or name another with -C.",
        )
    settings = server_settings(session.folder, host=host, port=port, workers=workers)

    def announce(address: Address, keys: bool) -> None:
        if not settings.loopback and not keys:
            session.out.note(
                "Any address but loopback asks for keys, and there is none: headway keys add NAME --scope decide"
            )
        session.out.document({**address.document, "stop": "Ctrl-C"})
        session.out.line(f"Serving {session.folder.resolve()} at {address.url}  (Ctrl-C stops it)", style="bold")
        session.out.next(
            f"curl {address.url}/v1/decisions -H 'Content-Type: application/json' "
            """-d '{"task": "route", "text": "Summarise this page", "candidates": ["small", "large"]}'"""
        )
        session.out.finish()
        session.out.json = False  # that was the one document

    if settings.workers > 1:
        return Workers(session.folder, settings, announce=announce, log_requests=not no_request_log).run()
    from headway.serve.run import serve as run

    with session.project(create=True) as project:
        return run(
            session.folder,
            host=host,
            port=port,
            announce=lambda address, guard: announce(address, bool(guard.server.keys.list())),
            log_requests=not no_request_log,
            project=project,
        )
