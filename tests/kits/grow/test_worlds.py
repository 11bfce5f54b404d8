"""The worlds of the kit: masked CartPole against Gymnasium's, and any Gymnasium world through one interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.kits.grow.masked_cartpole import MaskedCartPole
from headway.kits.grow.worlds import random_from, random_state

gymnasium = pytest.importorskip("gymnasium")

from headway.kits.grow.gymnasium_world import GymnasiumWorld  # noqa: E402
from headway.kits.practice.environments import environment  # noqa: E402
from headway.nouns.errors import InvalidInput  # noqa: E402


def test_masked_cartpole_moves_as_gymnasium_does() -> None:
    world, rng = MaskedCartPole(3), np.random.default_rng(4)
    world.reset(4)
    single: list[Any] = [gymnasium.make("CartPole-v1").unwrapped for _ in range(3)]
    for place, env in enumerate(single):
        env.reset(seed=0)
        env.state = tuple(world.state_now[:, place])
    ended = 0
    for _ in range(120):
        actions = rng.integers(0, 2, (3, 1))
        result = world.step(actions)
        place_of = {place: number for number, place in enumerate(np.flatnonzero(result.terminated))}
        for place, env in enumerate(single):
            seen, reward, over, _, _ = env.step(int(actions[place, 0]))
            assert over == result.terminated[place]
            assert reward == result.rewards[place]
            if over:
                ended += 1
                assert result.info["final"].features[place_of[place]] == pytest.approx(seen[::2], abs=1e-6)
                env.reset(seed=0)
                env.state = tuple(world.state_now[:, place])
            else:
                assert result.observations.features[place] == pytest.approx(seen[::2], abs=1e-6)
    assert ended > 5


def test_masked_cartpole_is_cut_after_500_steps_and_its_state_continues() -> None:
    world = MaskedCartPole(2)
    world.reset(1)
    world.age[:] = 498
    assert not world.step(np.zeros((2, 1), dtype=np.int64)).truncated.any()
    assert world.step(np.zeros((2, 1), dtype=np.int64)).truncated.all()
    stored = world.state()
    expected = [world.step(np.full((2, 1), t % 2)).observations.features for t in range(60)]
    other = MaskedCartPole(2)
    other.restore(stored)
    for t in range(60):
        assert np.array_equal(other.step(np.full((2, 1), t % 2)).observations.features, expected[t])


def test_the_state_of_a_generator_continues_it() -> None:
    rng = np.random.default_rng(9)
    rng.random(3)
    rng.integers(0, 7, dtype=np.int32)  # keeps half a word
    again = random_from(random_state(rng))
    assert rng.integers(0, 7, 5, dtype=np.int32).tolist() == again.integers(0, 7, 5, dtype=np.int32).tolist()
    assert rng.random() == again.random()


def test_a_gymnasium_world_has_one_head_and_tells_final_observations() -> None:
    world = GymnasiumWorld(environment("cartpole", count=2, native=False))
    assert world.space.sizes == (2,)
    assert world.features == 4
    world.reset(3)
    while True:
        result = world.step(np.zeros((2, 1), dtype=np.int64))
        if result.terminated.any():
            break
    assert len(result.info["final"]) == result.terminated.sum()
    assert abs(result.info["final"].features[0, 2]) > abs(result.observations.features[result.terminated][0, 2])
    world.close()
    with pytest.raises(InvalidInput, match="reset"):
        GymnasiumWorld(environment("cartpole", count=2))
