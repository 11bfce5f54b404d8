"""Advantages, compared with a slow reference that computes every episode separately."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from headway.kits.practice.rollout import gae


def slow(
    rewards: Any, values: Any, after: Any, terminated: Any, truncated: Any, mask: Any, gamma: float, lam: float
) -> Any:
    """By definition: the advantage of t is Σ_k (γλ)^k δ_{t+k} up to where its episode ends, is cut or is masked."""
    time, copies = rewards.shape
    array = np.zeros((time, copies))
    for copy in range(copies):
        for start in range(time):
            if not mask[start, copy]:
                continue
            weight = 1.0
            for t in range(start, time):
                if not mask[t, copy]:
                    break
                worth = 0.0 if terminated[t, copy] else after[t, copy]
                array[start, copy] += weight * (rewards[t, copy] + gamma * worth - values[t, copy])
                if terminated[t, copy] or truncated[t, copy]:
                    break
                weight *= gamma * lam
    return array


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_advantages_equal_a_slow_reference(seed: int, time: int, copies: int, gamma: float, lam: float) -> None:
    rng = np.random.default_rng(seed)
    rewards, values, after = (rng.standard_normal((time, copies)) for _ in range(3))
    terminated = rng.random((time, copies)) < 0.2
    truncated = (rng.random((time, copies)) < 0.2) & ~terminated
    mask = rng.random((time, copies)) < 0.8
    advantages, returns = gae(rewards, values, after, terminated, truncated, gamma=gamma, lam=lam, mask=mask)
    reference = slow(rewards, values, after, terminated, truncated, mask, gamma, lam)
    assert np.allclose(advantages, reference, atol=1e-12)
    assert np.allclose(returns, reference + values, atol=1e-12)


@pytest.mark.parametrize("shape", [(6,), (6, 2), (6, 2, 3)])
def test_time_is_the_first_axis_and_other_axes_are_free(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    rewards, values, after = (rng.standard_normal(shape) for _ in range(3))
    terminated, truncated = rng.random(shape) < 0.3, rng.random(shape) < 0.3
    result, _ = gae(rewards, values, after, terminated, truncated, gamma=0.9, lam=0.8)
    flat, _ = gae(
        *(array.reshape(6, -1) for array in (rewards, values, after, terminated, truncated)),
        gamma=0.9,
        lam=0.8,
    )  # fmt: skip
    assert np.allclose(result.reshape(6, -1), flat)


def test_a_truncated_episode_is_credited_with_its_future() -> None:
    one, value, after = np.ones((1, 1)), np.zeros((1, 1)), np.full((1, 1), 10.0)
    no, yes = np.zeros((1, 1), dtype=bool), np.ones((1, 1), dtype=bool)
    ended, _ = gae(one, value, after, yes, no, gamma=0.5, lam=0.9)
    cut, _ = gae(one, value, after, no, yes, gamma=0.5, lam=0.9)
    assert ended[0, 0] == 1.0
    assert cut[0, 0] == 6.0
