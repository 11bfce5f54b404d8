"""The alarm's detector alone, on outcomes that never change: what it finds is false.

The loop itself is too slow for a hundred runs of 100,000 decisions with many actions and roles. This is what it asks
its detector at every check: five actions, four roles with another best action each, exploration of 10%.
"""

from __future__ import annotations

import numpy as np

from headway.prove.streams import StreamRows, find

__all__ = ["quiet"]

ACTIONS = ("a", "b", "c", "d", "e")
ROLES = ("planner", "coder", "writer", "tester")
CHECK = 100


def quiet(decisions: int, seed: int) -> dict[str, float]:
    """The decisions until the first alarm, if there is one."""
    rng = np.random.default_rng([seed, 41])
    rows = _rows(rng, decisions)
    for seen in range(CHECK, decisions + 1, CHECK):
        if find(_first(rows, seen)) is not None:
            return {"decisions": float(seen), "alarms": 1.0}
    return {"decisions": float(decisions), "alarms": 0.0}


def _rows(rng: np.random.Generator, count: int) -> StreamRows:
    chances = rng.uniform(0.2, 0.9, (len(ROLES), len(ACTIONS)))
    role = rng.integers(len(ROLES), size=count)
    best = chances.argmax(axis=1)[role]
    action = np.where(rng.random(count) < 0.1, rng.integers(len(ACTIONS), size=count), best)
    return StreamRows(
        reward=(rng.random(count) < chances[role, action]).astype(float),
        action=action,
        role=role,
        likely=action == best,
        own=np.ones(count, dtype=bool),
        policy=np.zeros(count, dtype=np.int64),
        settings=np.zeros(count, dtype=np.int64),
        actions=ACTIONS,
        roles=ROLES,
    )


def _first(rows: StreamRows, count: int) -> StreamRows:
    return StreamRows(
        reward=rows.reward[:count],
        action=rows.action[:count],
        role=rows.role[:count],
        likely=rows.likely[:count],
        own=rows.own[:count],
        policy=rows.policy[:count],
        settings=rows.settings[:count],
        actions=rows.actions,
        roles=rows.roles,
    )
