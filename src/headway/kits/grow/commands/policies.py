"""The policies that `headway grow evaluate` and `ablate` name: refs of the project, or files."""

from __future__ import annotations

import json
import os
from pathlib import Path

from headway.cli import Session
from headway.files import open_regular
from headway.kits.grow.morph.space import SPACE
from headway.kits.grow.policy import RecurrentPolicy, read
from headway.nouns import Damaged, InvalidInput


def named_policies(session: Session, refs: tuple[str, ...]) -> dict[str, RecurrentPolicy]:
    """Policies by name: `recurrent@8743`, or a file NAME.safetensors with the shape in its header."""
    if not refs:
        raise InvalidInput(
            "No policy was named.", code="nothing_named", hint="Name one, for example recurrent@8743, or a file."
        )
    loaded = {}
    for ref in refs:
        policy = load_policy(Path(ref)) if ref.endswith(".safetensors") else _registered(session, ref)
        if policy.space != SPACE:
            raise InvalidInput(
                f"{ref} does not act in the world morph: its heads are {', '.join(policy.space.names)}, "
                f"not {', '.join(SPACE.names)}.",
                code="bad_shape",
                hint="Name a policy of `headway grow train`.",
            )
        loaded[ref] = policy
    return loaded


def _registered(session: Session, ref: str) -> RecurrentPolicy:
    with session.project() as project:
        digest = project.registry.find(ref)
        header = project.registry.header(digest)
        if header.family != "recurrent":
            raise InvalidInput(
                f"{ref} is of the family {header.family}, not recurrent.",
                code="bad_shape",
                hint="Name a policy of `headway grow train`.",
            )
        header, tensors = project.registry.load(digest, task=header.task)
    return read(header.knobs, tensors, header.extra)


def load_policy(path: Path) -> RecurrentPolicy:
    """A policy in a safetensors file whose header has `extra` and `knobs` as JSON."""
    from safetensors import SafetensorError, safe_open

    try:
        os.close(open_regular(path, follow=True))  # safetensors would wait for a pipe
        with safe_open(path, framework="numpy") as file:
            told = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — not a mapping
        return read(json.loads(told["knobs"]), tensors, json.loads(told["extra"]))
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise Damaged(
            f"{str(path)!r} is not a policy: {error}.",
            code="bundle_damaged",
            hint="Name a policy of the project, for example recurrent@8743.",
        ) from error
