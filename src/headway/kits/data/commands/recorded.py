"""`headway data stats`, `log` and `leaks`: what was recorded, and its flaws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, renders, task_argument, verb
from headway.nouns import Decision, Outcome, document, errors, rfc3339
from headway.observe import STATUSES

if TYPE_CHECKING:
    from headway.observe import Counts
    from headway.project import Project
    from headway.prove import Leaks

_MOST_SHARES = 20


@verb("stats", "headway data stats", "headway data stats route --json")
@task_argument(required=False)
def stats(session: Session, task: str | None) -> None:
    """Count decisions, signals and outcomes, by source and action."""
    tasks: dict[str, Counts] = {}
    actions: dict[str, Mapping[str, int]] = {}
    leaky: dict[str, Leaks] = {}
    with session.project() as project:
        if task is not None:
            project.settings.task(task)
        for name in project.tasks() if task is None else [task]:
            tasks[name], actions[name] = project.query.counts(name), project.query.by_action(name)
            session.synthetic(project, name)
            with suppress(errors.UnknownName):
                leaky[name] = project.leaks(name)
        start = _first_step(project)
    session.show(RecordedTasks(tasks=tasks, actions=actions, leaks=leaky))
    counted = [name for name, counts in tasks.items() if counts.decisions]
    if counted:
        session.next(f"headway rewards analyze {counted[0]}")
    else:
        session.next(start)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTasks:
    """What was recorded, by task, and which of its fields give the outcome away."""

    tasks: Mapping[str, Counts]
    actions: Mapping[str, Mapping[str, int]]
    leaks: Mapping[str, Leaks]

    def document(self) -> dict[str, Any]:
        return {
            "tasks": {name: {**asdict(counts), "by_action": self.actions[name]} for name, counts in self.tasks.items()},
            "leaks": {name: document(checked) for name, checked in self.leaks.items()},
        }


def _status(name: str) -> Column[tuple[str, Counts]]:
    return Column.value(name, lambda row: row[1].by_status.get(name, 0))


_TASKS = RecordTable[tuple[str, "Counts"]](
    Column.text("task", lambda row: row[0]),
    Column.value("decisions", lambda row: row[1].decisions),
    Column.value("signals", lambda row: row[1].signals),
    Column.value("episodes", lambda row: row[1].episodes),
    *(_status(name) for name in ("rewarded", "failed", "censored", "pending")),
    Column.time("first", lambda row: row[1].first_at, day=True),
    Column.time("last", lambda row: row[1].last_at, day=True),
)


@renders(RecordedTasks)
def _recorded(out: Output, recorded: RecordedTasks) -> None:
    if not recorded.tasks:
        out.line("Nothing was recorded yet.")
    _TASKS.print(out, recorded.tasks.items())
    for name, counts in recorded.tasks.items():
        for what, shares in (("source", counts.by_source), ("action", recorded.actions[name])):
            if shares:
                first = ", ".join(f"{key} {count:,}" for key, count in list(shares.items())[:_MOST_SHARES])
                more = f", and {len(shares) - _MOST_SHARES:,} more" if len(shares) > _MOST_SHARES else ""
                out.line(f"{name} by {what}: {first}{more}")
    for checked in recorded.leaks.values():
        print_leaks(out, checked)


def _first_step(project: Project) -> str:
    """The first decision: of this project's own task, if it declares one."""
    declared = next(iter(project.settings.tasks), None)
    if declared is None:
        return 'headway decide route "Summarise this page" --candidates small,large'
    return project.next_step(declared).command


