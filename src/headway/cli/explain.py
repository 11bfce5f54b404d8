"""`headway explain`: one decision, taken apart; `--replay` makes it again; `--term` explains a word instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headway.cli.output import number
from headway.cli.verb import Session, verb

if TYPE_CHECKING:
    from headway.nouns.explanation import Explanation, Replay
    from headway.nouns.records import Outcome

__all__ = ["explain"]


@verb(
    "explain",
    "headway explain dec_0197c1f2a3b47000a1b2c3d4e5f60718",
    "headway explain --term propensity",
)
@click.argument("identifier", metavar="[ID]", default="")
@click.option("--replay", is_flag=True, help="Ask the same policy the same question again, and compare.")
@click.option("--term", metavar="NAME", help="Print what a term means, from the glossary. Needs no project.")
def explain(session: Session, identifier: str, replay: bool, term: str | None) -> int:
    """Who made a decision, why, with which probabilities, and how it went.

    With --replay the exit status is 1 if action or probabilities come out differently, 3 if something of the decision
    is gone.
    """
    if bool(identifier) == (term is not None):
        raise click.UsageError("Name a decision (headway explain ID) or a term (headway explain --term NAME).")
    if term is not None:
        return _print_term(session, term)
    with session.project() as project:
        if replay:
            replayed = project.replay(identifier)
            session.synthetic(project, project.query.decision(replayed.id).task)
            return _replayed(session, replayed)
        explanation = project.explain(identifier)
    session.out.document(explanation.document())
    _explained(session, explanation)
    session.next(f"headway explain {explanation.id} --replay")
    return 0


def _print_term(session: Session, name: str) -> int:
    from headway.cli.glossary import find_term

    term = find_term(name)
    session.out.document({"term": term.name, "short": term.short, "text": term.text})
    session.out.line(f"{term.name} ({term.short})" if term.short else term.name)
    session.out.line(term.text)
    return 0


def _explained(session: Session, explanation: Explanation) -> None:
    out = session.out
    if explanation.source == "synthetic":
        out.note("synthetic: this decision comes from a sample world.")
    shown = {
        "decision": explanation.id,
        "task": explanation.task,
        "at": explanation.at,
        "text": _short(explanation.text),
        "state": ", ".join(f"{name}={number(value)}" for name, value in explanation.state.items()),
        "episode": "" if explanation.episode is None else f"{explanation.episode}, step {explanation.step}",
        "role": explanation.role,
        "action": f"{explanation.action}, {_chosen(explanation.propensity)}",
        "decided by": f"{explanation.policy}: {explanation.why}",
        "exploration": explanation.exploration,
        "assigned to": explanation.assigned,
        "confidence": number(explanation.confidence),
        "outcome": _outcome(explanation.outcome),
    }
    out.fields({name: value for name, value in shown.items() if value not in ("", "–")})
    out.table(
        ("candidate", "probability", "predicted", "±"),
        [
            (candidate.name, number(candidate.probability), number(candidate.predicted), number(candidate.std))
            for candidate in explanation.candidates
        ],
        right=("probability", "predicted", "±"),
    )
    if explanation.signals:
        out.table(
            ("signal", "value", "counts", "rater", "label"),
            [
                (
                    signal.name,
                    "withdrawn" if signal.value is None else number(signal.value),
                    number(explanation.parts.get(signal.name)),
                    signal.rater,
                    signal.label,
                )
                for signal in explanation.signals
            ],
            right=("value", "counts"),
        )


def _chosen(propensity: float | None) -> str:
    if propensity is None:
        return "chosen elsewhere; with which probability is not known"
    return f"chosen with probability {propensity:.4f}"


def _outcome(outcome: Outcome) -> str:
    clipped = ", clipped to the task's range" if outcome.clipped else ""
    return f"{outcome.status}, reward {number(outcome.reward)}{clipped}"


def _short(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def _replayed(session: Session, replay: Replay) -> int:
    session.out.document(replay.document())
    again = replay.replayed
    if again is None:
        session.out.line(f"It cannot be replayed: {replay.gone}.")
        session.next(f"headway explain {replay.id}")
        return 3
    same = "exactly the same" if replay.exact else "NOT the same"
    session.out.line(f"Replayed with {replay.policy} and seed {replay.seed}: {same}.")
    session.out.table(
        ("", "action", "propensity"),
        [
            (name, drawn.action, f"{drawn.propensity:.12g}")
            for name, drawn in (("stored", replay.stored), ("again", again))
        ],
        right=("propensity",),
    )
    session.next(f"headway explain {replay.id}")
    return 0 if replay.exact else 1
