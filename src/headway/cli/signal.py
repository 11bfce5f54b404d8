"""`headway signal`: record how a decision went."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import Any

import click

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, pairs, verb
from headway.cli.written import number
from headway.nouns import Outcome, errors, ids, plural
from headway.observe import waiting_signals

_FEW = 1000  # signals that are settled at once, so that `headway status` counts this one


@verb(
    "signal",
    "headway signal dec_0197c1f2a3b47000a1b2c3d4e5f60718 solved=1 cost_usd=0.004",
    "headway signal dec_0197c1f2a3b47000a1b2c3d4e5f60718 --withdraw solved --rater bob",
)
@click.argument("identifier", metavar="ID")
@click.argument("signals", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--withdraw", multiple=True, metavar="NAME", help="Withdraw this signal; repeatable.")
@click.option("--rater", default="", help="Who rates.")
@click.option("--key", default="", help="Idempotency key: the same key again changes nothing.")
@click.option("--label", default="", help="A word to store with the numbers, for example an error's name.")
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
    """Record how a decision or an episode went.

    ID is the id that `headway decide` printed. Values are numbers; yes is 1 and no is 0. A later value for the same
    name replaces the earlier one.
    """
    values = {name: as_number(name, value) for name, value in pairs(signals, "signal").items()}
    if not values and not withdraw:
        raise click.UsageError("Name at least one signal, for example reward=1.0, or one to --withdraw.")
    with session.project(create=early) as project:
        new = project.signal(identifier, values, rater=rater, key=key, early=early, label=label) if values else 0
        for name in withdraw:
            project.withdraw(identifier, name, rater=rater, key=key)
        subject = identifier if ids.is_episode(identifier) else ids.parse_decision(identifier)
        task = project.query.task_of(subject)
        known = task is not None and not ids.is_episode(subject)
        outcome = project.outcome(subject) if known else None
        if task is not None and waiting_signals(project.database, project.query, task) <= _FEW:
            project.settle(task)
        unread = project.unread_signals(subject, values)
        synthetic = 0 if task is None else session.synthetic(project, task)
    session.show(
        StoredSignals(
            id=subject,
            sent=len(values),
            new=new,
            withdrawn=withdraw,
            outcome=outcome,
            synthetic=synthetic,
            warnings=tuple(unread),
        )
    )
    if known:
        session.next(f"headway explain {subject}")
    if values:
        by = f" --rater {quote(rater)}" if rater else ""
        flags = " ".join(f"--withdraw {quote(name)}" for name in values)
        session.undo(f"headway signal {subject} {flags}{by}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSignals:
    """The signals stored for a decision or an episode, and its outcome with them."""

    id: str
    sent: int
    new: int
    withdrawn: tuple[str, ...]
    outcome: Outcome | None
    synthetic: int
    warnings: tuple[str, ...]  # signals that nothing reads

    def document(self) -> dict[str, Any]:
        outcome = self.outcome
        return {
            "id": self.id,
            "new": self.new,
            "withdrawn": list(self.withdrawn),
            "outcome": None if outcome is None else {"status": outcome.status, "reward": outcome.reward},
            "synthetic": self.synthetic,
            "warnings": list(self.warnings),
        }


@renders(StoredSignals)
def _stored(out: Output, stored: StoredSignals) -> None:
    done = [f"{stored.new} new of {plural(stored.sent, 'signal')} stored"] if stored.sent else []
    done += [f"{', '.join(stored.withdrawn)} withdrawn"] if stored.withdrawn else []
    if stored.outcome is not None:
        done.append(f"the decision is {stored.outcome.status}, reward {number(stored.outcome.reward)}")
    out.line(f"{'; '.join(done)}.")
    for warning in stored.warnings:
        out.note(f"Warning: {warning}")


def as_number(name: str, text: str) -> float:
    words = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
    try:
        return words[text.lower()] if text.lower() in words else float(text)
    except ValueError:
        raise errors.InvalidInput(
            f"The signal {name!r} is {text[:60]!r}, expected a number.",
            code="bad_signal",
            hint="Signals are numbers; add a word with --label.",
        ) from None
