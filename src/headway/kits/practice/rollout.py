"""Acts in many copies of a world at once and records the transitions.

    stage = Stage(envs, seed=7)                                    # checks the spaces; refuses unsupported ones
    rollout = stage.collect(engine, horizon=128, gamma=0.99)       # Rollout: [time, copy, …]
    returns = evaluate(envs, engine, stage.scales, episodes=20)    # greedy

    groups = CrewGroups(held, source, count=16, seed=7)            # acting.py
    Stage(envs, seed=7, groups=groups)                             # the same, with copies in other processes

Only the actor runs while acting; values and log-probabilities of all rows are computed later, in a few large calls.

Resets, as Gymnasium 1.x does them. *Same step*: the observation after an end is the next episode's first one; the
final one is `info["final_obs"]`, and its value is credited to a truncated episode. *Next step*: the
observation after an end is the final one, and the following step ignores its action and returns the reset observation:
that row is masked (weight 0). Both are tested against a slow loop over single environments.

Observations are standardised by running means and deviations (`normalise`), frozen during a rollout and its update;
rewards are divided by the running deviation of their discounted sum. NaN or infinity from the world raises before
anything is learned from it.

Not covered: recurrent policies (`recurrent` has its own stage).

Advantages and returns of rollouts, which treat terminated and truncated episodes differently.

advantages, returns = gae(rewards, values, next_values, terminated, truncated, gamma=0.99, lam=0.95)

    δ_t = r_t + γ·V(next_t)·[not terminated] − V(s_t)
    A_t = δ_t + γλ·[neither terminated nor truncated]·A_{t+1},     R_t = A_t + V(s_t)      (Schulman et al., 2016)

A terminated episode has no future value; a truncated one would have continued, so the value of its *final* observation
(`next_values`) counts, and only the sum stops. A masked row (a vectorised environment's reset step, padding) gets 0 and
ends the sum.

`next_values[t]` is the value of the observation after the step: the final one if the episode ended there, not the first
one of the next episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice import heads
from headway.kits.practice.acting import ActedSteps, ActingGroup, ActingGroups, RunningScale, Scales
from headway.kits.practice.engine import PolicyEngine
from headway.kits.practice.environments import Environments
from headway.kits.practice.mlp import Array
from headway.kits.practice.spaces import WorldSpaces
from headway.nouns import errors


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


class Stage:
    """The copies of a world that act, and running statistics. `groups` act instead of the copies in `envs`."""

    def __init__(
        self,
        envs: Environments,
        *,
        seed: int,
        normalise_observations: bool = True,
        normalise_rewards: bool = True,
        groups: ActingGroups | None = None,
    ) -> None:
        self.envs, self.spaces = envs, WorldSpaces.of(envs)
        self.scales = Scales(
            RunningScale.of(self.inputs),
            normalise_observations=normalise_observations and not self.spaces.discrete,
            normalise_rewards=normalise_rewards,
        )
        self._groups: ActingGroups = groups or ActingGroup(envs, seed=seed)
        self._rng = np.random.default_rng([seed, 0xAC7])
        self._discounted = np.zeros(self._groups.count)

    @property
    def actions(self) -> heads.Actions:
        return self.spaces.actions

    @property
    def inputs(self) -> int:
        return self.spaces.inputs

    def flat(self, observations: NDArray[Any]) -> NDArray[Any]:
        """[copy, width], raw."""
        return self.spaces.flat(observations)

    def collect(self, engine: PolicyEngine, *, horizon: int, gamma: float, dtype: Any = np.float32) -> Rollout:
        """`horizon` steps of every copy."""
        categorical = self.actions.kind == "categorical"
        shape = (horizon, self._groups.count, len(self.actions.sizes) if categorical else self.actions.outputs)
        draws = self._rng.random(shape) if categorical else self._rng.standard_normal(shape)
        acted = self._groups.act(engine, self.scales, draws, dtype)
        seen = (acted.raw, acted.last, *(final for _, _, final in acted.finals))
        sound = all(bool(np.isfinite(numbers).all()) for numbers in seen)
        refuse_not_finite(seen=sound, rewards=bool(np.isfinite(acted.rewards).all()))
        values = _values(engine, acted.x.reshape(-1, self.inputs)).reshape(acted.rewards.shape)
        next_values = self._next_values(engine, values, acted, dtype)
        self._follow(acted, gamma)
        return Rollout(
            x=acted.x, action=acted.action, rewards=(acted.rewards * self.scales.reward_scale()).astype(dtype),
            values=values, next_values=next_values, terminated=acted.terminated, truncated=acted.truncated,
            mask=acted.mask, allowed=acted.allowed, returns=acted.returns, steps=int(acted.mask.sum()),
        )  # fmt: skip

    def _next_values(self, engine: PolicyEngine, values: Array, acted: ActedSteps, dtype: Any) -> Array:
        """[time, copy]: the value of what followed each row; of the final observation where an episode ended."""
        next_values = np.empty_like(values)
        next_values[:-1] = values[1:]
        next_values[-1] = engine.values(self.scales.seen(acted.last, dtype))
        for t, where, final in acted.finals:
            next_values[t, where] = engine.values(self.scales.seen(final, dtype))
        return next_values

    def _follow(self, acted: ActedSteps, gamma: float) -> None:
        """Update the statistics after a rollout; during it and its update they are frozen."""
        if self.scales.normalise_observations:
            self.scales.observations.add(acted.raw[acted.mask])
        if self.scales.normalise_rewards:
            done, sums = acted.terminated | acted.truncated, np.empty_like(acted.rewards)
            for t in range(len(sums)):
                self._discounted = sums[t] = self._discounted * gamma + acted.rewards[t]
                self._discounted = self._discounted * ~done[t]
            self.scales.rewards.add(sums[acted.mask][:, None])


def refuse_not_finite(*, seen: bool, rewards: bool) -> None:
    """Refuse a rollout in which what was seen, or the rewards, are not all finite."""
    if not (seen and rewards):
        what = "a reward" if seen else "an observation"
        raise errors.InvalidInput(
            f"The world gave {what} that is not a finite number.",
            code="not_finite",
            hint="Nothing was learned from this rollout; fix the world and resume from the last snapshot.",
        )


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
    while any(len(ended) < quota for ended in returns):
        x = stage.scales.seen(stage.flat(observations), dtype)
        may = None if masks is None else np.asarray(masks()).reshape(count, -1)
        chosen = heads.greedy(stage.actions, engine.outputs(x), may)
        observations, reward, over, cut, _ = envs.step(stage.spaces.given(chosen))
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


def gae(
    rewards: NDArray[Any],
    values: NDArray[Any],
    next_values: NDArray[Any],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    *,
    gamma: float,
    lam: float,
    mask: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(advantages, returns), shaped as the input: time first, any further axes."""
    kind = values.dtype
    delta = rewards + (gamma * next_values) * ~terminated
    delta -= values
    keep = (gamma * lam) * ~(terminated | truncated)
    if mask is not None:
        delta *= mask
        keep *= mask
    delta, keep = delta.astype(kind, copy=False), keep.astype(kind, copy=False)
    running = np.zeros(values.shape[1:], dtype=kind)
    for t in range(len(delta) - 1, -1, -1):
        # In place: `delta` becomes the advantage.
        running = delta[t] = delta[t] + keep[t] * running
    return delta, delta + values
