"""The planner of experiments: which share decides a test with the fewest decisions, and how many they are."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

import numpy as np
import pytest

from headway.nouns.errors import InvalidInput
from headway.prove.log import Floats, Log
from headway.prove.proof import LogProof
from headway.prove.shares import SharePilot, cheapest, share_pilot

ALPHA = 0.04


class World:
    """Two arms; the current policy takes the first and explores a little, the candidate takes the second."""

    def __init__(self, explores: float = 0.12, uplift: float = 0.1) -> None:
        self.current = np.array([1.0 - explores / 2.0, explores / 2.0])
        self.candidate = self.current[::-1].copy()
        self.means = np.array([0.5, 0.5 + uplift / (1.0 - explores)])  # so that the policies differ by the uplift

    def mixed(self, share: float) -> Floats:
        mixed: Floats = (1.0 - share) * self.current + share * self.candidate
        return mixed

    def rows(self, rng: np.random.Generator, n: int, share: float = 0.0, first: int = 0) -> Log:
        mu = self.mixed(share)
        action = (rng.random(n) < mu[1]).astype(np.int64)
        rows = np.ones((n, 1))
        return Log.of(
            reward=(rng.random(n) < self.means[action]).astype(np.float64),
            action=action,
            logged=rows * mu,
            target=rows * self.candidate,
            baseline=rows * self.current,
            order=np.arange(first, first + n),
        )

    def pilot(self, n: int = 2000, seed: int = 1) -> SharePilot:
        return share_pilot([self.rows(np.random.default_rng(seed), n)], reward_range=(0.0, 1.0))

    def passes(self, seed: int, share: float, most: int = 9000) -> float:
        """The decisions at which the test passes, read every 50."""
        rng = np.random.default_rng([3, seed])
        proof, n = LogProof(alpha=ALPHA, reward_range=(0.0, 1.0), hashing=False), 0
        while n < most:
            proof.update(self.rows(rng, 50, share, n))
            n += 50
            if n >= 200 and proof.statistic() > log(1.0 / ALPHA):
                return n
        return inf


def by_now(times: list[float], share: float = 0.8) -> float:
    return float(np.quantile(np.array(times), share, method="higher"))


def test_the_variance_of_a_share_is_that_of_rows_logged_with_it() -> None:
    world = World()
    for share, mixed in world.pilot().mixed.items():
        difference = world.candidate - world.current
        exact = float((difference**2 / world.mixed(share) * world.means * (1.0 - world.means)).sum())
        assert mixed.variance == pytest.approx(exact, rel=0.1)


def test_a_larger_share_needs_fewer_decisions_and_a_smaller_one_is_preferred_if_it_is_as_good() -> None:
    plan = cheapest(World().pilot(), within=5000, alpha=ALPHA, likely=0.1)
    counts = [cost.decisions or inf for cost in plan.costs]
    assert counts == sorted(counts, reverse=True)
    assert plan.share in (0.3, 0.4)
    assert plan.decisions is not None
    assert plan.decisions <= 1.05 * counts[-1]
    assert plan.log_alone is not None
    assert plan.log_alone > 3 * plan.decisions


def test_the_log_alone_is_enough_if_it_decides_in_time_and_no_share_is_much_better() -> None:
    plan = cheapest(World(explores=0.999).pilot(), within=5000, alpha=ALPHA, likely=0.0)
    assert plan.share == 0.0
    assert plan.decisions == plan.log_alone
    assert plan.acting.share > 0.0


def test_a_log_without_exploration_never_decides_alone() -> None:
    world = World(explores=0.0)
    rows = replace(world.rows(np.random.default_rng(1), 500), logged=np.full((500, 2), 0.5))
    plan = cheapest(share_pilot([rows], reward_range=(0.0, 1.0)), within=5000, alpha=ALPHA)
    assert plan.log_alone is None
    assert plan.share >= 0.3


def test_the_uplift_that_is_planned_for_can_be_shown_in_time() -> None:
    pilot = World().pilot()
    for within in (500, 5000, 50_000):
        plan = cheapest(pilot, within=within, alpha=ALPHA, likely=0.0)
        best = min(cost.decisions or inf for cost in plan.costs)
        assert 0.9 * within <= best <= within
    assert cheapest(pilot, within=5000, alpha=ALPHA, likely=0.3).uplift == 0.3


def test_the_largest_share_bounds_the_plan() -> None:
    plan = cheapest(World().pilot(), within=5000, alpha=ALPHA, most_share=0.2)
    assert {cost.share for cost in plan.costs} == {0.0, 0.1, 0.2}


def test_rows_that_the_test_has_already_count_for_the_log_but_not_for_a_new_experiment() -> None:
    pilot = World().pilot()
    fresh = cheapest(pilot, within=5000, alpha=ALPHA, likely=0.1)
    begun = cheapest(pilot, within=5000, alpha=ALPHA, likely=0.1, known=500)
    running = cheapest(pilot, within=5000, alpha=ALPHA, likely=0.1, known=500, running=True)
    assert fresh.log_alone is not None
    assert begun.log_alone == fresh.log_alone - 500
    assert begun.costs[1:] == fresh.costs[1:]
    saved = [
        (one.decisions or 0) - (other.decisions or 0)
        for one, other in zip(fresh.costs[1:], running.costs[1:], strict=True)
    ]
    assert all(0 < decisions <= 500 for decisions in saved)


def test_there_is_nothing_to_plan_from_without_rows() -> None:
    with pytest.raises(InvalidInput) as error:
        share_pilot([])
    assert error.value.code == "no_pilot"


def test_a_plan_is_not_far_from_a_few_simulated_tests() -> None:
    world = World(uplift=0.2)
    times = [world.passes(seed, 0.5, most=2000) for seed in range(30)]
    planned = world.pilot().needed(0.5, uplift=0.2, alpha=ALPHA)
    assert planned is not None
    assert 0.6 < planned / by_now(times) < 1.6


@pytest.mark.slow
@pytest.mark.parametrize(("uplift", "share"), [(0.1, 0.5), (0.1, 0.1), (0.1, 0.3), (0.07, 0.5)])
def test_the_planned_decisions_are_within_a_quarter_of_the_simulated_ones(uplift: float, share: float) -> None:
    world = World(uplift=uplift)
    simulated = by_now([world.passes(seed, share) for seed in range(100)])
    planned = world.pilot().needed(share, uplift=uplift, alpha=ALPHA)
    assert planned is not None
    assert abs(planned / simulated - 1.0) <= 0.25
