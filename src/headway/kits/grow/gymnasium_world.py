"""Gymnasium's worlds of discrete choices as factored worlds, and CartPole without velocities.

A choice has one head, or one per number of a MultiDiscrete action.

    world = GymnasiumWorld(environment("cartpole", count=8, native=False))

Its copies must reset in the same step. `state` cannot hold what is inside of a Gymnasium environment: a resumed run
starts new episodes there, from a seed of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.factored.space import Factored, Head, Observations
from headway.kits.grow.worlds import StepResult, random_from, random_state
from headway.kits.practice import Environments, actions_of, final_observations, inputs_of
from headway.nouns import errors


class GymnasiumWorld:
    """Copies of a Gymnasium environment."""

    def __init__(self, envs: Environments) -> None:
        self.envs, self.count = envs, envs.num_envs
        actions = actions_of(envs.single_action_space)
        if actions.kind != "categorical":
            raise errors.InvalidInput(
                "The family 'recurrent' chooses; this world's actions are real numbers.",
                code="bad_space",
                hint="Use the family actor_critic.",
            )
        mode = getattr(envs.metadata.get("autoreset_mode"), "value", envs.metadata.get("autoreset_mode"))
        if mode != "SameStep":
            raise errors.InvalidInput(
                f"The world's copies reset by {mode!r}.", code="bad_world", hint="Use AutoresetMode.SAME_STEP."
            )
        self.space = _space(actions.sizes, getattr(envs, "action_names", None))
        self.features = inputs_of(envs.single_observation_space)
        self.indices: tuple[int, ...] = ()
        self._whole = hasattr(envs.single_observation_space, "n")
        self.scaled = self._whole  # one-hot
        self._masks = getattr(envs, "action_masks", None)
        self._next = 0
        limits = getattr(envs, "returns", None)
        if limits is not None:
            self.returns = limits

    def reset(self, seed: int) -> tuple[Observations, Mapping[str, Any]]:
        self._next = seed
        observations, _ = self.envs.reset(seed=seed)
        return self._seen(observations), self._allowed()

    def step(self, actions: NDArray[Any]) -> StepResult:
        given = actions[:, 0] if actions.shape[1] == 1 else actions
        observations, rewards, over, cut, info = self.envs.step(given)
        told: dict[str, Any] = {}
        done = np.flatnonzero(over | cut)
        if done.size:
            told["final"] = self._seen(final_observations(info, done))
        if "metrics" in info:
            told["metrics"] = info["metrics"]
        return StepResult(self._seen(observations), self._allowed(), rewards, over, cut & ~over, told)

    def _seen(self, observations: NDArray[Any]) -> Observations:
        rows = np.asarray(observations, dtype=np.float64).reshape(len(observations), -1)
        if self._whole:
            rows = np.eye(self.features)[rows[:, 0].astype(np.int64)]
        return Observations(rows, np.zeros((len(rows), 0), dtype=np.int64))

    def _allowed(self) -> Mapping[str, Any]:
        if self._masks is None:
            return {}
        allowed = np.asarray(self._masks(), dtype=np.bool_).reshape(self.count, -1)
        ends = np.cumsum(self.space.sizes)[:-1]
        return dict(zip(self.space.names, np.split(allowed, ends, axis=1), strict=True))

    def state(self) -> dict[str, Any]:
        return {"seed": np.array([self._next + 1_000_000_007], dtype=np.int64)}

    def restore(self, state: Mapping[str, Any]) -> tuple[Observations, Mapping[str, Any]]:
        return self.reset(int(state["seed"][0]) % (1 << 31))

    def close(self) -> None:
        self.envs.close()


def _space(sizes: tuple[int, ...], names: Any) -> Factored:
    if len(sizes) == 1:
        choices = tuple(map(str, names)) if names is not None else tuple(map(str, range(sizes[0])))
        return Factored((Head("action", choices),))
    heads = (Head(f"action{place}", tuple(map(str, range(size)))) for place, size in enumerate(sizes))
    return Factored(tuple(heads))


SPACE = Factored((Head("push", ("left", "right")),))
_GRAVITY, _CART, _POLE, _HALF, _FORCE, _TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
_ANGLE, _EDGE, _MOST = 12 * 2 * np.pi / 360, 2.4, 500


class MaskedCartPole:
    """Copies of the world; `state_now` is [4, copy]: position, velocity, angle, angular velocity."""

    def __init__(self, count: int) -> None:
        self.count, self.space, self.features = count, SPACE, 2
        self.indices: tuple[int, ...] = ()
        self.returns = (0.0, 500.0)
        self._none = np.zeros((count, 0), dtype=np.int64)
        self._rng = np.random.default_rng(0)
        self.state_now = np.zeros((4, count))
        self.age = np.zeros(count, dtype=np.int64)

    def reset(self, seed: int) -> tuple[Observations, Mapping[str, Any]]:
        self._rng = np.random.default_rng(seed)
        self.state_now = self._rng.uniform(-0.05, 0.05, size=(4, self.count))
        self.age = np.zeros(self.count, dtype=np.int64)
        return self._seen(), {}

    def step(self, actions: NDArray[Any]) -> StepResult:
        x, v, theta, w = self.state_now
        force = np.where(actions[:, 0] == 1, _FORCE, -_FORCE)
        cosine, sine = np.cos(theta), np.sin(theta)
        total, moment = _CART + _POLE, _POLE * _HALF
        push = (force + moment * np.square(w) * sine) / total
        spin = (_GRAVITY * sine - cosine * push) / (_HALF * (4.0 / 3.0 - _POLE * np.square(cosine) / total))
        pull = push - moment * spin * cosine / total
        self.state_now = np.stack((x + _TAU * v, v + _TAU * pull, theta + _TAU * w, w + _TAU * spin))
        self.age += 1
        over = (np.abs(self.state_now[0]) > _EDGE) | (np.abs(self.state_now[2]) > _ANGLE)
        cut = (self.age >= _MOST) & ~over
        done = over | cut
        info: dict[str, Any] = {}
        if done.any():
            info["final"] = Observations(self.state_now[::2, done].T, self._none[done])
            self.state_now[:, done] = self._rng.uniform(-0.05, 0.05, size=(4, int(done.sum())))
            self.age[done] = 0
        return StepResult(self._seen(), {}, np.ones(self.count), over, cut, info)

    def _seen(self) -> Observations:
        return Observations(self.state_now[::2].T, self._none)

    def state(self) -> dict[str, Any]:
        return {"state": self.state_now.copy(), "age": self.age.copy(), "random": random_state(self._rng)}

    def restore(self, state: Mapping[str, Any]) -> tuple[Observations, Mapping[str, Any]]:
        self.state_now, self.age = np.array(state["state"]), np.array(state["age"])
        self._rng = random_from(state["random"])
        return self._seen(), {}

    def close(self) -> None:
        pass


def masked_cartpole(*, count: int) -> MaskedCartPole:
    """The world `masked_cartpole`."""
    return MaskedCartPole(count)


masked_cartpole.family = "recurrent"  # type: ignore[attr-defined]  # what practises in it, if nobody says otherwise
