"""`headway explain`: one decision, taken apart; `--replay` makes it again; `--term` explains a word instead."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.output import number
from headway.cli.verb import Session, verb

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
            found = project.replay(identifier)
            session.synthetic(project, project.query.decision(found["id"]).task)
            return _replayed(session, found)
        found = project.explain(identifier)
    session.out.document(found)
    _explained(session, found)
    session.next(f"headway explain {found['id']} --replay")
    return 0


def _print_term(session: Session, name: str) -> int:
    from headway.cli.glossary import find_term

    term = find_term(name)
    session.out.document({"term": term.name, "short": term.short, "text": term.text})
    session.out.line(f"{term.name} ({term.short})" if term.short else term.name)
    session.out.line(term.text)
    return 0


def _explained(session: Session, found: dict[str, Any]) -> None:
    out = session.out
    if found["source"] == "synthetic":
        out.note("synthetic: this decision comes from a sample world.")
    shown = {
        "decision": found["id"],
        "task": found["task"],
        "at": found["at"],
        "text": _short(found["text"]),
        "state": ", ".join(f"{name}={number(value)}" for name, value in found["state"].items()),
        "episode": "" if found["episode"] is None else f"{found['episode']}, step {found['step']}",
        "role": found["role"],
        "action": f"{found['action']}, {_chosen(found['propensity'])}",
        "decided by": f"{found['policy']}: {found['why']}",
        "exploration": found["exploration"],
        "assigned to": found["assigned"],
        "confidence": number(found.get("confidence")),
        "outcome": _outcome(found),
    }
    out.fields({name: value for name, value in shown.items() if value not in ("", "–")})
    out.table(
        ("candidate", "probability", "predicted", "±"),
        [
            (row["name"], number(row["probability"]), number(row.get("predicted")), number(row.get("std")))
            for row in found["candidates"]
        ],
        right=("probability", "predicted", "±"),
    )
    if found["signals"]:
        out.table(
            ("signal", "value", "counts", "rater", "label"),
            [
                (
                    row["name"],
                    "withdrawn" if row["value"] is None else number(row["value"]),
                    number(found["parts"].get(row["name"])),
                    row["rater"],
                    row["label"],
                )
                for row in found["signals"]
            ],
            right=("value", "counts"),
        )


def _chosen(propensity: float | None) -> str:
    if propensity is None:
        return "chosen elsewhere; with which probability is not known"
    return f"chosen with probability {propensity:.4f}"


def _outcome(found: dict[str, Any]) -> str:
    outcome = found["outcome"]
    clipped = ", clipped to the task's range" if outcome["clipped"] else ""
    return f"{outcome['status']}, reward {number(outcome['reward'])}{clipped}"


def _short(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def _replayed(session: Session, found: dict[str, Any]) -> int:
    session.out.document(found)
    stored = found["stored"]
    if found["exact"] is None:
        session.out.line(f"It cannot be replayed: {found['gone']}.")
        session.next(f"headway explain {found['id']}")
        return 3
    again = found["replayed"]
    same = "exactly the same" if found["exact"] else "NOT the same"
    session.out.line(f"Replayed with {found['policy']} and seed {found['seed']}: {same}.")
    session.out.table(
        ("", "action", "propensity"),
        [(name, row["action"], f"{row['propensity']:.12g}") for name, row in (("stored", stored), ("again", again))],
        right=("propensity",),
    )
    session.next(f"headway explain {found['id']}")
    return 0 if found["exact"] else 1
