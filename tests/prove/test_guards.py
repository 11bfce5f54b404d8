"""Guards: a metric passes when it is shown to be within its tolerance, at whichever look."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.evidence import evidence_of, from_log, log_proof
from headway.prove.guard_bets import GuardRule
from headway.prove.log import Log
from tests.prove.logs import small_log

ABOUT = About(task="route", candidate="bandit@4f2a", against="rules@0", reward_range=(0.0, 1.0))
EPSILON = {"target": (0.02, 0.02, 0.96), "baseline": (0.96, 0.02, 0.02), "logged": (0.9, 0.05, 0.05)}
LOOK = 500
COST = (-0.2, 0.2)  # an exponential cost of .01 on average is never above


def costly(n: int, seed: int, *, excess: float, **more: object) -> Log:
    """Arm "high" costs more by `excess` for each decision that the candidate takes it instead of "low"."""
    log = small_log(n, seed, **more)  # type: ignore[arg-type]
    moved = 0.94 if more else 0.7
    rng = np.random.default_rng([seed, 1])
    cost = rng.exponential(0.01, n) + np.where(log.action == 2, excess / moved, 0.0)
    return replace(log, guards={"cost_usd": cost})


def ever_promoted(log: Log, rule: GuardRule) -> bool:
    """Whether any look at a growing log passes."""
    proof = log_proof(ABOUT, [rule], hashing=False)
    for start in range(0, len(log), LOOK):
        proof.update(log.rows(start, start + LOOK))
        if verdict(evidence_of(proof, ABOUT)).passed:
            return True
    return False


@pytest.mark.parametrize("logs", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_a_guard_broken_by_three_tolerances_is_never_promoted(logs: int) -> None:
    rule = GuardRule(name="cost_usd", tolerance=0.002, range=COST)
    promoted = [ever_promoted(costly(4_000, seed, excess=0.006, **EPSILON), rule) for seed in range(logs)]
    assert sum(promoted) == 0


def test_an_equal_cost_passes_with_a_sensible_tolerance() -> None:
    rule = GuardRule(name="cost_usd", tolerance=0.002, range=COST)
    assert all(ever_promoted(costly(6_000, seed, excess=0.0), rule) for seed in range(5))


def test_a_guard_waits_until_it_is_shown_and_says_for_how_long() -> None:
    log, rule = costly(1_500, 3, excess=0.0), GuardRule(name="cost_usd", tolerance=0.001, range=COST)
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
    log, rule = costly(6_000, 4, excess=0.02), GuardRule(name="cost_usd", tolerance=0.002, range=COST)
    answer = verdict(from_log([log], ABOUT, guards=[rule], display=False))
    assert answer.state == "refused"
    assert "cost_usd got worse" in answer.reasons[0]


def test_a_tolerance_of_zero_asks_for_a_proof_and_suggests_another() -> None:
    log = costly(6_000, 5, excess=0.0)
    answer = verdict(from_log([log], ABOUT, guards=[GuardRule(name="cost_usd", range=COST)], display=False))
    assert answer.state == "wait"
    assert "asks for a proof that it gets better: set a tolerance, for example 0.0005" in " ".join(answer.reasons)
    cheaper = costly(6_000, 5, excess=-0.006)
    assert verdict(from_log([cheaper], ABOUT, guards=[GuardRule(name="cost_usd", range=COST)], display=False)).passed


def test_a_flag_that_was_never_raised_is_not_certain() -> None:
    log, rule = small_log(600, 6), GuardRule(name="unsafe", tolerance=0.002, range=(0.0, 1.0))
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


def judged(log: Log, rule: GuardRule) -> tuple[bool, bool, str]:
    """Whether the guard holds, whether it is undecided, and how it can be told."""
    guard = from_log([log], ABOUT, guards=[rule], display=False).guards[0]
    return guard.ok, guard.undecided, guard.cure


def test_a_guard_that_declares_no_range_cannot_be_told_and_proposes_one() -> None:
    log = costly(6_000, 8, excess=0.0)
    ok, undecided, cure = judged(log, GuardRule(name="cost_usd", tolerance=0.05))
    assert (ok, undecided) == (False, False)
    assert "range = [0, " in cure
    answer = verdict(from_log([log], ABOUT, guards=[GuardRule(name="cost_usd", tolerance=0.05)], display=False))
    assert answer.word == "cannot tell"
    assert cure in answer.hint


def test_a_value_outside_of_the_range_cannot_be_told() -> None:
    log = costly(6_000, 8, excess=0.0)
    cost = log.guards["cost_usd"].copy()
    cost[17] = 0.4
    ok, undecided, cure = judged(
        replace(log, guards={"cost_usd": cost}), GuardRule(name="cost_usd", tolerance=0.05, range=COST)
    )
    assert (ok, undecided) == (False, False)
    assert "range" in cure


def test_missing_values_count_as_the_worst_of_the_range_unless_they_are_missing_at_random() -> None:
    log, rule = costly(6_000, 9, excess=0.0), GuardRule(name="cost_usd", tolerance=0.005, range=(0.0, 0.2))
    assert judged(log, rule)[0]
    rng = np.random.default_rng(3)
    silent = np.where((log.action == 2) & (rng.random(len(log)) < 0.08), np.nan, log.guards["cost_usd"])
    few = replace(log, guards={"cost_usd": silent})
    assert judged(few, rule) == (False, True, ""), "8% may each have cost 0.2, which is .01 more per decision"
    assert judged(few, replace(rule, at_random=True))[0]
    assert judged(few, replace(rule, tolerance=0.05))[0], "and no more than that"


def test_a_rare_and_huge_value_is_never_shown_to_be_within() -> None:
    rule = GuardRule(name="latency_s", tolerance=0.2, range=(0.0, 300.0))
    for seed in range(10):
        log, rng = small_log(2_000, seed), np.random.default_rng([seed, 2])
        hangs = (log.action == 2) & (rng.random(2_000) < 0.003)
        slow = np.where(hangs, 300.0, rng.uniform(0.5, 1.5, 2_000))
        proof = log_proof(ABOUT, [rule], hashing=False)
        for start in range(0, 2_000, 100):
            proof.update(replace(log, guards={"latency_s": slow}).rows(start, start + 100))
            assert not evidence_of(proof, ABOUT).guards[0].ok
