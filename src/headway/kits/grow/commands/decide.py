"""`headway decide`: --mask."""

from __future__ import annotations

import json
from typing import Any

import click

from headway.cli import OptionHook, Session, pairs
from headway.nouns import InvalidInput


def _run(_: Session, values: dict[str, Any]) -> None:
    """Turn `model=small,large`, or JSON such as `slot={"GROW": ["r0c0"]}`, into the masks of the decision."""
    masks: dict[str, Any] = {}
    for head, allowed in pairs(values.pop("masks"), "mask", "model=small,large").items():
        if not allowed.lstrip().startswith(("{", "[")):
            masks[head] = [name.strip() for name in allowed.split(",") if name.strip()]
            continue
        try:
            masks[head] = json.loads(allowed)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"The mask of {head!r} is not JSON: {error}.",
                code="bad_mask",
                hint='Write names, or an object such as {"GROW": ["r0c0"]}.',
            ) from None
    if masks:
        values["masks"] = masks


DECIDE = OptionHook(
    options=(
        click.Option(
            ["--mask", "masks"], multiple=True, metavar="HEAD=A,B",
            help="Factored tasks: what a head allows now, as names or JSON; repeatable.",
        ),
    ),
    run=_run,
)  # fmt: skip
