"""`headway signal`: how it went."""

from __future__ import annotations

import click

from headway.cli.format import number
from headway.cli.verb import Session, pairs, quoted, verb
from headway.nouns.errors import InvalidInput
from headway.nouns.ids import is_episode, parse_decision_id

__all__ = ["signal"]


@verb(
    "signal",
    "headway signal dec_0197c1f2a3b47000a1b2c3d4e5f60718 solved=1 cost_usd=0.004",
    "headway signal dec_0197c1f2a3b47000a1b2c3d4e5f60718 --withdraw solved --rater bob",
)
@click.argument("identifier", metavar="ID")
@click.argument("signals", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--withdraw", multiple=True, metavar="NAME", help="Take this signal back; repeat for several.")
@click.option("--rater", default="", help="Who says so.")
@click.option("--key", default="", help="Idempotency key: the same key again changes nothing.")
@click.option("--label", default="", help="A word beside the numbers, for example the error's name.")
@click.option("--early", is_flag=True, help="Accept it before its decision has arrived.")
def signal(
    session: Session,
    identifier: str,
    signals: tuple[str, ...],
    withdraw: tuple[str, ...],
    rater: str,
    key: str,
    label: str,
    early: bool,
) -> None:
    """Say how a decision or an episode went.

    ID is what `headway decide` printed. Values are numbers; yes and no count 1 and 0. Another value for the same name
    replaces the first.
    """
    values = {name: as_number(name, value) for name, value in pairs(signals, "signal").items()}
    if not values and not withdraw:
        raise click.UsageError("Name at least one signal, for example reward=1.0, or one to --withdraw.")
    with session.project(create=early) as project:
        new = project.signal(identifier, values, rater=rater, key=key, early=early, label=label) if values else 0
        for name in withdraw:
            project.withdraw(identifier, name, rater=rater, key=key)
        subject = identifier if is_episode(identifier) else parse_decision_id(identifier)
        task = project.query.task_of(subject)
        known = task is not None and not is_episode(subject)
        outcome = project.outcome(subject) if known else None
        made_up = 0 if task is None else session.synthetic(project, task)
    session.out.document(
        {
            "id": subject,
            "new": new,
            "withdrawn": list(withdraw),
            "outcome": None if outcome is None else {"status": outcome.status, "reward": outcome.reward},
            "synthetic": made_up,
        }
    )
    done = [f"{new} new of {len(values)} signals stored"] if values else []
    done += [f"{', '.join(withdraw)} withdrawn"] if withdraw else []
    tail = "" if outcome is None else f"; the decision is {outcome.status}, reward {number(outcome.reward)}"
    session.out.line(f"{'; '.join(done)}{tail}.")
    if known:
        session.next(f"headway explain {subject}")
    if values:
        who = f" --rater {quoted(rater)}" if rater else ""
        flags = " ".join(f"--withdraw {quoted(name)}" for name in values)
        session.undo(f"headway signal {subject} {flags}{who}")


def as_number(name: str, text: str) -> float:
    words = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
    try:
        return words[text.lower()] if text.lower() in words else float(text)
    except ValueError:
        raise InvalidInput(
            f"The signal {name!r} is {text[:60]!r}, expected a number.",
            code="bad_signal",
            hint="Signals are numbers; put a word beside them with --label.",
        ) from None
