"""Options of the kit: `--mask` of `headway decide`, and `--head` of `headway init --kind factored`."""

from __future__ import annotations

import json
from typing import Any

import click

from headway.cli import OptionHook, Session, pairs
from headway.nouns import errors


def _read_masks(_: Session, values: dict[str, Any]) -> None:
    """Turn `model=small,large`, or JSON such as `slot={"GROW": ["r0c0"]}`, into the masks of the decision."""
    masks: dict[str, Any] = {}
    for head, allowed in pairs(values.pop("masks"), "mask", "model=small,large").items():
        if not allowed.lstrip().startswith(("{", "[")):
            masks[head] = [name.strip() for name in allowed.split(",") if name.strip()]
            continue
        try:
            masks[head] = json.loads(allowed)
        except (ValueError, RecursionError) as error:
            raise errors.InvalidInput(
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
    run=_read_masks,
)  # fmt: skip


def _read_heads(_: Session, values: dict[str, Any]) -> None:
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
    run=_read_heads,
    needed=("--kind factored",),
)
