"""`headway mutate`: applies one mutation to a prompt, chosen by the task `mutate` or by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, renders, verb, written
from headway.kits.prompts.kinds import MUTATIONS
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.prompts.mutations import Variation
    from headway.nouns import Decision


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

    text = session.read(prompt)
    decision = None
    if kind is None:
        possible = [name for name, may in zip(MUTATIONS, mutations.allowed(text), strict=True) if may]
        if not possible:
            raise errors.InvalidInput(
                "No mutation would change this prompt.", code="no_candidate", hint="It has all five mutations."
            )
        with session.project(create=True) as project:
            decision = project.decide(task, text, possible)
        kind = decision.action
    mutated = mutations.mutate(text, kind, Random(seed))
    session.show(MutatedPrompt(kind=kind, mutated=mutated, decision=decision))
    if decision is not None:
        session.next(f"headway signal {decision.id} passed=1")
    else:
        session.next("headway mutate PROMPT    (without --kind the task's policy decides)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedPrompt:
    """A prompt after one mutation, and the decision that chose it; None: it was named."""

    kind: str
    mutated: Variation
    decision: Decision | None

    def document(self) -> dict[str, Any]:
        mutated, decision = self.mutated, self.decision
        chosen: dict[str, Any] = {}
        if decision is not None:
            chosen = {"decision": decision.id, "propensity": decision.propensity, "policy": str(decision.policy)}
        return {
            "kind": self.kind,
            "text": mutated.text,
            "change": mutated.change,
            "no_op": mutated.no_op,
            "impact": asdict(mutated.impact),
            "metadata": dict(mutated.metadata),
            **chosen,
        }


@renders(MutatedPrompt)
def _mutated(out: Output, prompt: MutatedPrompt) -> None:
    out.line(prompt.mutated.text)
    out.line()
    out.note(f"{prompt.kind}: {prompt.mutated.change}." + (" It is a no-op." if prompt.mutated.no_op else ""))
    decision = prompt.decision
    if decision is not None:
        chance = written.number(decision.propensity, 2)
        out.note(f"{decision.policy} chose it with probability {chance}; decision {decision.id}.")
