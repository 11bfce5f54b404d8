"""The control worlds are learned to their targets; `make test-slow` runs the long ones."""

from __future__ import annotations

from typing import Any

import pytest

from headway.kits.practice.environments import ENVIRONMENTS
from headway.kits.practice.fit import judged, practise_in
from headway.kits.practice.run import preset
from tests.kits.practice.copies import practice

pytest.importorskip("gymnasium", reason="gymnasium is in the extra 'worlds'")

LEAST = {"cartpole": 450.0, "acrobot": -110.0, "lunarlander": 180.0}  # of held-out episodes


@pytest.mark.parametrize(
    "world",
    [
        "cartpole",
        pytest.param("acrobot", marks=pytest.mark.slow),
        pytest.param("lunarlander", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_a_world_is_learned_to_its_target(world: str) -> None:
    def make(count: int) -> Any:
        return practice(world, count=count)

    if world == "lunarlander":
        pytest.importorskip("Box2D", reason="box2d is in the extra 'worlds'")
    fitted = practise_in(make, preset(ENVIRONMENTS[world]), seed=1)
    assert fitted.reached
    assert fitted.curve[-1].mean >= (preset(ENVIRONMENTS[world]).target or 0.0)
    assert judged(make, fitted, episodes=100, seed=4242).mean >= LEAST[world]
