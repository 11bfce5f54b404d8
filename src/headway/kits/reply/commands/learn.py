"""`headway learn` for reply tasks: --learner, and reasons of --check; `headway models export` of what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headway.cli import OptionHook, Output, Session, renders, verb
from headway.kits.reply.knobs import LEARNERS, knobs_from
from headway.kits.reply.learn.material import TrainingReadiness, readiness
from headway.kits.reply.settings import reply_settings
from headway.nouns import errors, plural

_NOT_DUE = 3


def _run(session: Session, values: dict[str, Any]) -> int | None:
    """Turn --learner into a knob; `--check` of a reply task says why nothing would be trained.

    A training that was interrupted is carried on: with the same ratings and knobs it ends with the same adapter, and
    with others its snapshot is not used.
    """
    learner = values.pop("learner")
    if learner:
        values["knobs"] = (*values["knobs"], f"learner={learner}")
    if values["task"] is None:
        return None
    with session.project() as project:
        settings = project.settings.task(values["task"])
        if settings.kind != "reply" or (values["family"] or settings.family) != "language":
            return None
        if not values["check"]:
            if not any(knob.startswith("resume=") for knob in values["knobs"]):
                values["knobs"] = (*values["knobs"], "resume=true")
            return None
        knobs = knobs_from(reply_settings(settings).learn)
        told = readiness(project, settings.name, least=knobs.least, least_of_sign=knobs.least_of_sign)
    session.show(told)
    session.next(f"headway learn {settings.name}" if told.due else f"headway chat --role {settings.name}")
    return 0 if told.due else _NOT_DUE


@renders(TrainingReadiness)
def _show(out: Output, told: TrainingReadiness) -> None:
    out.line(
        f"{'Due' if told.due else 'Not due'}: {plural(told.ratings, 'rating')} of "
        f"{told.task!r} can be trained on, {told.good:,} good and {told.bad:,} bad; {told.held_out:,} held out."
    )
    for reason in told.reasons:
        out.note(f"{reason}.")


LEARN = OptionHook(
    options=(
        click.Option(
            ["--learner"], type=click.Choice(LEARNERS),
            help="kto (from the base, on all ratings), ppo, or sft (liked replies alone).",
        ),
    ),
    run=_run,
    needed=("--family language",),
)  # fmt: skip


@verb("export", "headway models export language@4f2a ./adapter", "headway models export language@4f2a ./adapter --json")
@click.argument("policy", metavar="POLICY")
@click.argument("folder", type=click.Path(path_type=Path))
def export(session: Session, policy: str, folder: Path) -> None:
    """Write the adapter of a reply policy as a PEFT folder, for vLLM and other servers.

    The folder has adapter_config.json, adapter_model.safetensors, and headway.json with the hash of the base's weights.
    """
    from headway.kits.reply.adapters import write_peft

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
