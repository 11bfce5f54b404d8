"""`headway grow`: the group of commands."""

from __future__ import annotations

import click

from headway.cli import Verbs


@click.group(
    "grow",
    cls=Verbs,
    examples=("headway grow train --steps 400000", "headway grow evaluate recurrent@8743 --report report"),
)
def grow() -> None:
    """Networks that grow while they train, and policies that decide what grows."""
