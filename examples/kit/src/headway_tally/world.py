"""The world `colours`: name the colour that is shown, five times."""

from types import SimpleNamespace

import numpy as np


class Colours:
    """Copies stepped together, with the shape of Gymnasium's VectorEnv."""

    action_names = ("blue", "green", "red")

    def __init__(self, *, count):
        self.num_envs = count
        self.single_observation_space = SimpleNamespace(shape=(3,), dtype=np.dtype(np.float32), low=0.0, high=1.0)
        self.single_action_space = SimpleNamespace(n=3, start=0)
        self.metadata = {"autoreset_mode": "SameStep"}

    def reset(self, *, seed=None):
        self._rng, self._steps = np.random.default_rng(seed), 0
        return self._show(), {}

    def step(self, actions):
        rewards = (np.asarray(actions) == self._shown).astype(np.float64)
        self._steps = (self._steps + 1) % 5
        over, never = np.full(self.num_envs, self._steps == 0), np.zeros(self.num_envs, dtype=np.bool_)
        last, observations = np.eye(3, dtype=np.float32)[self._shown], self._show()
        return observations, rewards, over, never, {"final_obs": last, "_final_obs": over} if over[0] else {}

    def close(self):
        """Nothing is held open."""

    def _show(self):
        self._shown = self._rng.integers(3, size=self.num_envs)
        return np.eye(3, dtype=np.float32)[self._shown]
