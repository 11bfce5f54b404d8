"""Plays whole episodes of a factored world with a task's pipeline: what would be served, masks and floor included.

    played = play_heads(world, pipeline, seed=7)      # one episode per copy
    played.returns                                    # [copy]

The memory of a copy begins with zeros, as an episode's does. Two pipelines with the same seed meet the same beginnings
and the same numbers for their own draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.decide.factored import FactoredPipeline
from headway.decide.masks import both
from headway.kits.practice.play import MOST_STEPS, Played, check_returns
from headway.nouns.errors import InvalidInput
from headway.nouns.factored import Observations


def play_heads(world: Any, pipeline: FactoredPipeline, *, seed: int) -> Played:
    """One episode of every copy, decided by the pipeline."""
    _check_world(world, pipeline)
    count = world.count
    observations, masks = world.reset(seed)
    memory = pipeline.start(count)
    rng = np.random.default_rng([seed, 0x91A4])
    returns, over = np.zeros(count), np.zeros(count, dtype=np.bool_)
    metrics: dict[str, Any] = {}
    for _ in range(MOST_STEPS):
        seeds = rng.integers(0, 1 << 62, size=count).tolist()
        allowed = both({name: _numpy(mask) for name, mask in masks.items()}, _rows(pipeline.allowed, count))
        drawn, opinions = pipeline.act(_plain(observations), memory, allowed, seeds)
        result = world.step(_like(masks, drawn.actions))
        observations, masks, memory = result.observations, result.masks, opinions.memory
        returns += np.where(over, 0.0, _numpy(result.rewards))
        for name, values in result.info.get("metrics", {}).items():
            metrics.setdefault(name, np.zeros(count))
            metrics[name] += np.where(over, 0.0, _numpy(values))
        over |= _numpy(result.terminated) | _numpy(result.truncated)
        if over.all():
            check_returns(returns)
            return Played(returns, metrics)
    raise InvalidInput(
        f"An episode of the world goes on after {MOST_STEPS:,} steps.",
        code="bad_world",
        hint="Give it a horizon.",
    )


def _check_world(world: Any, pipeline: FactoredPipeline) -> None:
    space = getattr(world, "space", None)
    mine = pipeline.policy.space
    if space is None or (space.heads, space.relevant) != (mine.heads, mine.relevant):
        raise InvalidInput(
            f"The world's actions are {getattr(space, 'names', 'not factored')} with sizes "
            f"{getattr(space, 'sizes', ())}; the task's are {mine.names} with sizes {mine.sizes}.",
            code="not_a_choice",
            hint="Only a policy for the world's own heads can be proven in it.",
        )


def _rows(masks: Mapping[str, Any], count: int) -> dict[str, Any]:
    return {name: np.repeat(mask, count, axis=0) for name, mask in masks.items()}


def _plain(observations: Observations) -> Observations:
    return Observations(_numpy(observations.features).astype(np.float64), _numpy(observations.indices))


def _numpy(values: Any) -> Any:
    """An array of a world, which may be a tensor on any device."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def _like(masks: Mapping[str, Any], actions: Any) -> Any:
    """Actions in the form of the world's arrays: numpy's, or tensors of its device."""
    some: Any = next(iter(masks.values()), None)
    return some.new_tensor(actions.tolist()).long() if hasattr(some, "new_tensor") else actions
