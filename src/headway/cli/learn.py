"""`headway learn`: a candidate from what has settled."""

from __future__ import annotations

import time
from typing import Any

import click

from headway.cli.output import number
from headway.cli.verb import Session, pairs, task_argument, typed, verb
from headway.nouns.checkpoint import Header

__all__ = ["learn", "values_of"]

NOT_DUE = 3


@verb("learn", "headway learn route", "headway learn --world cartpole --seed 7", extended=True)
@task_argument(required=False)
@click.option("--family", help="How the policy is built and learned; each kind of task has a default.")
@click.option("--seed", type=int, help="Makes random choices in learning reproducible.")
@click.option(
    "--set", "knobs", multiple=True, metavar="KNOB=VALUE", help="A knob of the family, for example ridge=3.0."
)
@click.option("--trust", multiple=True, metavar="FIELD", help="Use this field although it looks leaky.")
@click.option("--mined", is_flag=True, help="Read rows with mined labels too; they are left out by default.")
@click.option("--check", is_flag=True, help="Only say whether it would train: exit status 0 if it is due, 3 if not.")
def learn(
    session: Session,
    task: str | None,
    family: str | None,
    seed: int | None,
    knobs: tuple[str, ...],
    check: bool,
    mined: bool,
    trust: tuple[str, ...],
) -> int:
    """Learn a candidate policy from what has settled.

    The candidate decides nothing until it is proven and promoted.
    """
    settings: dict[str, Any] = {name: typed(value) for name, value in pairs(knobs, "knob").items()}
    if task is None:
        raise click.UsageError(
            "Name a TASK (headway learn route) or a --world to practise in (headway learn --world cartpole)."
        )
    with session.project() as project:
        if check:
            missing = project.due(task)
            session.out.document({"task": task, "due": missing == 0, "missing": missing})
            if missing:
                session.out.line(f"Not due: {missing:,} more settled decisions until {task!r} is learned again.")
                return NOT_DUE
            session.out.line(f"Due: {task!r} has enough new outcomes.")
            session.next(f"headway learn {task}")
            return 0
        begun = time.perf_counter()
        with session.out.progress() as progress:
            ref = project.learn(task, family=family, seed=seed, progress=progress, trust=trust, mined=mined, **settings)
        taken = time.perf_counter() - begun
        header = project.registry.header(project.registry.find(ref))
        step = project.next_step(task, ref)
        made_up = session.synthetic(project, task)
    count = sum(header.trained_on.get("sources", {}).values())
    session.out.document(
        {
            "task": task,
            "policy": ref,
            "family": header.family,
            "parameters": header.parameters,
            "seed": header.seed,
            "trained_on": dict(header.trained_on),
            "metrics": dict(header.metrics),
            "baselines": dict(header.baselines),
            "synthetic": made_up,
        }
    )
    session.out.line(f"{ref}  learned from {count:,} decisions in {taken:.1f} s, seed {header.seed}.", style="bold")
    for each in header.trained_on.get("left_out", ()):
        session.out.note(f"left out: {each} gives the outcome away (`headway data leaks {task}` shows how).")
    values = values_of(ref, header)
    if values:
        session.out.line("On the rows kept for tuning (no evidence: `prove` has rows of its own):")
        session.out.table(("policy", "value"), [(name, number(value)) for name, value in values], right=("value",))
    session.next(step.command)
    return 0


def values_of(ref: str, header: Header) -> list[tuple[str, float]]:
    """The learner's own estimate of its candidate, beside the baselines that it was measured with."""
    own = [(ref, header.metrics["tune_value"])] if "tune_value" in header.metrics else []
    others = [(name.replace("_", " "), value) for name, value in header.baselines.items()]
    return own + [(name, value) for name, value in others if not name.startswith("error ")]
