"""ActingGroups of copies of a world that act: one in this process, or several in the workers of a crew.

    group = ActingGroup(envs, seed=7)
    acted = group.act(engine, scales, draws)            # ActedSteps: [time, copy, …], until the draws are used up
    group.repeat(acted.action)                          # the same steps again, in a group that begins anew

    with crew.held() as held:
        groups = CrewGroups(held, WorldSource(project.folder, "lunarlander", {}), count=16, seed=7)
        groups.act(engine, scales, draws)

A group begins with a seed, and what it does follows from the actions that it was given. So a worker that has not acted
for a group before, because it replaces one that was killed, repeats all actions of the past first: they come with its
shard. Results depend on how many groups there are, never on how many workers.

Not covered: a world that does not repeat itself when its seed and the actions are the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.kits.practice import heads
from headway.kits.practice.engine import NumpyEngine, PolicyEngine
from headway.kits.practice.environments import Environments, copies, identify
from headway.kits.practice.heads import Actions
from headway.kits.practice.mlp import Array, Shape
from headway.kits.practice.spaces import WorldSpaces
from headway.kits.practice.threads import one_thread
from headway.nouns import Crew, errors
from headway.project import Opened, Project

GROUPS = 4  # that a crew's copies are split into
Final = tuple[
    int, NDArray[np.int64], NDArray[Any]
]  # the step, the copies whose episodes ended, their last observations


@dataclass(frozen=True, slots=True)
class ActedSteps:
    """[time, copy, …]; rows with `mask` False are not transitions."""

    raw: NDArray[Any]  # observations, flat
    x: Array  # as the network saw them
    action: NDArray[Any]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    allowed: NDArray[np.bool_] | None
    finals: list[Final]  # of worlds that reset in the same step
    last: NDArray[Any]  # [copy, …]: the observations after the last step
    returns: list[float]  # of the episodes that ended, unscaled


class ActingGroups(Protocol):
    """What acts for a stage."""

    @property
    def count(self) -> int: ...  # copies

    def act(self, engine: PolicyEngine, scales: Scales, draws: NDArray[Any], dtype: Any) -> ActedSteps: ...


class ActingGroup:
    """Copies that are stepped together in this process."""

    def __init__(self, envs: Environments, *, seed: int) -> None:
        self.envs, self.spaces, self.count = envs, WorldSpaces.of(envs), envs.num_envs
        mode = getattr(envs.metadata.get("autoreset_mode"), "value", envs.metadata.get("autoreset_mode", "NextStep"))
        if mode not in ("NextStep", "SameStep"):
            raise errors.InvalidInput(
                f"The world's copies do not reset themselves ({mode!r}).",
                code="bad_world",
                hint="Use AutoresetMode.NEXT_STEP or SAME_STEP.",
            )
        self._late = mode == "NextStep"
        self._masks = getattr(envs, "action_masks", None)
        observations, _ = envs.reset(seed=seed)
        self._now = self.spaces.flat(observations)
        self._skip = np.zeros(self.count, dtype=np.bool_)  # next-step mode: copies whose step only resets
        self._paid = np.zeros(self.count)

    def act(self, engine: PolicyEngine, scales: Scales, draws: NDArray[Any], dtype: Any = np.float32) -> ActedSteps:
        """A step of every copy for each of the draws [time, copy, …]."""
        actions, (horizon, count, width) = self.spaces.actions, draws.shape
        shape, inputs = (horizon, count), self.spaces.inputs
        acted = ActedSteps(
            raw=np.empty((*shape, inputs), dtype=self._now.dtype),
            x=np.empty((*shape, inputs), dtype=dtype),
            action=np.empty((*shape, width), dtype=np.int64 if actions.kind == "categorical" else dtype),
            rewards=np.empty(shape),
            terminated=np.empty(shape, dtype=np.bool_),
            truncated=np.empty(shape, dtype=np.bool_),
            mask=np.ones(shape, dtype=np.bool_),
            allowed=np.empty((*shape, actions.outputs), dtype=np.bool_) if self._masks else None,
            finals=[],
            last=np.empty_like(self._now),
            returns=[],
        )
        free = engine.free
        for t in range(horizon):
            acted.raw[t] = self._now
            acted.x[t] = scales.seen(self._now, dtype)
            may = None if self._masks is None else np.asarray(self._masks()).reshape(count, -1)
            if acted.allowed is not None:
                acted.allowed[t] = may
            acted.action[t] = heads.sample(actions, engine.outputs(acted.x[t]), free, draws[t], may)
            if self._late:
                np.logical_not(self._skip, out=acted.mask[t])
            reward, over, cut, final = self._step(acted.action[t], acted.returns)
            acted.rewards[t], acted.terminated[t], acted.truncated[t] = reward, over, cut
            if final is not None:
                acted.finals.append((t, *final))
        acted.last[:] = self._now
        return acted

    def repeat(self, actions: NDArray[Any]) -> None:
        """Take steps again, [time, copy, …]."""
        for chosen in actions:
            self._step(chosen, [])

    def _step(self, chosen: NDArray[Any], returns: list[float]) -> tuple[Any, Any, Any, tuple[Any, Any] | None]:
        """(rewards, terminated, truncated, final observations where an episode ended in a world that resets at once)"""
        observations, reward, over, cut, info = self.envs.step(self.spaces.given(chosen))
        self._now = self.spaces.flat(observations)
        where = np.flatnonzero(over | cut)
        returns += self._pay(reward, where)
        if self._late:
            self._skip = over | cut
        final = None if self._late or not where.size else (where, self.spaces.flat(final_observations(info, where)))
        return reward, over, cut, final

    def _pay(self, reward: NDArray[Any], where: NDArray[np.int64]) -> list[float]:
        """Add a step's rewards; the returns of the episodes that ended."""
        self._paid += reward
        ended: list[float] = self._paid[where].tolist()
        self._paid[where] = 0.0
        if self._late:
            self._paid[self._skip] = 0.0
        return ended


