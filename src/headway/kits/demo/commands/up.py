"""`headway up --demo`: synthetic traffic in a separate project."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import click

from headway.cli import OptionHook, Session
from headway.kits.demo.planted import holds_project, prepare
from headway.settings import Settings

OWN_FOLDER = "headway-demo"


def _run(session: Session, values: dict[str, Any]) -> None:
    if not values.pop("demo"):
        return
    from headway.settings import load as load_settings

    notes = ["DEMO: all traffic is synthetic, from a sample world; no real user is involved."]
    unnamed = session.folder == Path() and not session.declared
    if unnamed or holds_project(session.folder):
        session.folder = session.folder / OWN_FOLDER
        notes.append(f"It has a folder of its own, {session.folder.resolve()}: this one stays as it is.")
    prepare(session.folder)
    port = values["port"]
    if port is None and _taken(load_settings(session.folder)):
        port = 0
        notes.append("The usual port is in use, so the demo has another one.")
    values["port"] = port
    values["more"] = {
        "workers": {"demo": "headway.kits.demo.traffic"},
        "nice": 0,  # the user is waiting for the loop
        "demo": True,
        "notes": notes,
        "commands": lambda url: [
            session.command("headway status"),
            session.command("headway report route"),
            f"curl -s {url}/v1/ledger",
        ],
    }


def _taken(settings: Settings) -> bool:
    """Whether another server listens on the port of the settings."""
    server = settings.server
    if not server.port:
        return False
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.host, server.port))
        except OSError:
            return True
    return False


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
