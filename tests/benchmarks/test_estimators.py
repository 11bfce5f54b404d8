from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from benchmarks import _estimators as estimators
from benchmarks._worlds import EXACT_VALUES, routing_log
from headway.nouns.errors import UnknownName
from headway.prove import display as core
from headway.prove.display import ScoreSpread
from headway.prove.log import Log
from tests.prove.logs import small_log, true_difference

REWARD = np.array([1.0, 0.0, 1.0, 0.5])
WEIGHT = np.array([0.5, 2.0, 4.0, 0.0])
DIRECT = np.array([0.4, 0.6, 0.5, 0.7])
FITTED = np.array([0.8, 0.2, 0.5, 0.5])


@pytest.mark.parametrize(
    ("method", "by_hand"),
    [
        ("ips", (0.5 + 0.0 + 4.0 + 0.0) / 4),
        ("snips", 4.5 / 6.5),
        ("dm", 2.2 / 4),
        ("dr", (2.2 + 0.5 * 0.2 + 2.0 * -0.2 + 4.0 * 0.5) / 4),
        ("sndr", 2.2 / 4 + (0.1 - 0.4 + 2.0) / 6.5),
    ],
)
def test_estimators_equal_values_computed_by_hand(method: estimators.Method, by_hand: float) -> None:
    rows = estimators.rows(method, reward=REWARD, weight=WEIGHT, direct=DIRECT, fitted=FITTED)
    assert rows.mean() == pytest.approx(by_hand, abs=1e-12)


def test_shrinkage_runs_from_the_model_alone_to_doubly_robust() -> None:
    def dros(shrinkage: float) -> float:
        return float(
            estimators.rows(
                "dros", reward=REWARD, weight=WEIGHT, direct=DIRECT, fitted=FITTED, shrinkage=shrinkage
            ).mean()
        )

    assert dros(0.0) == pytest.approx(DIRECT.mean())
    assert dros(np.inf) == pytest.approx(float((DIRECT + WEIGHT * (REWARD - FITTED)).mean()))
    assert dros(1.0) == pytest.approx(float((DIRECT + WEIGHT / (WEIGHT**2 + 1.0) * (REWARD - FITTED)).mean()))


def test_lambda_shrinks_wild_weights_whose_residuals_cancel_and_keeps_those_that_matter() -> None:
    wild = np.zeros(2000)
    wild[:20] = 500.0
    cancel, matter = np.zeros(2000), np.zeros(2000)
    cancel[:20:2], cancel[1:20:2] = 1.0, -1.0
    matter[:20] = 1.0
    assert estimators.choose_lambda(wild, cancel, np.zeros(2000)) < 100.0
    assert estimators.choose_lambda(wild, matter, np.zeros(2000)) > 1e5


def test_an_unknown_estimator_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'snips'"):
        estimators.rows("snip", reward=REWARD, weight=WEIGHT, direct=DIRECT, fitted=FITTED)  # type: ignore[arg-type]


probabilities = st.lists(st.floats(0.05, 1.0), min_size=2, max_size=4)


@given(st.data())
def test_ips_and_dr_are_unbiased_for_any_policy_and_any_reward_model(data: st.DataObject) -> None:
    """The expectation over the logging policy, computed exactly by listing every action and reward."""
    mu = np.array(data.draw(probabilities))
    k = mu.size
    mu = mu / mu.sum()
    pi = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=k, max_size=k))) + 1e-9
    pi = pi / pi.sum()
    chance = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=k, max_size=k)))
    model = np.array(data.draw(st.lists(st.floats(-2.0, 2.0), min_size=k, max_size=k)))
    expected = {"ips": 0.0, "dr": 0.0}
    for action, reward in itertools.product(range(k), (0.0, 1.0)):
        weight = mu[action] * (chance[action] if reward else 1.0 - chance[action])
        log = Log.of(reward=[reward], action=[action], logged=[mu], target=[pi])
        w, m, q = estimators.terms(log, log.target, model[None, :])
        for method in expected:
            estimate = estimators.rows(method, reward=log.reward, weight=w, direct=m, fitted=q)  # type: ignore[arg-type]
            expected[method] += weight * float(estimate[0])
    assert expected["ips"] == pytest.approx(float(pi @ chance), abs=1e-9)
    assert expected["dr"] == pytest.approx(float(pi @ chance), abs=1e-9)


def test_the_paired_difference_is_near_the_truth_and_tighter_than_two_values() -> None:
    log = small_log(20_000, 1)
    difference = estimators.paired(log)
    ours, theirs = estimators.estimate(log), estimators.estimate(log, log.baseline)
    assert difference.value == pytest.approx(ours.value - theirs.value, abs=1e-9)
    assert abs(difference.value - true_difference()) < 6 * (difference.high - difference.low) / 3.92
    assert difference.low < difference.value < difference.high


def test_rows_without_a_reward_are_omitted() -> None:
    log = small_log(500, 2)
    reward = log.reward.copy()
    reward[::5] = np.nan
    thin = Log.of(reward=reward, action=log.action, logged=log.logged, target=log.target, features=log.features)
    assert estimators.estimate(thin).n == 400


def test_the_five_exact_values_are_covered_and_a_matched_mean_is_not() -> None:
    """PROOF's generator with 650 rows: the exact value lies inside, for 40 logs at a rate that chance explains."""
    hits = dict.fromkeys(EXACT_VALUES, 0)
    matched = []
    for seed in range(40):
        log, policies = routing_log(650, np.random.default_rng([11, seed]))
        q = estimators.cross_fitted(log)
        for name, exact in EXACT_VALUES.items():
            estimate = estimators.estimate(log, policies[name], q=q, seed=seed)
            hits[name] += estimate.low <= exact <= estimate.high
        matched.append(float(log.reward[log.action == 0].mean()))
    assert min(hits.values()) > 27  # of 40 at 95%: binomial tail below 1e-7
    assert np.mean(matched) > 0.6  # the mean of the rows that chose it: the error to avoid


def test_self_normalised_estimates_do_not_move_with_the_scale_of_the_weights() -> None:
    for method in ("snips", "sndr"):
        once = estimators.rows(method, reward=REWARD, weight=WEIGHT, direct=DIRECT, fitted=FITTED)
        twice = estimators.rows(method, reward=REWARD, weight=2 * WEIGHT, direct=DIRECT, fitted=FITTED)
        assert once.mean() == pytest.approx(float(twice.mean()), abs=1e-12)


def test_the_estimate_is_the_same_with_any_interval_and_in_the_core() -> None:
    log = small_log(300, 0)
    q = estimators.cross_fitted(log)
    value, paired = core.value(log, log.target, q, ScoreSpread(log, q)), core.paired(log, q, ScoreSpread(log, q))
    assert estimators.estimate(log, q=q) == value
    assert estimators.paired(log, q=q) == paired
    assert estimators.estimate(log, q=q, interval="bootstrap").value == value.value
    assert estimators.paired(log, q=q, interval="normal").value == paired.value
