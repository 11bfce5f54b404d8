"""`headway sim`: the group of commands."""

from __future__ import annotations

import click

from headway.cli import Verbs


@click.group(
    "sim",
    cls=Verbs,
    examples=("headway sim generate --out problems.jsonl", "headway sim import HumanEval.jsonl.gz --out ours.jsonl"),
)
def sim() -> None:
    """Programming problems with known solutions, solvers, and policies that practise on them."""
