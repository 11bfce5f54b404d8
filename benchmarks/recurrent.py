"""Recurrent PPO on worlds that need a memory, against RecurrentPPO of sb3-contrib.

    python benchmarks/recurrent.py --json
    python benchmarks/recurrent.py --only cartpole --seeds 5 --keep runs

CartPole without velocities: CPU seconds of one thread until the mean return of greedy episodes reaches 450. Both sides
are evaluated on the same grid, after the first update beyond every 2,048 steps: 20 episodes, and if their mean reaches
the target, 100 fresh ones must confirm it; that ends a run. Evaluation and imports are not timed, everything else is.
The peer runs by its own entry point with the settings that rl-baselines3-zoo publishes for CartPoleNoVel-v1
(hyperparams/ppo_lstm.yml). A peer's run that ends its published number of steps, or 900 CPU seconds, without the target
counts with the time it took, and the ratio is then a lower bound ("≥"). `…_same_width` is the peer with an LSTM as wide
as ours. A pull request to sb3-contrib that feeds whole sequences (number 118, open) claims to be 5 to 9 times as fast;
it is not on PyPI, so `…_if_9_times_faster` is the ratio divided by nine.

popgym's RepeatPreviousEasy and AutoencodeEasy: the mean return after the same number of steps on both sides (greedy and
sampled, whichever is better for each), and CPU seconds. The peer has sb3-contrib's default settings with 8 copies.

Our settings were chosen on seeds 0 to 5; here seeds begin at 100. --device is where ours learns.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from _contract import arguments, finish, say

GRID, EPISODES, CONFIRM, TARGET = 2048, 20, 100, 450.0
FIRST_SEED = 100
CAP, QUICK_CAP = 900.0, 30.0
ZOO: dict[str, Any] = {
    "n_envs": 8, "n_timesteps": 100_000, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98,
    "n_epochs": 20, "ent_coef": 0.0, "learning_rate": 0.001, "clip_range": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run: CPU seconds without evaluation, steps, whether it reached the target, and its final return."""

    seconds: float
    steps: int
    reached: bool
    final: float


class PositionsOnly(gymnasium.ObservationWrapper):
    """CartPole that shows the positions of cart and pole, not their velocities."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        space = env.observation_space
        self.observation_space = gymnasium.spaces.Box(space.low[::2], space.high[::2])

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation[::2]


def masked() -> gymnasium.Env:
    return PositionsOnly(gymnasium.make("CartPole-v1", disable_env_checker=True))


class Watch:
    """Looks at a policy now and then, the same way at both sides, with a clock that stands still meanwhile."""

    def __init__(self, cap: float) -> None:
        self.cap, self.reached, self._judged, self._looking = cap, False, 0, 0.0
        self._envs = [masked() for _ in range(EPISODES)]
        self._begin = time.process_time()

    @property
    def seconds(self) -> float:
        return time.process_time() - self._begin - self._looking

    @property
    def over(self) -> bool:
        return self.reached or self.seconds > self.cap

    def look(self, steps: int, act: Callable[..., Any]) -> None:
        """After an update; `act(observations, memory, starts)` gives (actions, memory)."""
        if steps // GRID > self._judged // GRID:
            self._judged, before = steps, time.process_time()
            looks = ((EPISODES, 10_000_000), (CONFIRM, 20_000_000))
            self.reached = all(self.mean(act, count, begin + steps) >= TARGET for count, begin in looks)
            self._looking += time.process_time() - before

    def mean(self, act: Callable[..., Any], episodes: int, seed: int) -> float:
        """The mean return of so many episodes, in Gymnasium's own environment at both sides."""
        paid = 0.0
        for first in range(seed, seed + episodes, EPISODES):
            seen = np.stack([env.reset(seed=first + place)[0] for place, env in enumerate(self._envs)])
            going, memory, starts = np.ones(EPISODES, dtype=bool), None, np.ones(EPISODES, dtype=bool)
            while going.any():
                actions, memory = act(seen, memory, starts)
                starts = np.zeros(EPISODES, dtype=bool)
                for place in np.flatnonzero(going):
                    seen[place], reward, ended, cut, _ = self._envs[place].step(int(actions[place]))
                    paid += float(reward)
                    going[place] = not (ended or cut)
        return paid / episodes


def sb3(seed: int, cap: float, width: int = 256) -> Run:
    """RecurrentPPO of sb3-contrib by its own entry point."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

    torch.set_num_threads(1)
    RecurrentPPO("MlpLstmPolicy", DummyVecEnv([masked]), n_steps=8, device="cpu").learn(8)  # imports are not timed
    watch = Watch(cap)
    settings = dict(ZOO)
    envs = DummyVecEnv([masked for _ in range(settings.pop("n_envs"))])
    total = settings.pop("n_timesteps")
    rate, clip = settings.pop("learning_rate"), settings.pop("clip_range")
    model = RecurrentPPO(
        "MlpLstmPolicy", envs, seed=seed, device="cpu", policy_kwargs={"lstm_hidden_size": width},
        learning_rate=lambda left: left * rate, clip_range=lambda left: left * clip, **settings,
    )  # fmt: skip

    def act(seen: np.ndarray, memory: Any, starts: np.ndarray) -> Any:
        return model.predict(seen, state=memory, episode_start=starts, deterministic=True)

    class Looks(BaseCallback):
        def _on_rollout_start(self) -> None:
            watch.look(self.num_timesteps, act)

        def _on_step(self) -> bool:
            return not watch.over

    model.learn(total, callback=Looks())
    watch.look(model.num_timesteps + GRID, act)
    return Run(watch.seconds, model.num_timesteps, watch.reached, watch.mean(act, CONFIRM, 40_000_000 + seed))


if __name__ == "__main__":
    import sys

    warnings.filterwarnings("ignore")
    for seed in map(int, sys.argv[2:]):
        print(seed, sb3(seed, CAP, int(sys.argv[1])), flush=True)
