"""The worlds of the kit: masked CartPole against Gymnasium's, and any Gymnasium world through one interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.kits.grow.gymnasium_world import MaskedCartPole
from headway.kits.grow.scaffold import GROW_B, LENGTH, SPACE, Scaffold, best_memoryless
from headway.kits.grow.worlds import random_from, random_state


def played(blueprints: tuple[int, int], *, prune: bool = True, fossilise: bool = True) -> tuple[float, list[Any]]:
    """The reward of one episode that germinates these blueprints in A and B, and everything that was seen."""
    world = Scaffold(1)
    seen, masks = world.reset(2)
    need, history = int(world.need[0]), [seen.features[0]]
    moves = {0: (1, 0, blueprints[0]), GROW_B: (1, 1, blueprints[1])}
    moves |= {57: (3, 0, 0)} if prune else {}
    moves |= {58: (4, 1, 0)} if fossilise else {}
    for time in range(LENGTH):
        op, slot, blueprint = moves.get(time, (0, 0, 0))
        assert masks["op"][0, op]
        assert masks["slot"][0, op, slot]
        assert time in (0, GROW_B, 57, 58) or masks["op"][0].sum() == 1, "nothing but WAIT in between"
        move = (op, slot, (need + blueprint) % 3 if op == 1 else 0)
        result = world.step(np.array([move]))
        masks = result.masks
        history.append(result.observations.features[0])
    assert result.terminated.all()
    return float(result.rewards[0]), history


def test_scaffold_pays_for_the_blueprint_that_was_shown_56_steps_before() -> None:
    assert played((0, 0))[0] == 1.0
    for wrong in ((1, 0), (0, 1), (1, 1), (2, 2)):
        assert played(wrong)[0] == 0.0
    assert played((0, 0), prune=False)[0] == 0.0
    assert played((0, 0), fossilise=False)[0] == 0.0


def test_nothing_but_the_first_observation_tells_the_blueprint() -> None:
    right, wrong = played((0, 0))[1], played((1, 2))[1]
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(right[1:LENGTH], wrong[1:LENGTH], strict=True))


def test_the_best_policy_without_a_memory_gets_a_third_of_scaffold() -> None:
    assert best_memoryless() == pytest.approx(1 / 3)
    assert len(Scaffold(1).feedback) == 7
    assert SPACE.sizes == (6, 2, 3)


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
