"""Acts in many copies of a world at once and records the transitions.

    stage = Stage(envs, seed=7)                                    # checks the spaces; refuses unsupported ones
    rollout = stage.collect(engine, horizon=128, gamma=0.99)       # Rollout: [time, copy, …]
    returns = evaluate(envs, engine, stage.scales, episodes=20)    # greedy

Only the actor runs while acting; values and log-probabilities of all rows are computed later, in a few large calls.

Resets, as Gymnasium 1.x does them. *Same step*: the observation after an end is the next episode's first one; the
final one is `info["final_obs"]`, and its value is credited to a truncated episode. *Next step*: the
observation after an end is the final one, and the following step ignores its action and returns the reset observation:
that row is masked (weight 0). Both are tested against a slow loop over single environments.

Observations are standardised by running means and deviations (`normalise`), frozen during a rollout and its update;
rewards are divided by the running deviation of their discounted sum. NaN or infinity from the world raises before
anything is learned from it.

Not covered: recurrent policies (`recurrent` has its own stage).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode.state import LIMIT
from headway.kits.practice import heads
from headway.kits.practice.engine import PolicyEngine
from headway.kits.practice.environments import Environments
from headway.kits.practice.heads import Actions
from headway.learn.mlp import Array
from headway.nouns.errors import InvalidInput

__all__ = ["Rollout", "RunningScale", "Scales", "Stage", "actions_of", "evaluate", "inputs_of"]


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
            kept: Array = np.clip(flat, -LIMIT, LIMIT)
            return kept.astype(dtype, copy=False)
        scaled: Array = np.clip((flat - self.means()) / self.deviations(), -LIMIT, LIMIT)
        return scaled.astype(dtype, copy=False)

    def reward_scale(self) -> float:
        if not self.normalise_rewards or not self.rewards.count:
            return 1.0
        return float(1.0 / np.sqrt(self.rewards.variance[0] + 1e-8))


@dataclass(frozen=True, slots=True)
class Rollout:
    """[time, copy, …]; rows with `mask` False are not transitions."""

    x: Array
    action: NDArray[Any]
    rewards: Array
    values: Array
    next_values: Array
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    allowed: NDArray[np.bool_] | None
    returns: list[float]  # of the episodes that ended here, unscaled
    steps: int


def actions_of(space: Any) -> Actions:
    """The heads for an action space: Discrete, MultiDiscrete or Box; anything else is refused.

    A space is recognised by its attributes (`n`, `nvec`, or `low` and `high`), so a world need not import gymnasium.
    """
    if not np.any(getattr(space, "start", 0)):
        if np.ndim(getattr(space, "nvec", 0)) == 1:
            return Actions("categorical", tuple(int(size) for size in space.nvec))
        if _whole(space):
            return Actions("categorical", (int(space.n),))
    if hasattr(space, "low") and hasattr(space, "high") and np.issubdtype(space.dtype, np.floating) and space.shape:
        low, high = (tuple(float(number) for number in np.ravel(bound)) for bound in (space.low, space.high))
        return Actions("gaussian", (len(low),), low, high)
    raise InvalidInput(
        f"A policy cannot act in {space!r:.120}.",
        code="bad_space",
        hint="Actions may be Discrete, MultiDiscrete (both counting from 0) or a Box of real numbers.",
    )


def inputs_of(space: Any) -> int:
    """How wide an observation is: a Box flattened, or a Discrete one as one-hot; anything else is refused."""
    if _whole(space):
        return int(space.n)
    if getattr(space, "shape", None) is not None and not hasattr(space, "n") and not hasattr(space, "nvec"):
        return int(np.prod(space.shape)) or 1
    raise InvalidInput(
        f"A policy cannot observe {space!r:.120}.",
        code="bad_space",
        hint="Observations may be a Box or Discrete; wrap others with gymnasium.wrappers.FlattenObservation.",
    )


def _whole(space: Any) -> bool:
    """Discrete: one of n, from 0."""
    count = getattr(space, "n", None)
    return (
        isinstance(count, int | np.integer)
        and not getattr(space, "shape", ())
        and not np.any(getattr(space, "start", 0))
    )


class Stage:
    """The copies of a world, their present observations, and running statistics."""

    def __init__(
        self, envs: Environments, *, seed: int, normalise_observations: bool = True, normalise_rewards: bool = True
    ) -> None:
        self.envs = envs
        self.actions = actions_of(envs.single_action_space)
        self.inputs = inputs_of(envs.single_observation_space)
        self._discrete = _whole(envs.single_observation_space)
        self.scales = Scales(
            RunningScale.of(self.inputs),
            normalise_observations=normalise_observations and not self._discrete,
            normalise_rewards=normalise_rewards,
        )
        mode = getattr(envs.metadata.get("autoreset_mode"), "value", envs.metadata.get("autoreset_mode", "NextStep"))
        if mode not in ("NextStep", "SameStep"):
            raise InvalidInput(
                f"The world's copies do not reset themselves ({mode!r}).",
                code="bad_world",
                hint="Use AutoresetMode.NEXT_STEP or SAME_STEP.",
            )
        self._late = mode == "NextStep"
        self._rng = np.random.default_rng([seed, 0xAC7])
        self._masks = getattr(envs, "action_masks", None)
        observations, _ = envs.reset(seed=seed)
        self._now = self.flat(observations)
        self._skip = np.zeros(envs.num_envs, dtype=np.bool_)  # next-step mode: copies whose step only resets
        self._paid = np.zeros(envs.num_envs)
        self._discounted = np.zeros(envs.num_envs)

    def flat(self, observations: NDArray[Any]) -> NDArray[Any]:
        """[copy, width], raw."""
        if self._discrete:
            return np.eye(self.inputs, dtype=np.float32)[np.asarray(observations, dtype=np.int64)]
        return observations.reshape(len(observations), -1)

    def collect(self, engine: PolicyEngine, *, horizon: int, gamma: float, dtype: Any = np.float32) -> Rollout:
        """`horizon` steps of every copy."""
        envs, count = self.envs, self.envs.num_envs
        x = np.empty((horizon, count, self.inputs), dtype=dtype)
        raw = np.empty((horizon, count, self.inputs), dtype=self._now.dtype)
        categorical = self.actions.kind == "categorical"
        width = len(self.actions.sizes) if categorical else self.actions.outputs
        action = np.empty((horizon, count, width), dtype=np.int64 if categorical else dtype)
        rewards = np.empty((horizon, count))
        terminated = np.empty((horizon, count), dtype=np.bool_)
        truncated = np.empty((horizon, count), dtype=np.bool_)
        mask = np.ones((horizon, count), dtype=np.bool_)
        allowed = np.empty((horizon, count, self.actions.outputs), dtype=np.bool_) if self._masks else None
        shape = (horizon, count, width)
        draws = self._rng.random(shape) if categorical else self._rng.standard_normal(shape)
        finals: list[tuple[int, NDArray[np.int64], NDArray[Any]]] = []
        ended: list[float] = []
        free, scales = engine.free, self.scales
        for t in range(horizon):
            raw[t] = self._now
            x[t] = scales.seen(self._now, dtype)
            may = None if self._masks is None else np.asarray(self._masks()).reshape(count, -1)
            if allowed is not None:
                allowed[t] = may
            chosen = heads.sample(self.actions, engine.outputs(x[t]), free, draws[t], may)
            action[t] = chosen
            observations, reward, over, cut, info = envs.step(self._given(chosen))
            rewards[t], terminated[t], truncated[t] = reward, over, cut
            if self._late:
                np.logical_not(self._skip, out=mask[t])
            self._now = self.flat(observations)
            where = np.flatnonzero(over | cut)
            ended += self._pay(reward, where)
            if self._late:
                self._skip = over | cut
            elif where.size:
                finals.append((t, where, self.flat(_final(info, where))))
        self._refuse(raw, self._now, rewards, finals)
        values = _values(engine, x.reshape(horizon * count, -1)).reshape(horizon, count)
        next_values = self._next_values(engine, values, finals, dtype)
        self._follow(raw, rewards, terminated | truncated, mask, gamma)
        return Rollout(
            x=x, action=action, rewards=(rewards * scales.reward_scale()).astype(dtype), values=values,
            next_values=next_values, terminated=terminated, truncated=truncated, mask=mask, allowed=allowed,
            returns=ended, steps=int(mask.sum()),
        )  # fmt: skip

    def _given(self, chosen: NDArray[Any]) -> NDArray[Any]:
        """[copy, …]: the actions in the form that the world expects."""
        if self.actions.kind == "categorical":
            return chosen[:, 0] if chosen.shape[1] == 1 else chosen
        space = self.envs.single_action_space
        shape = getattr(space, "shape", ()) or ()
        return self.actions.acted(chosen).reshape(len(chosen), *shape).astype(space.dtype)

    def _pay(self, reward: NDArray[Any], where: NDArray[np.int64]) -> list[float]:
        """Add a step's rewards; the returns of the episodes that ended."""
        self._paid += reward
        ended: list[float] = self._paid[where].tolist()
        self._paid[where] = 0.0
        if self._late:
            self._paid[self._skip] = 0.0
        return ended

    def _next_values(
        self, engine: PolicyEngine, values: Array, finals: list[tuple[int, NDArray[np.int64], NDArray[Any]]], dtype: Any
    ) -> Array:
        """[time, copy]: the value of what followed each row; of the final observation where an episode ended."""
        next_values = np.empty_like(values)
        next_values[:-1] = values[1:]
        next_values[-1] = engine.values(self.scales.seen(self._now, dtype))
        for t, where, final in finals:
            next_values[t, where] = engine.values(self.scales.seen(final, dtype))
        return next_values

    def _follow(
        self, raw: NDArray[Any], rewards: NDArray[Any], done: NDArray[np.bool_], mask: NDArray[np.bool_], gamma: float
    ) -> None:
        """Update the statistics after a rollout; during it and its update they are frozen."""
        if self.scales.normalise_observations:
            self.scales.observations.add(raw[mask])
        if self.scales.normalise_rewards:
            sums = np.empty_like(rewards)
            for t in range(len(rewards)):
                self._discounted = sums[t] = self._discounted * gamma + rewards[t]
                self._discounted = self._discounted * ~done[t]
            self.scales.rewards.add(sums[mask][:, None])

    def _refuse(self, raw: NDArray[Any], last: NDArray[Any], rewards: NDArray[Any], finals: list[Any]) -> None:
        sound = np.isfinite(raw).all() and np.isfinite(last).all() and all(np.isfinite(f).all() for _, _, f in finals)
        if not sound or not np.isfinite(rewards).all():
            what = "a reward" if sound else "an observation"
            raise InvalidInput(
                f"The world gave {what} that is not a finite number.",
                code="not_finite",
                hint="Nothing was learned from this rollout; fix the world and resume from the last snapshot.",
            )


