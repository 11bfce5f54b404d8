from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks._worlds import NineModels, nine_models
from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Diagnostic, Evidence, Plan
from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.diagnostics import Window
from headway.prove.evidence import evidence_of, from_log
from headway.prove.guard_bets import GuardRule
from headway.prove.log import CENSORED, FAILED, PENDING, RowOrigin
from headway.prove.power import plan
from headway.prove.proof import LogProof
from tests.prove.logs import small_log, true_difference

ABOUT = About(task="route", candidate="bandit@4f2a", against="rules@0")


def named(evidence: Evidence, name: str) -> Diagnostic:
    return next(diagnostic for diagnostic in evidence.diagnostics if diagnostic.name == name)


def test_a_better_policy_passes_and_its_bounds_hold_the_truth() -> None:
    evidence = from_log([small_log(6_000, 3)], ABOUT)
    assert verdict(evidence).state == "pass"
    assert evidence.bounds is not None
    assert evidence.bounds[0] < true_difference() < evidence.bounds[1]
    assert evidence.difference.low < true_difference() < evidence.difference.high
    assert set(evidence.values) >= {"candidate", "current", "behaviour", "always high"}
    assert evidence.curve[-1][0] == 6_000


def test_a_worse_policy_is_proven_worse() -> None:
    log = small_log(6_000, 4, target=(0.8, 0.1, 0.1), baseline=(0.1, 0.1, 0.8))
    assert verdict(from_log([log], ABOUT)).state == "worse"


def test_scores_use_only_the_past() -> None:
    """Changing later rewards changes no earlier sum."""
    log = small_log(1_000, 5)
    other = replace(log, reward=np.concatenate([log.reward[:600], 1.0 - log.reward[600:]]))
    totals = []
    for scored in (log, other):
        proof = LogProof()
        proof.update(scored.rows(0, 600))
        early = proof.tally.scores.total
        proof.update(scored.rows(600, 1_000))
        totals.append((early, proof.tally.scores.total))
    assert totals[0][0] == totals[1][0]
    assert totals[0][1] != totals[1][1]


def test_the_mean_score_is_the_true_difference() -> None:
    """400 logs of 200 rows: the mean of their scores, within six standard errors."""
    means = []
    for seed in range(400):
        proof = LogProof(hashing=False)
        proof.update(small_log(200, [6, seed]))  # type: ignore[arg-type]
        means.append(proof.tally.scores.mean)
    assert abs(np.mean(means) - true_difference()) < 6 * np.std(means) / 20


def test_the_model_variance_equals_the_empirical_one_on_large_logs() -> None:
    proof = LogProof(hashing=False)
    proof.update(small_log(30_000, 7))
    assert proof.tally.model_variance == pytest.approx(proof.tally.scores.variance, rel=0.05)


def test_the_model_variance_includes_weights_that_have_not_occurred_yet() -> None:
    """A target that does what is logged once in 500: no such row is among the first 100, yet it is in the variance."""
    log = small_log(100, 8, logged=(0.998, 0.001, 0.001), target=(0.0, 0.0, 1.0), baseline=(1.0, 0.0, 0.0))
    assert not (log.action == 2).any()
    proof = LogProof(hashing=False)
    proof.update(log)
    assert proof.tally.model_variance > 30 * proof.tally.scores.variance


def test_a_registered_test_ends_at_its_horizon_and_starts_after_its_mark() -> None:
    log = small_log(3_000, 9)
    planned = Plan(horizon=1_000, uplift=0.2, power=0.8, alpha=0.04, from_seq=500)
    evidence = from_log([log], replace(ABOUT, plan=planned))
    assert evidence.n == 1_000
    assert evidence.ended
    assert evidence.rule == "betting, registered horizon 1000"
    beyond = replace(log, reward=np.concatenate([log.reward[:1_500], 1.0 - log.reward[1_500:]]))
    assert from_log([beyond], replace(ABOUT, plan=planned)).statistic == pytest.approx(evidence.statistic, rel=1e-12)
    before = replace(log, reward=np.concatenate([1.0 - log.reward[:50], log.reward[50:]]))
    assert from_log([before], replace(ABOUT, plan=planned)).statistic != evidence.statistic  # it teaches the model


def test_few_decisions_are_refused_with_the_number_that_is_needed() -> None:
    answer = verdict(from_log([small_log(150, 10)], ABOUT))
    assert answer.state == "refused"
    assert any("150 scored decisions (at least 200 needed)" in reason for reason in answer.reasons)


