"""Learn several tasks side by side: one task for each worker of a crew.

    for learned in learn_tasks(folder, ["route", "rank"], crew):
        learned.policy, learned.error

A task is learned as by `Project.learn`, from its own rows, so neither the number of workers nor their order changes a
policy. A policy that was learned before has the same hash and is not added again: a worker that is killed after it has
published is repeated without a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.nouns import Crew, Progress, errors
from headway.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnShard:
    """One task to learn."""

    folder: Path
    task: str
    seed: int | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    trust: tuple[str, ...] = ()
    mined: bool = False


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
    """Learn each task; results in the order of the tasks. `settings` are those of a LearnShard."""
    with Project(folder) as project:
        for task in tasks:
            project.settle(task)  # in this order; what workers read is then fixed, whoever comes first
    shards = [LearnShard(folder=folder.resolve(), task=task, **settings) for task in tasks]
    return crew.map("headway.loop.learn_shards:learn_task", shards, what="learn", progress=progress)


def learn_task(shard: LearnShard) -> LearnedTask:
    """Learn one task; runs in a worker."""
    try:
        with Project(shard.folder) as project:
            ref = project.learn(shard.task, seed=shard.seed, trust=shard.trust, mined=shard.mined, **dict(shard.knobs))
    except errors.HeadwayError as error:
        return LearnedTask(task=shard.task, error=str(error), code=error.code)
    return LearnedTask(task=shard.task, policy=ref)
