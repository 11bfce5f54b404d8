"""`headway init --kind factored`: --head."""

from __future__ import annotations

from typing import Any

import click

from headway.cli import OptionHook, Session, pairs


def _run(_: Session, values: dict[str, Any]) -> None:
    """Turn --head into the key `heads` of the task."""
    heads = pairs(values.pop("heads"), "head", "op=ANSWER,STOP")
    if heads and values["kind"] != "factored":
        raise click.UsageError("--head needs --kind factored.")
    if values["kind"] == "factored" and (not heads or values["actions"]):
        raise click.UsageError("--kind factored needs --head NAME=A,B,… for every head, and takes no --actions.")
    if heads:
        listed = {name: [choice.strip() for choice in choices.split(",")] for name, choices in heads.items()}
        values["keys"] = {"heads": listed}


INIT = OptionHook(
    options=(
        click.Option(
            ["--head", "heads"], multiple=True, metavar="NAME=A,B,…", help="A head and its choices; the first leads."
        ),
    ),
    run=_run,
    needed=("--kind factored",),
)