def final_observations(info: Mapping[str, Any], where: NDArray[np.int64]) -> NDArray[Any]:
    """What the copies that ended saw last."""
    final = info.get("final_obs", info.get("final_observation"))
    if final is None:
        raise errors.InvalidInput(
            "The world resets in the same step without the final observation of an episode.",
            code="bad_world",
            hint='Return it as info["final_obs"], as Gymnasium\'s vector environments do.',
        )
    return np.stack([np.asarray(final[place]) for place in where])


# -- crews


class WorldSource(NamedTuple):
    """How any process can make a world: the project's folder, the name, and the world's own settings."""

    folder: Path
    world: str
    settings: Mapping[str, Any]


def project_copies(project: Opened, world: str, settings: Mapping[str, Any], count: int) -> Environments:
    """`count` copies of a world as this project knows it; the module of "module:Id-v0" may be in its folder."""
    if world not in project.catalogue.all("worlds"):
        identify(world, project.folder)
    return copies(project.catalogue, world, count=count, **settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActShard:
    """What one group does in one rollout. Everything that its steps follow from is here."""

    run: str  # tells the groups of different runs apart
    source: WorldSource
    seed: int
    count: int
    past: Sequence[NDArray[Any]]  # the actions of earlier rollouts
    actions: Actions
    shape: Shape
    tensors: Mapping[str, Any]
    scales: Scales
    draws: NDArray[Any]
    dtype: Any


class CrewGroups:
    """ActingGroups of copies, one shard each, whose steps are taken by the workers of a crew."""

    def __init__(self, crew: Crew, source: WorldSource, *, count: int, seed: int) -> None:
        self.count, self._crew, self._source = count, crew, source
        self._run = uuid.uuid4().hex
        sizes = [count // GROUPS + (place < count % GROUPS) for place in range(GROUPS)]
        ends = list(accumulate(size for size in sizes if size))
        self._parts = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        self._seeds = [seed + part.start for part in self._parts]
        self._past: list[list[NDArray[Any]]] = [[] for _ in self._parts]

    def act(self, engine: PolicyEngine, scales: Scales, draws: NDArray[Any], dtype: Any = np.float32) -> ActedSteps:
        """The steps of all groups beside one another, in the order of the copies."""
        shards = [
            ActShard(
                run=self._run, source=self._source, seed=seed, count=part.stop - part.start, past=past,
                actions=engine.actions, shape=engine.shape, tensors=engine.tensors(), scales=scales,
                draws=draws[:, part], dtype=dtype,
            )
            for seed, part, past in zip(self._seeds, self._parts, self._past, strict=True)
        ]  # fmt: skip
        acted = list(self._crew.map("headway.kits.practice.acting:act_shard", shards))
        for past, steps in zip(self._past, acted, strict=True):
            past.append(_small(steps.action, engine.actions))
        return _joined(acted, [part.start for part in self._parts])


def _small(action: NDArray[Any], actions: Actions) -> NDArray[Any]:
    """Choices in as few bytes as they need."""
    return action.astype(np.min_scalar_type(max(actions.sizes))) if actions.kind == "categorical" else action


def _joined(parts: Sequence[ActedSteps], first: Sequence[int]) -> ActedSteps:
    def beside(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays, axis=0 if name == "last" else 1)

    def finals() -> Iterator[Final]:
        for part, begin in zip(parts, first, strict=True):
            yield from ((t, where + begin, final) for t, where, final in part.finals)

    names = ("raw", "x", "action", "rewards", "terminated", "truncated", "mask", "allowed", "last")
    returns = [ended for part in parts for ended in part.returns]
    return ActedSteps(**{name: beside(name) for name in names}, finals=list(finals()), returns=returns)


_GROUPS: dict[tuple[str, int], tuple[int, ActingGroup]] = {}  # of a worker: rollouts that each group has done


def act_shard(shard: ActShard) -> ActedSteps:
    """One rollout of one group; runs in a worker, which keeps the group for the next."""
    key = (shard.run, shard.seed)
    done, group = _GROUPS.pop(key, (0, None))
    if group is None or done > len(shard.past):
        with Project(shard.source.folder) as project:
            envs = project_copies(project, shard.source.world, shard.source.settings, shard.count)
            done, group = 0, ActingGroup(envs, seed=shard.seed)
    engine = NumpyEngine(shard.actions, shard.shape, start="xavier", dtype=shard.dtype)
    engine.network.load(shard.tensors)
    with one_thread():
        for actions in shard.past[done:]:
            group.repeat(actions)
        acted = group.act(engine, shard.scales, shard.draws, shard.dtype)
    _GROUPS[key] = (len(shard.past) + 1, group)
    return acted


@dataclass(slots=True)
class RunningScale:
    """Mean and variance of a stream of rows, merged batch by batch (Chan et al., 1983)."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    count: float = 0.0

    @classmethod
    def of(cls, width: int) -> RunningScale:
        return cls(np.zeros(width), np.ones(width))

    def add(self, rows: NDArray[Any]) -> None:
        """Rows [row, width]."""
        if not len(rows):
            return
        rows = rows.astype(np.float64, copy=False)
        count, mean, variance = float(len(rows)), rows.mean(axis=0), rows.var(axis=0)
        if not self.count:
            self.mean, self.variance, self.count = mean, variance, count
            return
        total, shift = self.count + count, mean - self.mean
        self.mean = self.mean + shift * (count / total)
        spread = self.variance * self.count + variance * count + shift * shift * (self.count * count / total)
        self.variance, self.count = spread / total, total


@dataclass(slots=True)
class Scales:
    """The scales of observations and rewards."""

    observations: RunningScale
    rewards: RunningScale = field(default_factory=lambda: RunningScale.of(1))
    normalise_observations: bool = True
    normalise_rewards: bool = True

    def means(self) -> NDArray[np.float64]:
        return self.observations.mean if self.normalise_observations else np.zeros_like(self.observations.mean)

    def deviations(self) -> NDArray[np.float64]:
        """A constant value keeps its scale."""
        if not self.normalise_observations or not self.observations.count:
            return np.ones_like(self.observations.mean)
        deviation = np.sqrt(self.observations.variance)
        return np.where(deviation > 1e-6, deviation, 1.0)

    def seen(self, flat: NDArray[Any], dtype: Any) -> Array:
        """Observations [row, width] as the network's input: within ±8, like the acting policy's features."""
        if not self.normalise_observations:
            kept: Array = np.clip(flat, -Features.LIMIT, Features.LIMIT)
            return kept.astype(dtype, copy=False)
        scaled: Array = np.clip((flat - self.means()) / self.deviations(), -Features.LIMIT, Features.LIMIT)
        return scaled.astype(dtype, copy=False)

    def reward_scale(self) -> float:
        if not self.normalise_rewards or not self.rewards.count:
            return 1.0
        return float(1.0 / np.sqrt(self.rewards.variance[0] + 1e-8))
