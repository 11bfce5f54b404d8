"""The world changes under a promoted policy: the loop notices, explores, and another policy takes over."""

from __future__ import annotations

from statistics import mean

import pytest

from tests.loop.conftest import AUTO
from tests.loop.played import TASK, MovedClock, Played


def promoted(watching, seed: int, *, toml: str = AUTO) -> Played:
    """A world in which "large" is best, and the loop has found that out."""
    clock = MovedClock()
    watch = watching(toml + "range = [0, 1]\n", clock=clock, timed=False)
    world = Played(watch, clock, {"small": 0.6, "large": 0.95}, seed=seed)
    world.serve(1500, until=lambda: bool(world.rows("promote")))
    assert world.rows("promote")
    return world


def test_a_collapse_is_noticed_and_the_other_action_takes_over(watching):
    world = promoted(watching, 1)
    world.serve(200)
    changed = world.made
    world.chances = {"small": 0.6, "large": 0.1}
    world.serve(300, every=25, until=lambda: bool(world.rows("alarm")))
    assert world.rows("alarm"), "noticed"
    assert world.made - changed <= 100
    world.serve(3000, every=25, until=lambda: world.watch.project.standing(TASK).alarm is None)
    assert world.watch.project.standing(TASK).alarm is None, "another policy took over"
    assert world.best() == "small", "the other action is served"
    assert not world.errors


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_served_after_a_collapse_earns_nearly_the_best(watching, seed):
    world = promoted(watching, 20 + seed)
    world.serve(1000)
    changed = world.made
    world.chances = {"small": 0.6, "large": 0.35}
    world.serve(8000)
    assert mean(world.earned[changed:]) >= 0.55
    assert not world.errors


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_a_fall_of_all_actions_rolls_nothing_back(watching, seed):
    world = promoted(watching, 30 + seed)
    world.serve(300)
    world.chances = {"small": 0.2, "large": 0.55}
    world.serve(3000)
    assert world.rows("alarm"), "noticed"
    assert not world.rows("rollback")
    assert len(world.rows("promote")) == 1
    assert world.watch.project.standing(TASK).alarm is None
    assert not world.errors
