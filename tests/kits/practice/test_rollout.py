"""Rollouts in many copies: both kinds of reset, final observations, spaces, and invalid worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headway.kits.practice.engine import NumpyEngine, shape_of
from headway.kits.practice.environments import Together, environment
from headway.kits.practice.fit import Practice, judged, practise_in, restore, rows_of, snapshot
from headway.kits.practice.heads import Actions
from headway.kits.practice.rollout import Stage, evaluate
from headway.kits.practice.spaces import actions_of, inputs_of
from headway.nouns.errors import InvalidInput, MissingExtra, UnknownName
from tests.kits.practice.copies import practice

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is in the extra 'worlds'")
from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402


class Count(gymnasium.Env):  # type: ignore[misc]
    """Counts its steps: ends after `ends` (terminated), or is cut by the time limit; the observation is the count."""

    def __init__(self, ends: int = 5, actions: Any = None, broken: str = "") -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = actions or spaces.Discrete(2)
        self.ends, self.broken, self.count, self.episode = ends, broken, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count, self.episode = 0, self.episode + 1
        return np.array([0.0, self.episode], np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.count += 1
        observation = np.array([self.count, self.episode], np.float32)
        reward = float(self.count)
        if self.broken == "reward" and self.episode > 1:
            reward = float("nan")
        if self.broken == "observation" and self.episode > 1:
            observation[0] = np.inf
        return observation, reward, self.count >= self.ends, False, {}


class Lucky(gymnasium.Env):  # type: ignore[misc]
    """Episodes of one step, paid 1 where the seed of the last reset is below `luck`."""

    def __init__(self, luck: float) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.luck, self.seed = luck, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seed = self.seed if seed is None else seed
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), float(self.seed < self.luck), True, False, {}


gymnasium.register("headway-test/Lucky-v0", Lucky, max_episode_steps=7)
gymnasium.register("headway-test/Count-v0", Count, max_episode_steps=7)
COUNT = "headway-test/Count-v0"


def engine_for(stage: Stage) -> NumpyEngine:
    return NumpyEngine(stage.actions, shape_of(stage.actions, stage.inputs, (8,), "tanh", False), seed=1)


def together(count: int, **settings: Any) -> Any:
    return environment(COUNT, count=count, **settings)


def next_step(count: int, **settings: Any) -> Any:
    return SyncVectorEnv([lambda: gymnasium.make(COUNT, **settings)] * count, autoreset_mode=AutoresetMode.NEXT_STEP)


def same_step(count: int, **settings: Any) -> Any:
    return SyncVectorEnv([lambda: gymnasium.make(COUNT, **settings)] * count, autoreset_mode=AutoresetMode.SAME_STEP)


MAKERS: dict[str, Callable[..., Any]] = {"ours": together, "next step": next_step, "same step": same_step}


@pytest.mark.parametrize("maker", list(MAKERS))
@pytest.mark.parametrize(("ends", "length", "truncates"), [(5, 5, False), (99, 7, True)])
def test_an_episode_ends_with_its_final_observation_and_the_next_one_starts_fresh(
    maker: str, ends: int, length: int, truncates: bool
) -> None:
    envs = MAKERS[maker](3, ends=ends)
    stage = Stage(envs, seed=1, normalise_observations=False, normalise_rewards=False)
    engine = engine_for(stage)
    rollout = stage.collect(engine, horizon=20, gamma=0.9)
    envs.close()
    real = [np.flatnonzero(rollout.mask[:, copy]) for copy in range(3)]
    for copy, rows in enumerate(real):
        # The rows that count are those of single environments, one after another.
        seen, paid = rollout.x[rows, copy, 0], rollout.rewards[rows, copy]
        assert np.array_equal(seen, [t % length for t in range(len(rows))])
        assert np.array_equal(paid, [t % length + 1 for t in range(len(rows))])
        over = rollout.truncated if truncates else rollout.terminated
        other = rollout.terminated if truncates else rollout.truncated
        assert np.array_equal(over[rows, copy], [t % length == length - 1 for t in range(len(rows))])
        assert not other[rows, copy].any()
        # A step is credited with the value of its next observation; at an end, of the final observation.
        led = np.stack([seen % length + 1, rollout.x[rows, copy, 1]], axis=1).astype(np.float32)
        assert np.allclose(rollout.next_values[rows, copy], engine.values(led), atol=1e-6)
    assert rollout.returns == [length * (length + 1) / 2] * (3 * (len(real[0]) // length))
    assert rollout.steps == sum(map(len, real))
    rows = rows_of(rollout, gamma=0.9, lam=0.8)
    assert len(rows.x) == rollout.steps
    assert abs(float(rows.advantage.mean())) < 1e-5


@pytest.mark.parametrize("maker", list(MAKERS))
def test_a_rollout_continues_where_the_last_one_stopped(maker: str) -> None:
    envs = MAKERS[maker](2)
    stage = Stage(envs, seed=1, normalise_observations=False)
    engine = engine_for(stage)
    parts = [stage.collect(engine, horizon=3, gamma=0.9) for _ in range(6)]
    envs.close()
    seen = np.concatenate([part.x[part.mask[:, 0], 0, 0] for part in parts])
    assert np.array_equal(seen, [t % 5 for t in range(len(seen))])


@pytest.mark.parametrize("maker", list(MAKERS))
def test_evaluation_counts_whole_episodes_of_every_copy(maker: str) -> None:
    envs = MAKERS[maker](4)
    stage = Stage(envs, seed=1)
    assert evaluate(envs, engine_for(stage), stage, episodes=6, seed=3) == [15.0] * 6
    envs.close()


def test_a_copy_with_enough_episodes_is_not_stepped_again() -> None:
    copies = [gymnasium.make(COUNT, ends=ends) for ends in (5, 7)]
    envs = Together(copies)
    stage = Stage(envs, seed=1)
    assert evaluate(envs, engine_for(stage), stage, episodes=4, seed=3) == [15.0, 28.0] * 2
    assert copies[0].unwrapped.count == 0, "its third episode was started and not continued"
    envs.reset(seed=3)
    observations, *_ = envs.step(np.zeros(2, np.int64))
    assert observations[:, 0].tolist() == [1.0, 1.0], "a reset restarts all copies"
    envs.close()


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Discrete(3), Actions("categorical", (3,))),
        (spaces.MultiDiscrete([3, 2]), Actions("categorical", (3, 2))),
        (spaces.Box(-2.0, 4.0, (2,), np.float32), Actions("gaussian", (2,), (-2.0, -2.0), (4.0, 4.0))),
        (spaces.Box(-1.0, 1.0, (1, 2), np.float32), Actions("gaussian", (2,), (-1.0, -1.0), (1.0, 1.0))),
    ],
    ids=["discrete", "multidiscrete", "box", "shaped box"],
)
def test_every_supported_action_space_works(space: Any, expected: Actions) -> None:
    assert actions_of(space) == expected
    settings = Practice(steps=64, envs=2, horizon=16, epochs=2, minibatch=8, evaluate_every=32, episodes=2)
    fitted = practise_in(lambda count: together(count, actions=space), settings, seed=1)
    assert fitted.steps >= 64
    assert [point.mean for point in fitted.curve] == [15.0] * len(fitted.curve) != []


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=1),
        spaces.MultiBinary(3),
        spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.Box(0, 9, (2,), np.int64),
        spaces.Text(4),
    ],
    ids=lambda space: type(space).__name__,
)
def test_an_unsupported_space_is_refused(space: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        actions_of(space)
    assert error.value.code == "bad_space"
    assert "MultiDiscrete" in error.value.hint


def test_observations_may_be_boxes_or_whole_numbers() -> None:
    assert inputs_of(spaces.Box(-1, 1, (3, 4), np.float32)) == 12
    assert inputs_of(spaces.Discrete(6)) == 6
    for space in (spaces.Dict({"a": spaces.Discrete(2)}), spaces.MultiDiscrete([2, 2])):
        with pytest.raises(InvalidInput, match="cannot observe"):
            inputs_of(space)
    settings = Practice(steps=64, envs=4, horizon=8, epochs=1, episodes=2, evaluate_every=0)
    fitted = practise_in(lambda count: environment("FrozenLake-v1", count=count), settings, seed=1)
    assert fitted.stage.inputs == 16


@pytest.mark.parametrize("broken", ["reward", "observation"])
def test_a_world_that_returns_nan_is_refused_and_the_policy_is_unchanged(broken: str) -> None:
    envs = together(2, broken=broken)
    stage = Stage(envs, seed=1)
    engine = engine_for(stage)
    stage.collect(engine, horizon=4, gamma=0.9)
    before = engine.tensors()
    with pytest.raises(InvalidInput) as error:
        stage.collect(engine, horizon=8, gamma=0.9)
    assert error.value.code == "not_finite"
    assert broken in error.value.message
    assert all(np.array_equal(before[name], tensor) for name, tensor in engine.tensors().items())
    assert np.isfinite(stage.scales.observations.mean).all()
    envs.close()


def test_our_copies_behave_like_gymnasiums() -> None:
    """Bare environments in our loop equal wrapped ones, including the time limit."""
    ours, theirs = (
        environment("Acrobot-v1", count=3),
        SyncVectorEnv(
            [lambda: gymnasium.make("Acrobot-v1", max_episode_steps=40)] * 3, autoreset_mode=AutoresetMode.SAME_STEP
        ),
    )
    assert isinstance(ours, Together)
    ours._most = 40
    one, _ = ours.reset(seed=5)
    other, _ = theirs.reset(seed=5)
    assert np.array_equal(one, other)
    rng = np.random.default_rng(1)
    for _ in range(130):
        actions = rng.integers(3, size=3)
        our_step, their_step = ours.step(actions), theirs.step(actions)
        for place in range(4):
            assert np.array_equal(our_step[place], their_step[place])
        for copy in np.flatnonzero(our_step[2] | our_step[3]):
            assert np.array_equal(our_step[4]["final_obs"][copy], their_step[4]["final_obs"][copy])
    ours.close()
    theirs.close()


QUICK = Practice(steps=2048, envs=4, horizon=64, epochs=3, minibatch=64, rate=1e-3, evaluate_every=1024, episodes=4)


def test_the_same_seed_gives_the_same_run() -> None:
    one, again, other = (
        practise_in(lambda count: practice("cartpole", count=count), QUICK, seed) for seed in (3, 3, 4)
    )
    for name, tensor in one.engine.tensors().items():
        assert np.array_equal(tensor, again.engine.tensors()[name])
    assert one.curve == again.curve
    assert one.returns == again.returns
    assert not np.array_equal(one.engine.tensors()["policy.w0"], other.engine.tensors()["policy.w0"])


def test_a_snapshot_resumes_where_it_was_taken() -> None:
    make = lambda count: practice("cartpole", count=count)  # noqa: E731
    first = practise_in(make, QUICK, seed=3)
    arrays, metadata = snapshot(first)

    def check(fitted: Any) -> None:
        restore(fitted, arrays, metadata)
        assert fitted.steps == first.steps
        for name, tensor in first.engine.tensors().items():
            assert np.array_equal(tensor, fitted.engine.tensors()[name])
        assert np.array_equal(fitted.stage.scales.means(), first.stage.scales.means())
        assert judged(make, fitted, episodes=2, seed=1) == judged(make, first, episodes=2, seed=1)

    longer = Practice(**{**{f: getattr(QUICK, f) for f in QUICK.__slots__}, "steps": 3000})
    second = practise_in(make, longer, seed=3, resume=check)
    assert second.steps >= 3000
    assert len(second.curve) > len(first.curve)
    broken = {**arrays, "policy.w0": np.full_like(arrays["policy.w0"], np.nan)}
    with pytest.raises(ValueError, match="not finite"):
        restore(second, broken, metadata)


def test_an_unknown_world_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="cartpole") as error:
        practice("cartpol", count=1)
    assert error.value.code == "unknown_world"
    with pytest.raises(UnknownName):
        practice("no_such_module_here:World-v0", count=1)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match=r"headway\[worlds\]"):
        practice("cartpole", count=1)


@pytest.mark.parametrize(("luck", "steps"), [(2_000_000, 4096), (np.inf, 2048)], ids=["a lucky look", "a true one"])
def test_practice_stops_once_fresh_episodes_confirm_the_target(luck: float, steps: int) -> None:
    fitted = practise_in(
        lambda count: environment("headway-test/Lucky-v0", count=count, luck=luck),
        Practice(steps=4096, target=0.5, epochs=1),
        seed=1,
    )
    assert fitted.curve[-1].mean == 1.0  # evaluations use seeds of about a million, confirmations above two million
    assert (fitted.reached, fitted.steps) == (luck == np.inf, steps)
