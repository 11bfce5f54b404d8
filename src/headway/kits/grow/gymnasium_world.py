"""Any Gymnasium world of discrete choices as a factored world: one head, or one per number of a MultiDiscrete action.

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
from headway.kits.grow.worlds import StepResult
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
