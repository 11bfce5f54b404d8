"""Tasks with no text and no state, or with a handful of states: they must learn, and be proven."""

from __future__ import annotations

from functools import partial

import numpy as np

from _situations.client import Client, Report, Visit, Visits
from _situations.late import UNIT
from _situations.trial import Ending, follow


def bare(gain: float, states: int, seed: int) -> Visits:
    """Nothing but the action matters; with states, the better action depends on the state."""

    def visit(rng: np.random.Generator, _: int) -> Visit:
        state = int(rng.integers(states)) if states else 0
        best = "b" if state % 2 == 0 else "a"
        worth = {arm: 0.5 + gain * (arm == best) for arm in ("a", "b")}
        won = {arm: float(rng.random() < value) for arm, value in worth.items()}
        details = {"state": {"level": f"s{state}-{seed}"}} if states else {}
        return Visit(worth, lambda action: [Report({"reward": won[action]})], details=details)

    return visit


def few(seed: int, gain: float, states: int) -> Ending:
    """Two actions, `gain` apart; the task and the states are called differently in every replication."""
    with Client(UNIT, seed=seed, task=f"route-{seed}") as client:
        return follow(client, bare(gain, states, seed), learn_at=800, until=2400)


no_state = partial(few, gain=0.0, states=0)
no_state_and_better = partial(few, gain=0.25, states=0)
three_states = partial(few, gain=0.0, states=3)
three_states_and_better = partial(few, gain=0.25, states=3)
