"""`headway up --demo`: synthetic traffic in a separate project."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.verb import OptionHook, Session
from headway.kits.demo.planted import prepare

__all__ = ["UP"]


def _run(session: Session, values: dict[str, Any]) -> int | None:
    if not values.pop("demo"):
        return None
    from headway.cli.up import start

    session.folder.mkdir(parents=True, exist_ok=True)
    prepare(session.folder)
    return start(
        session,
        host=values["host"],
        port=values["port"],
        server_workers=values["workers"],
        watch=not values["no_watch"],
        workers={"demo": "headway.kits.demo.traffic"},
        nice=0,  # the user is waiting for the loop
        demo=True,
        notes=["DEMO: all traffic is synthetic, from a sample world; no real user is involved."],
        commands=lambda url: [
            session.command("headway status"),
            session.command("headway report route"),
            f"curl -s {url}/v1/ledger",
        ],
    )


UP = OptionHook(
    options=(
        click.Option(
            ["--demo"],
            is_flag=True,
            help="Run with synthetic traffic in a separate folder; everything is marked synthetic.",
        ),
    ),
    run=_run,
)
