"""CartPole without velocities: the policy sees where cart and pole are, and must remember how they move.

world = masked_cartpole(count=64)

The dynamics, limits and rewards are those of Gymnasium's CartPole-v1 (500 steps at most, which is a truncation); a test
compares both step by step. All copies are stepped together, and `state` continues bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.factored.space import Factored, Head, Observations
from headway.kits.grow.worlds import StepResult, random_from, random_state

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
