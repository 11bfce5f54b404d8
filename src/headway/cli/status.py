"""`headway status`: where every task stands."""

from __future__ import annotations

from headway.cli.verb import Session, verb
from headway.nouns.status import TaskStatus

__all__ = ["status"]

_OUTCOMES = ("rewarded", "failed", "censored", "pending")


@verb("status", "headway status", "headway -C demo status --json")
def status(session: Session) -> None:
    """Every task: who decides, what has come in, what to do next."""
    with session.project() as project:
        shown = project.status()
        for task in shown.tasks:
            session.synthetic(project, task.task)
    session.out.document(shown.document())
    if shown.store.engine == "postgresql":
        session.out.line(f"The store is PostgreSQL: {shown.store.name}, {shown.store.bytes:,} bytes.")
    if shown.tasks:
        session.out.table(
            ("task", "current", "canary", "decisions", *_OUTCOMES, "candidates"),
            [_row(task) for task in shown.tasks],
            right=("decisions", *_OUTCOMES),
        )
    for task in shown.tasks:
        if task.kit_missing:
            session.out.note(f"kit_missing: {task.task}: {task.next.why}")
    session.out.line(shown.next.why)
    session.next(shown.next.command)


def _row(task: TaskStatus) -> tuple[str, ...]:
    return (
        task.task,
        task.current,
        task.canary or "–",
        f"{task.decisions:,}",
        *(f"{task.outcomes.get(name, 0):,}" for name in _OUTCOMES),
        ", ".join(task.candidates) or "–",
    )