def test_a_log_with_an_effective_size_below_ten_is_refused_with_the_reason() -> None:
    log = small_log(2_000, 11, logged=(0.998, 0.001, 0.001), target=(0.0, 0.0, 1.0))
    evidence = from_log([log], ABOUT)
    assert named(evidence, "ess").value < 10
    answer = verdict(evidence)
    assert answer.state == "refused"
    assert any(reason.startswith("ess: effective sample size") for reason in answer.reasons)
    assert "canary" in answer.hint


def test_wrong_propensities_are_detected() -> None:
    log = small_log(2_000, 12)
    wrong = replace(log, logged=np.tile([0.4, 0.3, 0.3], (2_000, 1)))
    assert named(from_log([log], ABOUT), "calibration").ok
    evidence = from_log([wrong], ABOUT)
    assert not named(evidence, "calibration").ok
    assert verdict(evidence).state == "refused"


def test_probabilities_that_cannot_be_replayed_are_detected() -> None:
    log = small_log(500, 13)
    assert named(from_log([replace(log, replayed=log.logged)], ABOUT), "replay").ok
    assert not named(from_log([replace(log, replayed=log.target)], ABOUT), "replay").ok


def test_policies_that_differ_on_impossible_actions_are_detected() -> None:
    log = small_log(500, 14, logged=(0.7, 0.3, 0.0))
    assert not named(from_log([log], ABOUT), "unlogged_actions").ok
    same = replace(log, target=log.baseline)
    assert named(from_log([same], ABOUT), "unlogged_actions").ok


def test_a_feature_that_equals_the_outcome_is_detected() -> None:
    log = small_log(500, 15)
    leaky = replace(log, features=np.stack([log.features[:, 0], 3.0 - 2.0 * log.reward], axis=1))
    assert named(from_log([log], ABOUT), "leak").ok
    check = named(from_log([leaky], ABOUT), "leak")
    assert not check.ok
    assert "feature 2" in check.message
    named_log = replace(leaky, origin=RowOrigin(columns=("size", "solved")))
    assert "'solved'" in named(from_log([named_log], ABOUT), "leak").message


def test_outcomes_dated_before_their_decision_are_detected() -> None:
    log = small_log(300, 16)
    at = np.arange(300.0)
    assert named(from_log([replace(log, decided_at=at, settled_at=at + 1)], ABOUT), "clock").ok
    assert not named(from_log([replace(log, decided_at=at, settled_at=at - 1)], ABOUT), "clock").ok


def test_traffic_unlike_the_training_rows_is_detected() -> None:
    log = small_log(500, 17)
    like = Window(n=500, mean=np.array([0.0]), std=np.array([1.0]))
    unlike = Window(n=500, mean=np.array([5.0]), std=np.array([1.0]))
    assert named(from_log([log], ABOUT, training=like), "drift").ok
    assert not named(from_log([log], ABOUT, training=unlike), "drift").ok


def test_one_client_that_makes_the_difference_is_detected() -> None:
    """A tenth of the rows, all from one key, pays only what the candidate likes."""
    log = small_log(4_000, 18, target=(0.1, 0.1, 0.8), baseline=(0.1, 0.8, 0.1))
    keys = np.where(np.arange(4_000) % 10 == 0, "mallory", np.where(np.arange(4_000) % 2, "alice", "bob"))
    even = np.random.default_rng(0).random(4_000) < 0.5
    paid = np.where(keys == "mallory", np.where(log.action == 2, 1.0, 0.0), np.where(log.action == 2, even * 0.9, even))
    evidence = from_log([replace(log, reward=paid.astype(float), keys=keys)], ABOUT)
    assert not named(evidence, "one_client").ok
    assert "mallory" in named(evidence, "one_client").message
    honest = from_log([small_log(4_000, 18, keys=keys)], ABOUT)
    assert named(honest, "one_client").ok


def test_an_arm_whose_failures_are_missing_more_often_is_not_promoted_for_it() -> None:
    """'high' answers well when it answers; four calls in ten fail. Left out, it looks best; counted, it is worst."""
    rng = np.random.default_rng(19)
    log = small_log(6_000, 19)
    fails = (log.action == 2) & (rng.random(6_000) < 0.6)
    status = np.where(fails, FAILED, 0)
    left_out = replace(log, reward=np.where(fails, np.nan, log.reward), status=status)
    evidence = from_log([left_out], ABOUT)
    assert evidence.difference.low > 0
    answer = verdict(evidence)
    assert answer.state == "refused"
    assert any(reason.startswith("Cannot tell") for reason in answer.reasons)
    assert not named(evidence, "missing_depends_on_action").ok
    counted = replace(log, reward=np.where(fails, -1.0, log.reward), status=status)
    assert verdict(from_log([counted], ABOUT)).state == "worse"


