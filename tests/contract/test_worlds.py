"""Every world of the built-in kits satisfies the world contract, which detects violations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.kits.prompts.synthetic import synthetic
from headway.nouns.kit import catalogue, load
from headway.testing import factored_world_contract, world_contract

NEEDS = {"cartpole": "gymnasium", "acrobot": "gymnasium", "lunarlander": "Box2D"}


WITH_FILES = {"sim"}  # needs a file of problems: tests/kits/simulator/test_world.py checks its contract


@pytest.mark.parametrize("name", sorted(set(catalogue().all("worlds")) - WITH_FILES))
def test_a_world_satisfies_the_contract(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is in the extra 'worlds'")
    make = load(catalogue().all("worlds")[name])
    if getattr(make, "family", "") == "recurrent":
        factored_world_contract(make)
    else:
        world_contract(make)


class Broken:
    """The prompts world with one incorrect method."""

    def __init__(self, **lies: Any) -> None:
        self._envs, self._lies = synthetic(count=4), lies

    def __getattr__(self, name: str) -> Any:
        return self._lies.get(name) or getattr(self._envs, name)

    def reset(self, *, seed: int) -> Any:
        return self._envs.reset(seed=self._lies.get("seed", seed))

    def step(self, actions: Any) -> Any:
        answer = list(self._envs.step(actions))
        if "reward" in self._lies:
            answer[1] = np.full(4, self._lies["reward"])
        return tuple(answer)


@pytest.mark.parametrize(
    ("lies", "message"),
    [
        ({"num_envs": 5}, "gives 5 copies"),
        ({"reward": float("nan")}, "not a finite number"),
        ({"seed": 1}, "the seed changes nothing"),
        ({"action_masks": lambda: np.zeros((4, 5), dtype=bool)}, "leaves no action"),
    ],
    ids=["copies", "reward", "seed", "masks"],
)
def test_a_world_that_breaks_the_contract_is_detected(lies: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        world_contract(lambda *, count: Broken(**lies) if count == 4 else synthetic(count=count))
