"""A small world that uses every part of the interface: several heads, masks, indices, ends and truncations."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.kits.grow.factored.space import Observations
from headway.kits.grow.worlds import StepResult, random_from, random_state
from tests.kits.grow.spaces import TOY

__all__ = ["ToyWorld"]


class ToyWorld:
    """Random observations; episodes of random length; reward 1 for `go` to the place that was shown at the start."""

    def __init__(self, count: int) -> None:
        self.count, self.space, self.features = count, TOY, 3
        self.indices: tuple[int, ...] = (5, 4)
        self.feedback = (2,)
        self.rng = np.random.default_rng(0)
        self.goal = np.zeros(count, dtype=np.int64)
        self.age = np.zeros(count, dtype=np.int64)

    def reset(self, seed: int) -> tuple[Observations, Mapping[str, Any]]:
        self.rng = np.random.default_rng(seed)
        self.goal, self.age = self.rng.integers(0, 2, self.count), np.zeros(self.count, dtype=np.int64)
        return self._seen(), self._masks()

    def step(self, actions: Any) -> StepResult:
        rewards = ((actions[:, 0] == 1) & (actions[:, 1] == self.goal)).astype(np.float64)
        self.age += 1
        over = self.rng.random(self.count) < 0.1
        cut = ~over & (self.age >= 9)
        done = over | cut
        info: dict[str, Any] = {"metrics": {"goal": self.goal}, "credit": rewards}
        if done.any():
            final = self._seen()
            info["final"] = Observations(final.features[done], final.indices[done])
            self.goal[done], self.age[done] = self.rng.integers(0, 2, int(done.sum())), 0
        return StepResult(self._seen(), self._masks(), rewards, over, cut, info)

    def _seen(self) -> Observations:
        shown = np.where(self.age == 0, 2.0 * self.goal - 1.0, 0.0)
        features = np.stack((shown, self.age / 9.0, np.sin(self.age + self.goal)), axis=1)
        return Observations(features, np.stack((self.age % 5, self.goal), axis=1))

    def _masks(self) -> Mapping[str, Any]:
        place = np.ones((self.count, 3, 2), dtype=bool)
        place[self.age % 2 == 1, 2, 0] = False  # `turn` may not go to a every other step
        size = np.ones((self.count, 4), dtype=bool)
        size[:, 3] = self.age > 2
        return {"place": place, "size": size}

    def state(self) -> dict[str, Any]:
        return {"goal": self.goal.copy(), "age": self.age.copy(), "random": random_state(self.rng)}

    def restore(self, state: Mapping[str, Any]) -> tuple[Observations, Mapping[str, Any]]:
        self.goal, self.age = np.array(state["goal"]), np.array(state["age"])
        self.rng = random_from(state["random"])
        return self._seen(), self._masks()

    def close(self) -> None:
        pass