def test_missing_outcomes_that_have_nothing_to_do_with_the_action_do_not_block() -> None:
    rng = np.random.default_rng(20)
    log = small_log(6_000, 20)
    gone = rng.random(6_000) < 0.3
    evidence = from_log(
        [replace(log, reward=np.where(gone, np.nan, log.reward), status=np.where(gone, CENSORED, 0))], ABOUT
    )
    assert named(evidence, "missing_depends_on_action").ok
    assert verdict(evidence).state == "pass"
    assert evidence.counts["censored"] == int(gone.sum())


def test_pending_rows_are_counted_and_not_treated_as_missing() -> None:
    log = small_log(3_000, 21)
    pending = log.action == 2
    pending[:2_000] = False
    evidence = from_log(
        [replace(log, reward=np.where(pending, np.nan, log.reward), status=np.where(pending, PENDING, 0))], ABOUT
    )
    assert evidence.counts["pending"] == int(pending.sum())
    assert named(evidence, "missing_depends_on_action").ok


def test_a_guard_stops_a_candidate_that_costs_more() -> None:
    log = small_log(6_000, 22)
    cost = np.where(log.action == 2, 0.03, 0.01) + np.random.default_rng(0).exponential(0.001, 6_000)
    dear = replace(log, guards={"cost_usd": cost})
    rules = [GuardRule(name="cost_usd", tolerance=0.001, range=(0.0, 0.1))]
    answer = verdict(from_log([dear], ABOUT, guards=rules))
    assert answer.state == "refused"
    assert any("cost_usd" in reason for reason in answer.reasons)
    assert verdict(from_log([dear], ABOUT, guards=[replace(rules[0], tolerance=0.05)])).passed
    assert verdict(from_log([dear], ABOUT, guards=[replace(rules[0], tolerance=0.0, better="higher")])).passed
    assert not verdict(from_log([log], ABOUT, guards=rules)).passed  # nobody sent the metric: nothing protects it


def test_a_segment_that_loses_stops_a_candidate_that_wins_on_the_whole() -> None:
    log = small_log(8_000, 23)
    role = np.where(np.arange(8_000) % 4 == 0, "legal", "sales")
    reward = np.where((role == "legal") & (log.action == 2), 0.0, log.reward)
    answer = verdict(from_log([replace(log, reward=reward, segments={"role": role})], ABOUT))
    assert answer.state == "refused"
    assert any("role=legal" in reason for reason in answer.reasons)


@pytest.mark.slow
def test_forty_equal_segments_rarely_raise_a_false_alarm() -> None:
    """Bonferroni: over 40 logs of 40 segments without any difference, a handful of alarms at most."""
    alarms = 0
    for seed in range(40):
        log = small_log(4_000, [24, seed], target=(0.5, 0.3, 0.2), baseline=(0.4, 0.5, 0.1))  # type: ignore[arg-type]
        rng = np.random.default_rng(seed)
        fair = replace(log, reward=(rng.random(4_000) < 0.5).astype(float))
        labels = np.char.add("s", (np.arange(4_000) % 40).astype(str))
        evidence = from_log([replace(fair, segments={"s": labels})], ABOUT, display=False)
        alarms += not all(guard.ok for guard in evidence.guards)
    assert alarms <= 12  # 2.5% a log are expected; P(more than 12 of 40) < 1e-9 at 5%


def test_an_empty_log_is_an_error_with_a_hint() -> None:
    with pytest.raises(InvalidInput, match="No results yet for") as raised:
        from_log([], ABOUT)
    assert raised.value.code == "no_evidence"


def test_the_planner_says_what_a_canary_would_save() -> None:
    log = small_log(1_000, 27, logged=(0.9, 0.05, 0.05), target=(0.0, 0.0, 1.0), baseline=(1.0, 0.0, 0.0))
    advice = plan([log], uplift=0.1)
    by_name = {saving.name: saving.horizon for saving in advice.savings}
    assert advice.plan.horizon > by_name["a 10% canary"] > by_name["a 50% canary"] >= 200
    assert by_name["30% more exploration"] < advice.plan.horizon
    assert advice.plan.alpha == pytest.approx(0.04)
    assert "decisions for 80% power" in str(advice)
    with pytest.raises(InvalidInput, match="not above the margin"):
        plan([log], uplift=0.1, margin=0.1)


