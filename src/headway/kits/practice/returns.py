"""Advantages and returns of rollouts, which treat terminated and truncated episodes differently.

advantages, returns = gae(rewards, values, next_values, terminated, truncated, gamma=0.99, lam=0.95)

    δ_t = r_t + γ·V(next_t)·[not terminated] − V(s_t)
    A_t = δ_t + γλ·[neither terminated nor truncated]·A_{t+1},     R_t = A_t + V(s_t)      (Schulman et al., 2016)

A terminated episode has no future value; a truncated one would have continued, so the value of its *final* observation
(`next_values`) counts, and only the sum stops. A masked row (a vectorised environment's reset step, padding) gets 0 and
ends the sum.

`next_values[t]` is the value of the observation after the step: the final one if the episode ended there, not the first
one of the next episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def gae(
    rewards: NDArray[Any],
    values: NDArray[Any],
    next_values: NDArray[Any],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    *,
    gamma: float,
    lam: float,
    mask: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(advantages, returns), shaped as the input: time first, any further axes."""
    kind = values.dtype
    delta = rewards + (gamma * next_values) * ~terminated
    delta -= values
    keep = (gamma * lam) * ~(terminated | truncated)
    if mask is not None:
        delta *= mask
        keep *= mask
    delta, keep = delta.astype(kind, copy=False), keep.astype(kind, copy=False)
    running = np.zeros(values.shape[1:], dtype=kind)
    for t in range(len(delta) - 1, -1, -1):
        # In place: `delta` becomes the advantage.
        running = delta[t] = delta[t] + keep[t] * running
    return delta, delta + values