@verb("log", "headway data log", "headway data log route --status pending -n 50 --json")
@task_argument(required=False)
@click.option("-n", "count", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@click.option("--status", type=click.Choice(STATUSES), help="Only decisions with such an outcome; pending: none yet.")
def log(session: Session, task: str | None, count: int, status: str | None) -> None:
    """List the latest decisions, newest first."""
    from headway.observe import DecisionFilter, all_decisions

    with session.project() as project:
        if task is not None:
            project.settings.task(task)
        found = all_decisions(project.database, DecisionFilter(task=task, status=status))
        decisions = tuple(_logged(decision, outcome) for decision, outcome in islice(found, count))
        start = "" if decisions else _first_step(project) if task is None else project.next_step(task).command
    session.show(DecisionLog(decisions=decisions))
    if decisions:
        session.next(f"headway explain {decisions[0].id}")
    else:
        session.next(start)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """A decision with its outcome, on one line."""

    id: str
    at: str
    task: str
    text: str
    action: str
    propensity: float | None
    policy: str
    source: str
    status: str
    reward: float | None


def _logged(decision: Decision, outcome: Outcome) -> LoggedDecision:
    return LoggedDecision(
        id=decision.id,
        at=rfc3339(decision.at),
        task=decision.task,
        text=decision.situation.text,
        action=decision.action,
        propensity=decision.propensity or None,
        policy=decision.policy,
        source=decision.source,
        status=outcome.status,
        reward=outcome.reward,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLog:
    decisions: Sequence[LoggedDecision]


_LOG = RecordTable[LoggedDecision](
    Column.text("id", lambda row: row.id),
    Column.text("at", lambda row: row.at[:19]),
    Column.text("task", lambda row: row.task),
    Column.text("action", lambda row: row.action),
    Column.value("p", lambda row: row.propensity, 2),
    Column.text("policy", lambda row: row.policy),
    Column.text("source", lambda row: row.source),
    Column.text("outcome", lambda row: row.status),
    Column.value("reward", lambda row: row.reward),
    Column.text("text", lambda row: row.text, limit=40),
)


@renders(DecisionLog)
def _log(out: Output, logged: DecisionLog) -> None:
    if not logged.decisions:
        out.line("Nothing was decided yet.")
    _LOG.print(out, logged.decisions)


@verb("leaks", "headway data leaks next-action", "headway data leaks route --json")
@task_argument()
@click.option("--mined", is_flag=True, help="Check rows with mined labels too.")
def leaks(session: Session, task: str, mined: bool) -> int:
    """Find fields that give the outcome away, and other flaws that flatter a policy.

    Exit status 1 if there is such a field. `headway learn` leaves them out.
    """
    with session.project() as project:
        session.settle(project, task)
        checked = TaskLeaks(task=task, leaks=project.leaks(task, mined=mined))
    session.show(checked)
    session.next(f"headway learn {task}")
    return 1 if checked.leaks.found else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLeaks:
    """The leaks of one task."""

    task: str
    leaks: Leaks

    def document(self) -> dict[str, Any]:
        return {"task": self.task, **document(self.leaks)}


@renders(TaskLeaks)
def _task_leaks(out: Output, checked: TaskLeaks) -> None:
    print_leaks(out, checked.leaks)
    if not checked.leaks.found:
        out.line(f"No field of {checked.task!r} gives the outcome away ({checked.leaks.labelled:,} rows checked).")


_LEAKS = RecordTable[Any](  # of leaks
    Column.text("leaky field", lambda leak: leak.field),
    Column.text("where", lambda leak: leak.where),
    Column.text("how", lambda leak: leak.kind),
    Column.text("label", lambda leak: leak.label),
    Column.value("rows", lambda leak: leak.hits),
    Column.value("of", lambda leak: leak.rows),
)


def print_leaks(out: Output, leaks: Leaks) -> None:
    """Leaky fields, and the other flaws that a check for them found."""
    _LEAKS.print(out, leaks.found)
    if leaks.found:
        out.note(
            f"leak: {leaks.flagged:,} of {leaks.labelled:,} labelled rows give their outcome away; "
            f"learning leaves {', '.join(leaks.fields)} out."
        )
    if leaks.backwards:
        out.note(f"clock: {leaks.backwards:,} outcomes are dated before their decision.")
    if leaks.twins:
        out.note(
            f"duplicates: {leaks.twins:,} held-out rows have a text that is also trained on "
            f"({leaks.exact_twins:,} identical)."
        )
