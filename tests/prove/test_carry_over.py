"""Whether the action of one decision changes the outcome of the next."""

from __future__ import annotations

import numpy as np
import pytest

from headway.prove.log import Log, RowOrigin
from headway.prove.origin import CarryOver
from headway.prove.proof import LogProof

ARMS = ("a", "b")


def played(seed: int, *, spoils: float = 0.0, adaptive: bool = False, n: int = 1_500, users: int = 0) -> Log:
    """A log in which `b` earns .1 more, and takes `spoils` from the next decision (of the same user)."""
    rng = np.random.default_rng(seed)
    reward, action, logged, features = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros((n, 2)), np.zeros((n, 1))
    who = rng.integers(max(users, 1), size=n)
    last = np.zeros(max(users, 1), dtype=np.int64)
    level, chance = 0.0, 0.3
    for row in range(n):
        level = 0.95 * level + 0.05 * rng.normal()  # situations resemble the ones before
        action[row] = rng.random() < chance
        logged[row] = (1.0 - chance, chance)
        mean = 0.6 + level + 0.1 * action[row] - spoils * last[who[row]]
        reward[row] = rng.random() < mean
        features[row] = level
        last[who[row]] = action[row]
        if adaptive:
            chance = float(np.clip(chance + (0.02 if reward[row] else -0.02) * (1 if action[row] else -1), 0.1, 0.9))
    origin = RowOrigin(groups={"user": who} if users else {}, columns=("level",))
    return Log.of(reward=reward, action=action, logged=logged, target=np.tile([0.1, 0.9], (n, 1)), features=features,
                  arms=ARMS, origin=origin)  # fmt: skip


def fails(log: Log, piece: int = 200) -> str:
    """The message of the check if it fails, else nothing."""
    check = CarryOver(2)
    for start in range(0, len(log), piece):
        check.add(log.rows(start, start + piece))
    misfit = check.worst(ARMS)
    assert misfit is not None
    return misfit.message if misfit.value > misfit.limit else ""


@pytest.mark.parametrize("seed", range(5))
def test_an_action_that_spoils_the_next_decision_is_found(seed: int) -> None:
    assert "lower where the decision before took 'b'" in fails(played(seed, spoils=0.3)).replace(
        "higher where the decision before took 'a'", "lower where the decision before took 'b'"
    )


@pytest.mark.parametrize("seed", range(5))
def test_an_effect_on_the_same_user_is_found(seed: int) -> None:
    assert "of the same user before took" in fails(played(seed, spoils=0.4, users=12, n=3_000))


@pytest.mark.parametrize("adaptive", [False, True])
def test_independent_decisions_raise_no_alarm(adaptive: bool) -> None:
    """Also where situations resemble each other and the chances follow the outcomes; 2e-5 false alarms a log."""
    assert not [seed for seed in range(60) if fails(played(seed, adaptive=adaptive, users=6))]


def test_a_proof_with_a_carried_over_effect_cannot_tell() -> None:
    proof = LogProof(reward_range=(0.0, 1.0))
    proof.update(played(3, spoils=0.3, n=3_000))
    checks = {check.name: check for check in proof.checks.origin.diagnostics(ARMS)}
    assert not checks["carry_over"].ok
    assert checks["carry_over"].blocks
    assert checks["carry_over"].message.startswith("Cannot tell: outcomes are ")


def test_the_size_of_the_pieces_does_not_matter() -> None:
    log = played(8, spoils=0.3)
    assert fails(log, 300)
    assert fails(log, 100)
