"""`headway models export`: the adapter of a policy as a PEFT folder."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli import Session, verb
from headway.kits.reply.adapters import write_peft
from headway.nouns import errors


@verb("export", "headway models export language@4f2a ./adapter", "headway models export language@4f2a ./adapter --json")
@click.argument("policy", metavar="POLICY")
@click.argument("folder", type=click.Path(path_type=Path))
def export(session: Session, policy: str, folder: Path) -> None:
    """Write the adapter of a reply policy as a PEFT folder, for vLLM and other servers.

    The folder has adapter_config.json, adapter_model.safetensors, and headway.json with the hash of the base's weights.
    """
    with session.project() as project:
        digest = project.registry.find(policy)
        header = project.registry.header(digest)
        if header.family != "language":
            raise errors.InvalidInput(
                f"{policy} is of the family {header.family!r} and has no adapter.",
                code="no_adapter",
                hint="Name a policy of a reply task, for example language@4f2a.",
            )
        tensors = project.registry.load(digest, task=header.task)[1]
        written = write_peft(tensors, header.extra, folder)
    session.out.document({"policy": policy, "folder": str(written), "base": header.extra["base"]})
    session.out.line(f"{policy} is in {written}. Its base: {header.extra.get('base_name', '')}.")
