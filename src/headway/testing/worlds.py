"""The contract of worlds: many copies stepped together, and the same episodes for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def world_contract(make: Callable[..., Any], *, count: int = 4, steps: int = 60, seed: int = 7) -> None:
    """`make(count=…)` gives copies with the shape of Gymnasium's VectorEnv.

    Checked: shapes and types of everything that `reset` and `step` give, masks that always leave an action, finite
    rewards, final observations of episodes, and that seed and actions alone determine the result.
    """
    first, second = make(count=count), make(count=count)
    try:
        assert first.num_envs == count, f"count={count} gives {first.num_envs} copies"
        one, other = _played(first, steps, seed), _played(second, steps, seed)
        for at, (here, there) in enumerate(zip(one, other, strict=True)):
            for mine, theirs in zip(here, there, strict=True):
                assert np.array_equal(mine, theirs), f"step {at}: the same seed and actions give something else"
        assert not np.array_equal(one[0][0], _played(first, 1, seed + 1)[0][0]), "the seed changes nothing"
    finally:
        first.close()
        second.close()
    returns = getattr(first, "returns", None)
    assert returns is None or -np.inf < returns[0] < returns[1] < np.inf, f"`returns` is {returns!r}, not (low, high)"
    alone = make(count=1)
    observations, _ = alone.reset(seed=seed)
    alone.close()
    assert len(observations) == 1, "one copy gives one observation"


def _played(envs: Any, steps: int, seed: int) -> list[tuple[Any, ...]]:
    """The results of random allowed actions: (observations, rewards, terminated, truncated) per step."""
    rng = np.random.default_rng(seed)
    observations, info = envs.reset(seed=seed)
    _is_observation(envs, observations)
    assert isinstance(info, dict), f"reset gives {type(info).__name__} as info"
    history: list[tuple[Any, ...]] = [(observations.copy(),)]
    same_step = _mode(envs) == "SameStep"
    for _ in range(steps):
        observations, rewards, terminated, truncated, info = envs.step(_actions(envs, rng))
        _is_observation(envs, observations)
        count = envs.num_envs
        assert np.shape(rewards) == (count,), f"rewards have the shape {np.shape(rewards)}, expected {(count,)}"
        assert np.isfinite(rewards).all(), f"a reward is not a finite number: {rewards}"
        for name, ended in (("terminated", terminated), ("truncated", truncated)):
            assert np.shape(ended) == (count,), f"{name} has the shape {np.shape(ended)}, expected {(count,)}"
            assert np.asarray(ended).dtype == np.bool_, f"{name} is {np.asarray(ended).dtype}, expected bool"
        over = terminated | truncated
        if same_step and over.any():
            final, said = info["final_obs"], info["_final_obs"]
            assert np.array_equal(said, over), "_final_obs is true where an episode ended, and nowhere else"
            assert np.shape(final[over][0]) == envs.single_observation_space.shape
        history.append((observations.copy(), np.array(rewards), np.array(terminated), np.array(truncated)))
    return history


def _is_observation(envs: Any, observations: Any) -> None:
    expected = (envs.num_envs, *envs.single_observation_space.shape)
    assert np.shape(observations) == expected, f"observations have the shape {np.shape(observations)}, not {expected}"
    assert np.isfinite(observations).all(), "an observation is not a finite number"


def _actions(envs: Any, rng: np.random.Generator) -> Any:
    """One allowed action per copy, drawn by our own generator."""
    space, count = envs.single_action_space, envs.num_envs
    if hasattr(space, "nvec"):
        return rng.integers(space.nvec, size=(count, len(space.nvec)))
    if not hasattr(space, "n"):
        return rng.uniform(space.low, space.high, size=(count, *space.shape)).astype(space.dtype)
    masks = envs.action_masks() if hasattr(envs, "action_masks") else np.ones((count, int(space.n)), dtype=np.bool_)
    assert masks.shape == (count, int(space.n)), f"masks have the shape {masks.shape}, expected {(count, int(space.n))}"
    assert masks.any(axis=1).all(), "a mask leaves no action"
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks], dtype=np.int64) + int(space.start)


def _mode(envs: Any) -> str:
    """The autoreset mode, as Gymnasium 1.x names it."""
    mode = envs.metadata.get("autoreset_mode", "NextStep")
    return str(getattr(mode, "value", mode))
