"""Plays whole episodes of a world with a task's pipeline: what would be served, fallback, explorer and floor included.

    names = ("left", "right")
    played = play(envs, pipeline, names, task="cartpole", seed=7)     # one episode per copy
    played.returns                                                    # [copy]

Every copy plays the episode that it begins after `reset(seed=…)`. Two pipelines with the same seed meet the same
beginnings and the same numbers for their own draws.

Not covered: worlds whose actions are not one of some choices; nothing else can be served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import Pipeline, explore
from headway.kits.practice.environments import Environments
from headway.nouns import Candidate, Situation, errors

OBSERVATION = "observation"  # the state that a policy learned in a world reads
MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Played:
    """What episodes came to; metrics are sums over an episode, where the world gives any."""

    returns: NDArray[np.float64]
    metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


def play(envs: Environments, pipeline: Pipeline, names: Sequence[str], *, task: str, seed: int) -> Played:
    """One episode of every copy, decided by the pipeline among `names`, the world's actions in order."""
    count = envs.num_envs
    candidates = tuple(Candidate(name) for name in names)
    observations, _ = envs.reset(seed=seed)
    rng = np.random.default_rng([seed, 0x91A4])
    returns, over = np.zeros(count), np.zeros(count, dtype=np.bool_)
    metrics: dict[str, NDArray[np.float64]] = {}
    rest = getattr(envs, "rest", None)
    for _ in range(MOST_STEPS):
        draws = rng.integers(0, 1 << 62, size=count)
        actions = _actions(envs, pipeline, candidates, observations, np.flatnonzero(~over), draws, task)
        observations, rewards, ended, cut, info = envs.step(actions)
        returns += np.where(over, 0.0, rewards)
        for name, values in info.get("metrics", {}).items():
            metrics.setdefault(name, np.zeros(count))
            metrics[name] += np.where(over, 0.0, values)
        done = (ended | cut) & ~over
        over |= done
        if over.all():
            check_returns(returns)
            return Played(returns, metrics)
        if rest is not None:
            for place in np.flatnonzero(done).tolist():
                rest(place)
    raise errors.InvalidInput(
        f"An episode of the world has not ended after {MOST_STEPS:,} steps.",
        code="bad_world",
        hint="Give it a time limit (max_episode_steps).",
    )


def _actions(
    envs: Environments,
    pipeline: Pipeline,
    candidates: Sequence[Candidate],
    observations: NDArray[Any],
    playing: NDArray[np.intp],
    draws: NDArray[np.int64],
    task: str,
) -> NDArray[np.int64]:
    """[copy]: what the pipeline draws for the copies that still play; the first allowed action for the others."""
    masks = getattr(envs, "action_masks", None)
    allowed = None if masks is None else np.asarray(masks()).reshape(envs.num_envs, -1)
    chosen = np.zeros(envs.num_envs, dtype=np.int64) if allowed is None else allowed.argmax(axis=1)
    situations = _situations(envs, observations, playing, task)
    seeds = draws[playing].tolist()
    if allowed is None:
        shares = pipeline.distributions(situations, candidates, seeds)
    else:
        open_ = [np.flatnonzero(allowed[place]) for place in playing]
        shares = pipeline.distributions(situations, [[candidates[int(index)] for index in row] for row in open_], seeds)
    for row, place in enumerate(playing.tolist()):
        index = explore.drawn(shares[row].tolist(), seeds[row])
        chosen[place] = index if allowed is None else open_[row][index]
    return chosen


def _situations(
    envs: Environments, observations: NDArray[Any], playing: NDArray[np.intp], task: str
) -> list[Situation]:
    """What a decision would be asked with: the observation, and what else the world says about its situation."""
    flat = np.asarray(observations).reshape(envs.num_envs, -1)
    size = getattr(envs.single_observation_space, "n", None)
    if size is not None:  # a whole number, as one-hot
        flat = np.eye(int(size))[flat[:, 0].astype(np.int64)]
    told = getattr(envs, "situations", None)
    given = [Situation(task=task)] * envs.num_envs if told is None else told()
    return [
        Situation(
            task=task,
            text=given[place].text,
            state={OBSERVATION: flat[place].tolist(), **given[place].state},
            role=given[place].role,
        )
        for place in playing.tolist()
    ]


def check_returns(returns: NDArray[np.float64]) -> None:
    """Refuse a return that is not a finite number."""
    if not np.isfinite(returns).all():
        raise errors.InvalidInput(
            "The world gave a reward that is not a finite number.",
            code="not_finite",
            hint="Nothing was proven; fix the world and prove again.",
        )
