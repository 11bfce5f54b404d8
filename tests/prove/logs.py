"""Logs of a small world whose every value is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headway.prove.log import Log

CHANCE = np.array([0.3, 0.5, 0.7])  # P(reward = 1) of each arm where x = 0; +0.1 or −0.1 for the sign of x on arm 1


def chance(x: NDArray[np.float64]) -> NDArray[np.float64]:
    q = np.tile(CHANCE, (x.size, 1))
    q[:, 1] += 0.1 * np.sign(x)
    return q


def small_log(
    n: int,
    seed: int,
    *,
    target: tuple[float, ...] = (0.1, 0.1, 0.8),
    baseline: tuple[float, ...] = (0.8, 0.1, 0.1),
    logged: tuple[float, ...] = (0.5, 0.3, 0.2),
    **more: object,
) -> Log:
    """Rows of constant policies: the true difference is Σ (target − baseline) · CHANCE."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], n)
    action = rng.choice(3, size=n, p=logged)
    reward = (rng.random(n) < chance(x)[np.arange(n), action]).astype(float)
    return Log.of(
        reward=reward,
        action=action,
        logged=np.tile(logged, (n, 1)),
        target=np.tile(target, (n, 1)),
        baseline=np.tile(baseline, (n, 1)),
        features=x[:, None],
        arms=("low", "middle", "high"),
        **more,  # type: ignore[arg-type]
    )


def true_difference(
    target: tuple[float, ...] = (0.1, 0.1, 0.8), baseline: tuple[float, ...] = (0.8, 0.1, 0.1)
) -> float:
    return float((np.array(target) - np.array(baseline)) @ CHANCE)
