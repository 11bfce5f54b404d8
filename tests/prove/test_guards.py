"""Guards: a metric passes when it is shown to be within its tolerance, at whichever look."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.evidence import evidence_of, from_log, log_proof
from headway.prove.guards import GuardRule
from headway.prove.log import Log
from tests.prove.logs import small_log

ABOUT = About(task="route", candidate="bandit@4f2a", against="rules@0", reward_range=(0.0, 1.0))
EPSILON = {"target": (0.02, 0.02, 0.96), "baseline": (0.96, 0.02, 0.02), "logged": (0.9, 0.05, 0.05)}
LOOK = 500


def costly(n: int, seed: int, *, excess: float, **more: object) -> Log:
    """Arm "high" costs more by `excess` for each decision that the candidate takes it instead of "low"."""
    log = small_log(n, seed, **more)  # type: ignore[arg-type]
    moved = 0.94 if more else 0.7
    rng = np.random.default_rng([seed, 1])
    cost = rng.exponential(0.01, n) + np.where(log.action == 2, excess / moved, 0.0)
    return replace(log, guards={"cost_usd": cost})


def ever_promoted(log: Log, rule: GuardRule) -> bool:
    """Whether any look at a growing log passes."""
    proof = log_proof(ABOUT, hashing=False)
    for start in range(0, len(log), LOOK):
        proof.update(log.rows(start, start + LOOK))
        if verdict(evidence_of(proof, ABOUT, guards=[rule])).passed:
            return True
    return False


@pytest.mark.parametrize("logs", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_a_guard_broken_by_three_tolerances_is_never_promoted(logs: int) -> None:
    rule = GuardRule(name="cost_usd", tolerance=0.002)
    promoted = [ever_promoted(costly(4_000, seed, excess=0.006, **EPSILON), rule) for seed in range(logs)]
    assert sum(promoted) == 0


def test_an_equal_cost_passes_with_a_sensible_tolerance() -> None:
    rule = GuardRule(name="cost_usd", tolerance=0.002)
    assert all(ever_promoted(costly(6_000, seed, excess=0.0), rule) for seed in range(5))


def test_a_guard_waits_until_it_is_shown_and_says_for_how_long() -> None:
    log, rule = costly(1_500, 3, excess=0.0), GuardRule(name="cost_usd", tolerance=0.001)
    answer = verdict(from_log([log], ABOUT, guards=[rule], display=False))
    assert answer.state == "wait"
    assert any("not shown to be within its tolerance" in reason for reason in answer.reasons)
    assert answer.evidence is not None
    guard = answer.evidence.guards[0]
    assert (guard.ok, guard.undecided) == (False, True)
    assert guard.needed is not None
    assert f"{guard.needed:,} more decisions" in answer.hint
    longer = costly(1_500 + 2 * guard.needed, 3, excess=0.0)
    assert verdict(from_log([longer], ABOUT, guards=[rule], display=False)).passed


def test_a_guard_that_is_proven_to_be_worse_refuses() -> None:
    log, rule = costly(6_000, 4, excess=0.02), GuardRule(name="cost_usd", tolerance=0.002)
    answer = verdict(from_log([log], ABOUT, guards=[rule], display=False))
    assert answer.state == "refused"
    assert "cost_usd got worse" in answer.reasons[0]


def test_a_tolerance_of_zero_asks_for_a_proof_and_suggests_another() -> None:
    log = costly(6_000, 5, excess=0.0)
    answer = verdict(from_log([log], ABOUT, guards=[GuardRule(name="cost_usd")], display=False))
    assert answer.state == "wait"
    assert "asks for a proof that it gets better: set a tolerance, for example 0.0005" in " ".join(answer.reasons)
    cheaper = costly(6_000, 5, excess=-0.006)
    assert verdict(from_log([cheaper], ABOUT, guards=[GuardRule(name="cost_usd")], display=False)).passed


def test_a_flag_that_was_never_raised_is_not_certain() -> None:
    log, rule = small_log(600, 6), GuardRule(name="unsafe", tolerance=0.002)
    silent = replace(log, guards={"unsafe": np.zeros(600)})
    assert verdict(from_log([silent], ABOUT, guards=[rule], display=False)).state == "wait"
    lenient = replace(rule, tolerance=0.5)
    assert verdict(from_log([silent], ABOUT, guards=[lenient], display=False)).passed


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_both_directions_are_judged_alike(better: str) -> None:
    log = costly(6_000, 7, excess=0.006)
    signed = log if better == "lower" else replace(log, guards={"cost_usd": -log.guards["cost_usd"]})
    rule = GuardRule(name="cost_usd", tolerance=0.001, better=better)  # type: ignore[arg-type]
    assert verdict(from_log([signed], ABOUT, guards=[rule], display=False)).state == "refused"
