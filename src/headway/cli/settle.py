"""`headway settle`: bring outcomes up to date with the signals."""

from __future__ import annotations

from dataclasses import dataclass

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, task_argument, verb


@verb("settle", "headway settle", "headway settle route --json")
@task_argument(required=False)
def settle(session: Session, task: str | None) -> None:
    """Bring outcomes up to date with the signals.

    Of one task, or of all. The loop, `learn` and `prove` do so themselves; nothing that only shows something does.
    """
    with session.project() as project:
        tasks = project.tasks() if task is None else [project.settings.task(task).name]
        settled = session.settle(project, *tasks)
    session.show(SettledOutcomes(tasks=settled))
    session.next("headway status")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledOutcomes:
    """How many outcomes became known or changed, by task."""

    tasks: dict[str, int]


@renders(SettledOutcomes)
def _settled(out: Output, settled: SettledOutcomes) -> None:
    for task, count in settled.tasks.items():
        out.line(f"{task}: {count:,} {'outcome' if count == 1 else 'outcomes'} new or changed.")