def _final(info: Mapping[str, Any], where: NDArray[np.int64]) -> NDArray[Any]:
    final = info.get("final_obs", info.get("final_observation"))
    if final is None:
        raise InvalidInput(
            "The world resets in the same step without the final observation of an episode.",
            code="bad_world",
            hint='Return it as info["final_obs"], as Gymnasium\'s vector environments do.',
        )
    return np.stack([np.asarray(final[place]) for place in where])


def _values(engine: PolicyEngine, x: Array, chunk: int = 4096) -> Array:
    if len(x) <= chunk:
        return engine.values(x)
    return np.concatenate([engine.values(x[begin : begin + chunk]) for begin in range(0, len(x), chunk)])


def evaluate(
    envs: Environments, engine: PolicyEngine, stage: Stage, *, episodes: int, seed: int, dtype: Any = np.float32
) -> list[float]:
    """Returns of the first `episodes` greedy episodes, one per copy and then in turn; unscaled.

    Every copy contributes the same number: counting the first to end would favour short episodes.
    """
    count = envs.num_envs
    quota = -(-episodes // count)
    observations, _ = envs.reset(seed=seed)
    late = getattr(envs.metadata.get("autoreset_mode"), "value", "NextStep") == "NextStep"
    masks, rest = getattr(envs, "action_masks", None), getattr(envs, "rest", None)
    paid, skip = np.zeros(count), np.zeros(count, dtype=np.bool_)
    returns: list[list[float]] = [[] for _ in range(count)]
    box = getattr(envs.single_action_space, "shape", ()) or ()
    while any(len(ended) < quota for ended in returns):
        x = stage.scales.seen(stage.flat(observations), dtype)
        may = None if masks is None else np.asarray(masks()).reshape(count, -1)
        chosen = heads.greedy(stage.actions, engine.outputs(x), may)
        given: NDArray[Any] = chosen
        if stage.actions.kind == "gaussian":
            given = stage.actions.acted(chosen).reshape(count, *box).astype(envs.single_action_space.dtype)
        elif len(stage.actions.sizes) == 1:
            given = chosen[:, 0]
        observations, reward, over, cut, _ = envs.step(given)
        paid += np.where(skip, 0.0, reward)
        done = over | cut
        for place in np.flatnonzero(done).tolist():
            returns[place].append(float(paid[place]))
            paid[place] = 0.0
            if rest is not None and len(returns[place]) == quota:
                rest(place)
        if late:
            skip = done
    turns = [ended[turn] for turn in range(quota) for ended in returns]
    return turns[:episodes]
