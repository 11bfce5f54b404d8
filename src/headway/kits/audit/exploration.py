"""How many decisions would tell, and with which exploration.

The variance of a decision's score is Σ_a (π−b)²/μ' · σ² under another way of logging μ'. From logged rows it is the
mean of w² · μ(A)/μ'(A) · σ² with w = (π−b)(A)/μ(A). Without propensities, or where one is 1, the chooser is taken to be
deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headway.kits.audit.log import AuditLog
from headway.prove.log import Floats
from headway.prove.power import sequence_needed

__all__ = ["ExploredTest", "decisions_that_tell"]

SHARES = (0.05, 0.1, 0.3)
_UPLIFT = 0.05  # of the range of the rewards


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredTest:
    """The decisions that one way of logging needs for 80% power at the uplift."""

    name: str
    decisions: int
    uplift: float


def decisions_that_tell(
    log: AuditLog,
    *,
    target: Floats | None,
    baseline: Floats | None,
    against: int | None,
    uplift: float | None,
    reward_range: tuple[float, float],
    alpha: float,
) -> tuple[ExploredTest, ...]:
    """The present way of logging, uniform exploration, and half of the traffic for what is compared with.

    `target`, `baseline` [n]: both policies' probabilities of the logged action. `against`: the arm, if it is one.
    """
    rewards = log.reward[~np.isnan(log.reward)]
    width = reward_range[1] - reward_range[0]
    noise = float(rewards.var()) if rewards.size > 1 else 0.0
    noise = noise or width**2 / 4.0
    gain = _UPLIFT * width if uplift is None else uplift

    def needed(name: str, spread: float, heaviest: float) -> ExploredTest | None:
        decisions = sequence_needed(noise * spread, gain, alpha, lowest=-heaviest * width)
        return None if decisions is None else ExploredTest(name=name, decisions=decisions, uplift=gain)

    ways: list[ExploredTest | None] = []
    if log.propensity is not None and target is not None and baseline is not None and _explores(log, target, baseline):
        ways += _logged_ways(log, target, baseline, against, needed)
    elif against is not None:
        ways += _planned_ways(log, against, needed)
    return tuple(way for way in ways if way is not None)


def _explores(log: AuditLog, target: Floats, baseline: Floats) -> bool:
    """Whether every row on which the policies differ had other possible actions."""
    assert log.propensity is not None
    return not ((log.propensity >= 1.0 - 1e-9) & (np.abs(target - baseline) > 1e-6)).any()


Needed = Callable[[str, float, float], ExploredTest | None]


def _logged_ways(
    log: AuditLog, target: Floats, baseline: Floats, against: int | None, needed: Needed
) -> list[ExploredTest | None]:
    """From a log with propensities."""
    logged = log.propensity
    assert logged is not None
    squares = ((target - baseline) / logged) ** 2
    if not squares.any():
        return []

    def way(name: str, other: Floats) -> ExploredTest | None:
        ratio = logged / other
        return needed(name, float((squares * ratio).mean()), float((np.sqrt(squares) * ratio).max()))

    ways = [way("as it is logged now", logged)]
    if not log.shape.experiment:
        for share in SHARES[1:]:
            uniform = (1.0 - share) * logged + share / len(log.arms)
            ways.append(way(f"with {share:.0%} more choices drawn uniformly", uniform))
    if against is not None and not log.shape.experiment:
        half = 0.5 * logged + 0.5 * (log.action == against)
        ways.append(way(f"with half of the choices always {log.arms[against]}", half))
    return ways


def _planned_ways(log: AuditLog, against: int, needed: Needed) -> list[ExploredTest | None]:
    """From a log without propensities, as if the chooser were deterministic."""
    differs = 1.0 - log.count(against) / len(log)
    arms = max(len(log.arms), 2)
    ways = []
    for share in SHARES if not log.shape.experiment else ():
        own, rare = 1.0 - share + share / arms, share / arms
        name = f"with {share:.0%} of the choices drawn uniformly"
        ways.append(needed(name, differs * (1.0 / own + 1.0 / rare), 1.0 / rare))
    name = f"with half of the choices always {log.arms[against]}"
    return [*ways, needed(name, 4.0 * (1.0 if log.shape.experiment else differs), 2.0)]
