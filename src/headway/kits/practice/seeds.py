"""Practise with several seeds side by side: one seed for each worker of a crew.

    practise_seeds(project, "cartpole", seeds=range(5), crew=crew(project.catalogue, 2))

Workers only train. The policies are published here, in the order of the seeds, so candidates and ledger are the same
for any number of workers, and a worker that is killed is repeated without a trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.kits.practice.run import Practised, TrainedPolicy, publish_trained, train
from headway.nouns import Crew, Progress
from headway.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedShard:
    """One seed to practise with; `how`: the keywords of `train`."""

    folder: Path
    world: str
    seed: int
    how: Mapping[str, Any]


def practise_seeds(
    project: Project,
    world: str,
    *,
    seeds: Sequence[int],
    crew: Crew,
    progress: Progress | None = None,
    **how: Any,
) -> tuple[Practised, ...]:
    """A candidate for each seed."""
    folder = project.folder.resolve()
    shards = [SeedShard(folder=folder, world=world, seed=seed, how=how) for seed in seeds]
    trained = crew.map("headway.kits.practice.seeds:train_seed", shards, what="seeds", progress=progress)
    return tuple(publish_trained(project, policy) for policy in trained)


def train_seed(shard: SeedShard) -> TrainedPolicy:
    """Practise with one seed; runs in a worker."""
    with Project(shard.folder) as project:
        return train(project, shard.world, seed=shard.seed, **dict(shard.how))
