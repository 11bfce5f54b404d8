"""Advantages and returns of rollouts, where an episode that ended and one that was cut off are different things.

advantages, returns = gae(rewards, values, next_values, terminated, truncated, gamma=0.99, lam=0.95)

    δ_t = r_t + γ·V(next_t)·[not terminated] − V(s_t)
    A_t = δ_t + γλ·[neither terminated nor truncated]·A_{t+1},     R_t = A_t + V(s_t)      (Schulman et al., 2016)

A terminated episode is worth nothing more; a truncated one would have gone on, so the value of its *final*
observation (`next_values`) is counted, and only the sum stops. A row that is masked out (a vectorised environment's
reset step, padding) gets 0 and cuts the sum like an end.

`next_values[t]` is the value of what the step led to: of the final observation where the episode ended there, which is
not the first one of the next episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["gae"]


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
        # In place: what stood in `delta` becomes the advantage.
        running = delta[t] = delta[t] + keep[t] * running
    return delta, delta + values
