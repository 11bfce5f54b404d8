"""`headway learn --all`: every due task, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from headway.cli import OptionHook, Output, Session, known, pairs, renders

if TYPE_CHECKING:
    from headway.kits.crews.learn_tasks import LearnedTask
    from headway.nouns import Crew


def crew_here(workers: int | None = None, name: str = "processes") -> Crew:
    """A crew by the kits of this command line."""
    from headway.kits.crews.processes import crew

    return crew(known(), workers, name)


def _run(session: Session, values: dict[str, Any]) -> int | None:
    every, workers = values.pop("every"), values.pop("workers")
    if not every:
        if workers is not None:
            raise click.UsageError("--workers is for --all, --seeds and --world; one task is learned in one process.")
        return None
    if values["task"] is not None or values["check"] or values["family"] is not None:
        raise click.UsageError("--all learns every task that is due: omit TASK, --family and --check.")
    from headway.kits.crews.learn_tasks import learn_tasks

    with session.project() as project:
        tasks = [task for task in project.settings.tasks if project.due(task) == 0]
    learned = learn_tasks(
        session.folder, tasks, crew_here(workers), progress=session.out.progress, seed=values["seed"],
        trust=values["trust"], mined=values["mined"], **pairs(values["knobs"], "knob", parsed=True),
    )  # fmt: skip
    done = LearnedTasks(tasks=tuple(learned))
    session.show(done)
    for one in done.tasks[:1]:
        session.next(f"headway prove {one.task}")
    return 1 if any(one.error for one in done.tasks) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTasks:
    """The tasks that were learned side by side."""

    tasks: tuple[LearnedTask, ...]


@renders(LearnedTasks)
def _learned_tasks(out: Output, learned: LearnedTasks) -> None:
    if not learned.tasks:
        out.line("No task is due: there are not enough new outcomes.")
        return
    out.table(("task", "policy"), [(task.task, task.policy or task.error) for task in learned.tasks])


LEARN = OptionHook(
    options=(
        click.Option(
            ["--all", "every"], is_flag=True, help="Learn every task that is due, side by side, instead of one TASK."
        ),
        click.Option(
            ["--workers"],
            type=int,
            metavar="N",
            help="Processes, with --all, --seeds (2 by default) or --world, whose copies then act in them.",
        ),
    ),
    run=_run,
)
