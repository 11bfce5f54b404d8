"""`headway mutate`: applies one mutation to a prompt, chosen by the task `mutate` or by name."""

from __future__ import annotations

from random import Random

import click

from headway.cli.decide import read_text
from headway.cli.verb import Session, verb
from headway.kits.prompts import MUTATIONS
from headway.nouns.errors import InvalidInput

__all__ = ["mutate"]


@verb(
    "mutate",
    'headway mutate "Please could you write a slogan for a bakery?"',
    'headway mutate "Review this function" --kind constraint-addition --json',
)
@click.argument("prompt")
@click.option("--kind", type=click.Choice(MUTATIONS), help="Which mutation; without it, the task's policy decides.")
@click.option("--task", default="mutate", show_default=True, help="The task whose policy decides.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Chooses among wordings.")
def mutate(session: Session, prompt: str, kind: str | None, task: str, seed: int) -> None:
    """Change a prompt in one of five ways; what would change nothing is not offered.

    PROMPT is the text; "-" reads it from standard input. Nothing is logged where --kind names the mutation.
    """
    from headway.kits.prompts import mutations

    text = read_text(prompt)
    if kind is None:
        possible = [name for name, may in zip(MUTATIONS, mutations.allowed(text), strict=True) if may]
        if not possible:
            raise InvalidInput(
                "No mutation would change this prompt.", code="no_candidate", hint="It has all five mutations."
            )
        with session.project(create=True) as project:
            made = project.decide(task, text, possible)
        kind, told = made.action, {"decision": made.id, "propensity": made.propensity, "policy": str(made.policy)}
    else:
        told = {}
    variation = mutations.mutate(text, kind, Random(seed))
    out = session.out
    out.line(variation.text)
    out.line()
    out.note(f"{kind}: {variation.change}." + (" It is a no-op." if variation.no_op else ""))
    if told:
        out.note(f"{told['policy']} chose it with probability {told['propensity']:.2f}; decision {told['decision']}.")
    out.document(
        {
            "kind": kind,
            "text": variation.text,
            "change": variation.change,
            "no_op": variation.no_op,
            "impact": {
                "quality": variation.impact.quality,
                "cost": variation.impact.cost,
                "latency": variation.impact.latency,
                "reliability": variation.impact.reliability,
            },
            "metadata": dict(variation.metadata),
            **told,
        }
    )
    if told:
        session.next(f"headway signal {told['decision']} passed=1")
    else:
        session.next("headway mutate PROMPT    (without --kind the task's policy decides)")