def test_the_planned_horizon_has_the_planned_power() -> None:
    """60 tests of the planned length: at 80% power, fewer than 30 passes have a chance below 1e-6."""
    target, baseline = (0.0, 0.5, 0.5), (0.5, 0.5, 0.0)
    uplift = true_difference(target, baseline)
    pilot = small_log(500, 28, target=target, baseline=baseline)
    horizon = plan([pilot], uplift=uplift / 2).plan.horizon  # half the margin is taken away below
    registered = Plan(horizon=horizon, uplift=uplift / 2, power=0.8, alpha=0.04)
    passes = 0
    for seed in range(60):
        log = small_log(horizon, [29, seed], target=target, baseline=baseline)  # type: ignore[arg-type]
        about = replace(ABOUT, plan=registered, margin=uplift / 2)
        passes += verdict(from_log([log], about, display=False)).passed
    assert passes >= 33


@pytest.mark.parametrize(("logs", "most"), [(6, 6), pytest.param(40, 18, marks=pytest.mark.slow)])
def test_peeking_rarely_promotes_a_useless_candidate(logs: int, most: int) -> None:
    """Two rules, a look after every 50 of 1,500 rows: 4% at most; P(more than `most`) < 1e-6 either way."""
    target, baseline = (0.2, 0.3, 0.5), (0.35, 0.0, 0.65)
    equal = np.array([0.5, 0.5, 0.5])
    wrong = 0
    for seed in range(logs):
        log = small_log(1_500, [30, seed], target=target, baseline=baseline)  # type: ignore[arg-type]
        fair = (np.random.default_rng([31, seed]).random(1_500) < equal[log.action]).astype(float)
        log = replace(log, reward=fair)
        for about in (ABOUT, replace(ABOUT, plan=Plan(horizon=1_500, uplift=0.1, power=0.8, alpha=0.04))):
            proof = LogProof(plan=about.plan, hashing=False)
            passed = False
            for start in range(0, 1_500, 50):
                proof.update(log.rows(start, start + 50))
                passed = passed or (proof.tally.n >= 200 and verdict(evidence_of(proof, about)).passed)
            wrong += passed
    assert wrong <= most


def test_evidence_can_be_written_as_json() -> None:
    from dataclasses import asdict

    text = json.dumps(asdict(from_log([small_log(400, 32)], ABOUT)), allow_nan=False)
    assert "bandit@4f2a" in text


@pytest.fixture(scope="module")
def nine(shared_data: Path) -> NineModels:
    return nine_models(shared_data / "routing" / "nine_models_train.jsonl.gz")


@pytest.mark.slow
def test_nine_models_with_a_canary_are_distinguished_and_equal_ones_are_not(nine: NineModels) -> None:
    truth = nine.value(nine.better) - nine.value(nine.current)
    assert truth == pytest.approx(0.025, abs=0.001)
    passes = inside = 0
    for seed in range(6):
        rng = np.random.default_rng([33, seed])
        about = replace(ABOUT, plan=Plan(horizon=10_000, uplift=0.025, power=0.8, alpha=0.04))
        evidence = from_log([nine.log(10_000, rng, target=nine.better, epsilon=0.1, canary=0.2)], about, display=False)
        passes += verdict(evidence).passed
        inside += evidence.bounds is not None and evidence.bounds[0] <= truth <= evidence.bounds[1]
        same = from_log([nine.log(10_000, rng, target=nine.null, epsilon=0.1, canary=0.2)], about, display=False)
        assert verdict(same).state in ("refused", "pass")  # ended; a pass by chance is counted below
        passes -= verdict(same).passed
    assert passes >= 1  # at 90% power none has a chance below 1e-5, and each false pass takes one away
    assert inside >= 3


def test_a_long_log_streams_in_bounded_memory(root: Path) -> None:
    """120,000 rows of 130 features are 125 MB; the proof keeps none of them."""
    code = """
import resource, numpy as np
from headway.prove.evidence import from_log
from headway.prove.about import About
from headway.prove.log import Log
def chunks():
    rng = np.random.default_rng(0)
    for start in range(0, 120_000, 10_000):
        mu = np.full((10_000, 2), 0.5)
        yield Log.of(reward=rng.random(10_000), action=rng.integers(0, 2, 10_000), logged=mu,
                     target=np.tile([0.9, 0.1], (10_000, 1)), features=rng.normal(size=(10_000, 130)), first_row=start)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = from_log(chunks(), About(task="t", candidate="c@1", against="d@0"))
print(found.n, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root)
    n, megabytes = map(int, done.stdout.split())
    assert n == 120_000
    assert megabytes < 130
