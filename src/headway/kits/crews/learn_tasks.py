"""Learn several tasks side by side: one task for each worker of a crew.

    for learned in learn_tasks(folder, ["route", "rank"], crew):
        learned.policy, learned.error

A task is learned as by `Project.learn`, from its own rows, so neither the number of workers nor their order changes a
policy. A policy that was learned before has the same hash and is not added again: a worker that is killed after it has
published is repeated without a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.nouns import Crew, Progress, errors
from headway.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTask:
    """The candidate of a task, or why there is none."""

    task: str
    policy: str = ""
    error: str = ""
    code: str = ""


def learn_tasks(
    folder: Path, tasks: Sequence[str], crew: Crew, *, progress: Progress | None = None, **settings: Any
) -> Iterator[LearnedTask]:
    """Learn each task; results in the order of the tasks. `settings` are those of `Project.learn`."""
    with Project(folder) as project:
        for task in tasks:
            project.settle(task)  # in this order; what workers read is then fixed, whoever comes first
    shards = [(folder.resolve(), task, settings) for task in tasks]
    return crew.map("headway.kits.crews.learn_tasks:learn_task", shards, what="learn", progress=progress)


def learn_task(shard: tuple[Path, str, dict[str, Any]]) -> LearnedTask:
    """Learn one task; runs in a worker."""
    folder, task, settings = shard
    try:
        with Project(folder) as project:
            return LearnedTask(task=task, policy=project.learn(task, **settings))
    except errors.HeadwayError as error:
        return LearnedTask(task=task, error=str(error), code=error.code)
