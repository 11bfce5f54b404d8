"""The guard's test alone, on arrays: a promoted policy that is as good as the one before, so that rollbacks are false.

This is what the loop asks at every guard step after a promotion: the same proof with the guard's bets and error budget,
the same verdict, as often as the loop looks.
"""

from __future__ import annotations

import numpy as np

from headway.loop.due import enough
from headway.project.guard import ALPHA
from headway.promote import gate
from headway.prove.about import About
from headway.prove.evidence import evidence_of, log_proof
from headway.prove.log import Log

__all__ = ["guard_alone"]

EQUAL = (0.7, 0.7)  # chances of success
CHECK = 100  # decisions between two checks of the loop
CURRENT, BEFORE = np.array([0.059, 0.941]), np.array([0.5, 0.5])  # greedy with the usual exploration; uniform


def guard_alone(decisions: int, seed: int, chances: tuple[float, float] = EQUAL) -> dict[str, float]:
    """The decisions until the first rollback, if there is one."""
    rng = np.random.default_rng([seed, 47])
    action = (rng.random(decisions) >= CURRENT[0]).astype(np.int64)
    reward = (rng.random(decisions) < np.array(chances)[action]).astype(float)
    about = About(task="route", candidate="bandit@1", against="uniform@0", alpha_worse=ALPHA, guard=True,
                  reward_range=(-1.0, 1.0))  # fmt: skip
    proof, looked = log_proof(about, hashing=False), 0
    for made in range(CHECK, decisions + 1, CHECK):
        if looked and not enough(made, looked):
            continue
        rows = np.arange(looked, made)
        proof.update(
            Log.of(
                reward=reward[rows],
                action=action[rows],
                logged=np.tile(CURRENT, (rows.size, 1)),
                target=np.tile(CURRENT, (rows.size, 1)),
                baseline=np.tile(BEFORE, (rows.size, 1)),
                order=rows,
                arms=("small", "large"),
            )
        )
        looked = made
        if gate.worse(evidence_of(proof, about)):
            return {"decisions": float(made), "rollbacks": 1.0}
    return {"decisions": float(decisions), "rollbacks": 0.0}
