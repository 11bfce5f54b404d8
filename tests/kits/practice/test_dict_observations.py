"""A world that shows several parts: they become one row of numbers, in the order of their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.kits.practice.spaces import WorldSpaces
from tests.kits.practice.copies import practice

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is in the extra 'worlds'")


class Parts(gymnasium.Env):  # type: ignore[misc]  # untyped
    """Shows its step, and a colour; ends after three steps."""

    observation_space = gymnasium.spaces.Dict(
        {"step": gymnasium.spaces.Box(0.0, 9.0, (2,)), "colour": gymnasium.spaces.Discrete(3)}
    )
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.age = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.age += 1
        return self._seen(), float(action), self.age >= 3, False, {}

    def _seen(self) -> dict[str, Any]:
        return {"step": np.array([self.age, 2 * self.age], dtype=np.float32), "colour": self.age % 3}


def test_the_parts_are_flattened_by_name() -> None:
    if "Parts-v0" not in gymnasium.registry:
        gymnasium.register("Parts-v0", entry_point=Parts)
    envs = practice("Parts-v0", count=2)
    spaces = WorldSpaces.of(envs)
    assert spaces.inputs == 5
    first, _ = envs.reset(seed=1)
    second = envs.step(np.array([0, 1]))
    assert spaces.flat(first)[0].tolist() == [1, 0, 0, 0, 0]
    assert spaces.flat(second[0])[1].tolist() == [0, 1, 0, 1, 2], "the colour, then the two numbers of the step"
