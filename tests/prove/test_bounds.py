"""The gate's bounds: inside the range, around the estimate, and true wherever the agreeing rows are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import isfinite, log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from headway.nouns.conclusions import conclusion
from headway.nouns.evidence import Evidence
from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.betting import Bets
from headway.prove.evidence import evidence_of, from_log, log_proof
from headway.prove.log import Log

ABOUT = About(task="route", candidate="router@1", against="rules@0", reward_range=(0.0, 1.0))
ORDERS = ("mixed", "first", "last", "only")


def agreeing_log(
    n: int, seed: int, *, order: str, agree: float = 0.8, uplift: float = 0.2, apart: float = 0.8, width: float = 1.0
) -> tuple[Log, float]:
    """Rows on most of which both policies give equal probabilities; and the mean difference over these rows."""
    rng = np.random.default_rng(seed)
    same = np.ones(n, dtype=bool) if order == "only" else rng.random(n) < agree
    if order in ("first", "last"):
        same = np.sort(same)[::-1] if order == "first" else np.sort(same)
    baseline = np.tile([0.9, 0.1], (n, 1))
    target = np.where(same[:, None], baseline, [0.9 - apart, 0.1 + apart])
    action = rng.integers(0, 2, n)
    reward = width * (rng.random(n) < 0.5 + uplift * (action - 0.5))
    log_ = Log.of(reward=reward, action=action, logged=np.full((n, 2), 0.5), target=target, baseline=baseline)
    return log_, float((target - baseline)[:, 1].mean()) * uplift * width


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n=st.sampled_from([1, 3, 40, 120, 600]),
    order=st.sampled_from(ORDERS),
    uplift=st.sampled_from([-0.9, 0.0, 0.9]),
    apart=st.sampled_from([1e-7, 0.01, 0.8]),
    width=st.sampled_from([1e-6, 1.0, 1e6]),
    margin=st.sampled_from([0.0, 0.02]),
)
def test_bounds_are_inside_the_range_and_hold_the_estimate(
    seed: int, n: int, order: str, uplift: float, apart: float, width: float, margin: float
) -> None:
    rows, _ = agreeing_log(n, seed, order=order, uplift=uplift, apart=apart, width=width)
    about = replace(ABOUT, reward_range=(0.0, width), margin=margin * width)
    evidence = from_log([rows], about)
    assert evidence.bounds is not None
    low, high = evidence.bounds
    assert isfinite(low)
    assert isfinite(high)
    assert -width <= low <= evidence.difference.value <= high <= width
    assert evidence.consistent()
    for point in evidence.curve:
        assert -width <= point[2] <= point[1] + 1e-9 * width
        assert point[1] - 1e-9 * width <= point[3] <= width
    if evidence.curve:
        assert evidence.curve[-1][2:] == evidence.bounds
    assert "certainly more than -" not in conclusion(verdict(evidence))


@pytest.mark.parametrize("order", ["mixed", "first", "last"])
@pytest.mark.parametrize("uplift", [-0.9, 0.0, 0.9])
def test_bounds_hold_the_truth_wherever_the_agreeing_rows_are(order: str, uplift: float) -> None:
    held, width = [], []
    for seed in range(20):
        rows, truth = agreeing_log(2_000, seed, order=order, uplift=uplift)
        evidence = from_log([rows], ABOUT, display=False)
        assert evidence.bounds is not None
        held.append(evidence.bounds[0] <= truth <= evidence.bounds[1])
        width.append(evidence.bounds[1] - evidence.bounds[0])
    assert sum(held) >= 17  # 18.4 expected at worst
    assert max(width) < 0.4  # of 2: they say something


def test_bounds_of_policies_that_agree_at_first_prove_what_they_say() -> None:
    """The world of the demo: rows without a difference come first, then a candidate that is clearly worse."""
    rows, truth = agreeing_log(1_500, 3, order="first", agree=0.5, uplift=-0.9)
    proof = log_proof(ABOUT, hashing=False)
    for start in range(0, 1_500, 50):
        proof.update(rows.rows(start, start + 50))
    evidence = evidence_of(proof, ABOUT)
    answer = verdict(evidence)
    assert answer.state == "worse"
    least = evidence.proven("worse")
    assert least is not None
    assert 0.3 * -truth < least < -truth
    assert f" per decision; certainly less than -{least:.3f}." in conclusion(answer)


def test_a_smaller_alpha_gives_wider_bounds_at_the_same_stakes() -> None:
    rng = np.random.default_rng(1)
    bets = Bets(0.04)
    differs = rng.random(3_000) < 0.5
    scores = np.where(differs, rng.normal(0.3, 1.0, 3_000).clip(-2.0, 2.0), 0.0)
    bets.add(scores, np.full(3_000, -2.0), 0.5, differs)
    bounds = []
    for alpha in (0.2, 0.04, 0.01, 0.001, 1e-6):
        bets.alpha = alpha
        bounds.append(bets.lower_bound(-1.0))
    assert all(tight > wide for tight, wide in pairwise(bounds))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1_000), scale=st.sampled_from([1e-6, 1e-2, 1.0]), share=st.sampled_from([0.02, 0.5, 1.0]))
def test_the_wealth_falls_in_the_mean_and_never_exceeds_the_exact_one(seed: int, scale: float, share: float) -> None:
    rng = np.random.default_rng(seed)
    differs = rng.random(200) < share
    scores = np.where(differs, scale * rng.choice([-1.0, 1.0], 200, p=[0.4, 0.6]), 0.0)
    bets = Bets(0.04)
    bets.add(scores, np.full(200, -scale), scale**2, differs)
    rate = np.minimum(bets.stakes / scale, 0.8 / scale)[:, None]
    means = scale * np.array([-5.0, -1.0, -0.1, -0.01, 0.0, 0.01, 0.05, 0.1])
    wealth = [bets.log_wealth(mean) for mean in means]
    assert all(upper >= lower - 1e-9 for upper, lower in pairwise(wealth))
    for mean, found in zip(means, wealth, strict=True):
        factors = 1.0 + rate * (scores - mean)
        if (factors > 0.0).all():
            exact = np.log(np.exp(bets.shares + np.log(factors).sum(axis=1)).sum())
            assert found <= exact + 1e-9 or found <= 0.0  # no gambler excludes more than the mean of its rows


def test_the_wealth_at_zero_does_not_depend_on_agreeing_rows() -> None:
    bets = Bets(0.04)
    rng = np.random.default_rng(2)
    scores, differs = rng.normal(0.1, 1.0, 1_000).clip(-2.0, 2.0), rng.random(1_000) < 0.3
    bets.add(np.where(differs, scores, 0.0), np.full(1_000, -2.0), 1.0, differs)
    alone = Bets(0.04)
    alone.add(scores[differs], np.full(int(differs.sum()), -2.0), 1.0)
    assert bets.log_wealth() == pytest.approx(alone.log_wealth(), abs=1e-9)
    assert bets.lower_bound(-1.0) == pytest.approx(alone.lower_bound(-1.0) * differs.mean(), rel=0.2)


def test_a_margin_is_proven_per_decision() -> None:
    """An advantage of .36 on 20% of the decisions is .072 per decision: above .03, and not above .10."""
    rows, truth = agreeing_log(6_000, 11, order="mixed", uplift=0.45)
    assert truth == pytest.approx(0.072, abs=0.01)
    enough = from_log([rows], replace(ABOUT, margin=0.03), display=False)
    assert enough.shows_better
    assert enough.bounds is not None
    assert enough.bounds[0] >= 0.03
    assert not from_log([rows], replace(ABOUT, margin=0.10), display=False).shows_better


def evidence_with(**changes: object) -> Evidence:
    rows, _ = agreeing_log(600, 1, order="mixed", uplift=0.9, agree=0.3)
    return replace(from_log([rows], ABOUT, display=False), **changes)


def test_a_bound_of_the_wrong_sign_is_never_printed() -> None:
    broken = evidence_with(bounds=(-2.0, 2.0), diagnostics=())
    assert broken.shows_better
    assert not broken.consistent()
    assert conclusion(verdict(broken)) == (
        "router@1 is better than rules@0: the test proves it, and does not say by how much."
    )


def test_an_inconsistent_record_is_an_error_of_our_own() -> None:
    measured = {
        "kind": "log", "n": 300, "values": {}, "difference": evidence_with().difference, "statistic": 0.0,
        "statistic_worse": 0.0, "threshold": log(25.0), "rule": "betting", "alpha": 0.04, "counts": {},
        "data_hash": "", "needed": None,
    }  # fmt: skip
    with pytest.raises(AssertionError):
        ABOUT.compose(**measured, bounds=(0.1, 0.5))  # a bound that the test does not prove
    with pytest.raises(AssertionError):
        ABOUT.compose(**measured, bounds=(-4.0, 4.0))  # beyond the range
