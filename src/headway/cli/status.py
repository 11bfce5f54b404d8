"""`headway status`: the state of every task."""

from __future__ import annotations

from headway.cli.experiment import experiment_line
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, verb
from headway.cli.written import number
from headway.nouns import ProjectStatus, TaskStatus, plural


@verb("status", "headway status", "headway -C demo status --json")
def status(session: Session) -> None:
    """Show every task: who decides, what was recorded, what to do next."""
    with session.project() as project:
        current = project.status()
        for task in current.tasks:
            session.synthetic(project, task.task)
        session.name_policies(project, *(task.task for task in current.tasks))
    session.show(current)
    session.next(current.next.command)


def _made(task: TaskStatus) -> str:
    made = number(task.units if task.unit == "request" else task.decisions)
    return f"{made} in {plural(task.units, 'episode')}" if task.unit == "episode" else made


def _outcome(name: str) -> Column[TaskStatus]:
    return Column.value(name, lambda task: task.outcomes.get(name, 0))


_TASKS = RecordTable[TaskStatus](
    Column.text("task", lambda task: task.task),
    Column.text("current", lambda task: task.current),
    Column.text("canary", lambda task: task.canary),
    Column("decisions", _made, right=True),
    *(_outcome(name) for name in ("rewarded", "failed", "censored", "pending")),
    Column.text("candidates", lambda task: ", ".join(task.candidates) or None),
)


@renders(ProjectStatus)
def _status(out: Output, current: ProjectStatus) -> None:
    if current.store.engine == "postgresql":
        out.line(f"The store is PostgreSQL: {current.store.name}, {current.store.bytes:,} bytes.")
    for task in current.tasks:
        if task.worth is not None:
            out.line(task.worth.text, style="bold")
    _TASKS.print(out, current.tasks)
    for outage in sorted({outage for task in current.tasks for outage in task.outages}, key=lambda one: one.since):
        out.note(f"outage: {outage}")
    for task in current.tasks:
        if task.verdict is not None and task.verdict.text not in current.next.why:
            out.line(f"{task.task}: {task.verdict.text}")
        if task.kit_missing:
            out.note(f"kit_missing: {task.task}: {task.next.why}")
        for alarm in task.alarms:
            out.note(f"alarm: {task.task}: {alarm}")
        for warning in task.warnings:
            out.note(f"warning: {warning}")
        if task.experiment is not None:
            out.line(experiment_line(task.experiment))
        if task.ramp is not None and task.ramp.text != current.next.why:
            out.line(task.ramp.text)
    if current.alert_failure:
        out.note(f"alert_failed: {current.alert_failure}")
    out.line(current.next.why)
