"""The whole loop: decided, rewarded, learned, proven, promoted, served, rolled back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import headway
from headway.nouns.errors import Conflict, Damaged, GateRefused, InvalidInput, UnknownName
from headway.nouns.evidence import Verdict
from tests.project.conftest import ARMS, play


def rows(project):
    return project.query.counts("route").decisions


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A project with traffic and one candidate; tests that change its ledger put it back."""
    project = headway.open(tmp_path_factory.mktemp("loop"), environ={}, seed=3)
    play(project, n=2500)
    project.learn("route")
    yield project
    project.close()


def test_a_policy_is_promoted_and_rolled_back(learned):
    policy = learned.learn("route")
    proof = learned.prove(policy)
    assert proof.passed, proof.reasons
    entry = learned.promote(policy, because=proof, at_once=True)
    assert (entry.kind, entry.policy, entry.evidence_id) == ("promote", policy, proof.evidence.id)
    pick = learned.decide("route", "Prove that the square root of two is irrational.", ARMS)
    assert (pick.policy, pick.policy_hash) == (policy, entry.policy_hash), "the promoted policy is served"
    back = learned.rollback("route")
    assert (back.kind, back.policy) == ("rollback", "uniform@0")
    assert learned.decide("route", "x", ARMS).policy == "uniform@0"
    assert [entry.kind for entry in learned.ledger.entries("route")][-2:] == ["promote", "rollback"]


def test_learning_twice_from_the_same_rows_gives_the_same_policy(learned):
    first = learned.learn("route", seed=11)
    assert learned.learn("route", seed=11) == first


def test_evidence_is_the_same_when_it_is_computed_again(learned):
    policy = learned.learn("route")
    first, again = learned.prove(policy).evidence, learned.prove(policy).evidence
    assert first == replace(again, seen_s=first.seen_s)  # the log has grown older


def test_a_policy_without_evidence_is_not_promoted(opened):
    project = opened()
    play(project, n=60)
    policy = project.learn("route")
    with pytest.raises(GateRefused) as error:
        project.promote(policy)
    assert "headway prove route" in error.value.hint
    verdict = project.prove(policy)
    assert not verdict.passed
    with pytest.raises(GateRefused) as error:
        project.promote(policy, because=verdict)
    assert error.value.reasons == verdict.reasons
    assert project.decide("route", "x", ARMS).policy == "uniform@0"


@pytest.mark.engines(slow="postgresql", why="it is about learning")
def test_a_forged_verdict_does_not_promote(opened):
    project = opened()
    play(project, n=60)
    policy = project.learn("route")
    honest = project.prove(policy)
    forged = Verdict(
        state="pass", reasons=("trust me",), evidence=replace(honest.evidence, statistic=1e9, diagnostics=())
    )
    with pytest.raises(GateRefused):
        project.promote(policy, because=forged)
    with pytest.raises(UnknownName) as error:
        project.promote(
            policy, because=Verdict(state="pass", reasons=(), evidence=replace(honest.evidence, id="evi_made_up"))
        )
    assert error.value.code == "unknown_evidence"


def test_evidence_against_yesterdays_current_is_stale(learned):
    policy = learned.learn("route", seed=21)
    proof = learned.prove(policy)
    assert proof.passed
    other = learned.learn("route", seed=22, model="clusters")
    beside = learned.prove(other)
    learned.promote(policy, because=proof, at_once=True)
    with pytest.raises((Conflict, GateRefused)) as error:
        learned.promote(other, because=beside)
    assert error.value.code == "stale_evidence"
    learned.rollback("route", to="uniform@0")


def test_a_gate_that_is_off_is_written_in_the_ledger(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    play(project, n=60)
    entry = project.promote(project.learn("route"))
    assert entry.why == "gate off"


def test_rollback_reaches_any_earlier_policy_and_the_baseline(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    play(project, n=80)
    first = project.learn("route", seed=1)
    project.promote(first)
    play(project, n=80, seed=8)
    second = project.learn("route", seed=2)
    project.promote(second)
    assert project.rollback("route").policy == first
    assert project.rollback("route", to=second).policy == second
    assert project.rollback("route", to="uniform@0").policy == "uniform@0"
    with pytest.raises(Conflict) as error:
        project.rollback("route", to="uniform@0")
    assert error.value.code == "already_current"


def test_another_process_sees_a_promotion(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    other = opened()
    play(project, n=60)
    assert other.decide("route", "x").policy == "uniform@0"
    policy = project.learn("route")
    project.promote(policy)
    other.servings.forget("route")  # it would check by itself within 0.2 s
    assert other.decide("route", "x").policy == policy


def test_every_decision_replays_exactly(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\nexplore = { kind = "thompson" }\n')
    ids = play(project, n=60)
    project.promote(project.learn("route"))
    ids += play(project, n=20, seed=9)
    assert all(project.replay(identifier).exact for identifier in ids[::7])


@pytest.mark.parametrize(("value", "least", "most"), [(1e-6, 0.97, 1.0), (1e6, 0.3, 0.7)])
def test_thompsons_value_scales_the_deviations(opened, value, least, most):
    project = opened(
        '[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n'
        f'explore = {{ kind = "thompson", value = {value} }}\n'
    )
    play(project, n=60)
    project.promote(project.learn("route", model="linear"))
    pick = project.decide("route", "a new question")
    assert least <= max(pick.probabilities) <= most
    assert project.replay(pick.id).exact


def test_replay_names_what_is_missing(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    play(project, n=60)
    project.promote(project.learn("route"))
    pick = project.decide("route", "x")
    folder = project.home / "policies" / pick.policy_hash
    folder.rename(folder.with_name("moved"))
    replayed = project.replay(pick.id)
    assert replayed.exact is None
    assert pick.policy_hash[:12] in replayed.gone


def test_a_damaged_bundle_is_refused_and_the_current_policy_stays(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    play(project, n=60)
    policy = project.learn("route")
    weights = project.home / "policies" / project.registry.find(policy) / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    with pytest.raises(Damaged) as error:
        project.promote(policy)
    assert error.value.code == "bundle_hash_mismatch"
    assert project.decide("route", "x").policy == "uniform@0"


def test_a_bundle_of_another_task_is_refused(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\n[tasks.other]\nactions = ["small", "large"]\n')
    play(project, n=60)
    policy = project.learn("route")
    with pytest.raises(InvalidInput) as error:
        project.promote(policy, task="other")
    assert error.value.code == "wrong_task"


def test_rules_decide_until_a_better_policy_is_proven(opened):
    project = opened(
        '[tasks.route]\nactions = ["small", "large"]\nexplore = { kind = "none" }\nfloor = 0.0\n'
        'rules = [{ when = "task_complexity_score > 0.8", use = "large" }]\n'
    )
    easy = project.decide("route", "x", state={"task_complexity_score": 0.1})
    hard = project.decide("route", "x", state={"task_complexity_score": 0.9})
    assert (easy.policy, easy.action, hard.action) == ("rules@0", "small", "large")
    assert "rule 1" in project.explain(hard.id).why


def test_headway_policy_off_returns_to_the_baseline_at_once(opened):
    toml = '[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n'
    project = opened(toml)
    play(project, n=60)
    policy = project.learn("route")
    project.promote(policy)
    assert opened(environ={"HEADWAY_POLICY": "off"}).decide("route", "x").policy == "uniform@0"
    project.rollback("route", to="uniform@0")
    assert opened(environ={"HEADWAY_POLICY": policy}).decide("route", "x").policy == policy


def test_the_ledger_records_every_change(learned):
    learned.learn("route", seed=31)
    entries = learned.ledger.entries("route")
    assert [entry.n for entry in entries] == list(range(1, len(entries) + 1))
    assert all(entry.who and entry.why and entry.at for entry in entries)
    assert json.dumps([entry.detail for entry in entries])


def test_status_counts_decisions_and_outcomes(project):
    play(project, n=30)
    project.decide("route", "not rated", ARMS)
    project.settle("route")
    (task,) = project.status().tasks
    assert (task.decisions, task.outcomes["rewarded"], task.outcomes["pending"]) == (31, 30, 1)
    assert task.until_retrain == 20
    assert rows(project) == 31


def test_a_canary_shares_the_traffic_with_exact_propensities(learned):
    policy = learned.learn("route")
    learned.canary(policy, share=0.3)
    picks = [learned.decide("route", f"question {number}", ARMS) for number in range(60)]
    assert {pick.assigned for pick in picks} == {"uniform@0", policy}
    assert all(pick.policy == "uniform@0" and "canary 0.3" in pick.exploration for pick in picks)
    assert all(abs(sum(pick.probabilities) - 1.0) < 1e-12 for pick in picks)
    assert all(learned.replay(pick.id).exact for pick in picks[::9])
    learned.canary(policy, share=0.0)
    assert learned.decide("route", "x", ARMS).assigned == ""
    with pytest.raises(InvalidInput) as error:
        learned.canary(policy, share=0.9)
    assert error.value.code == "bad_share"


@pytest.mark.slow
@pytest.mark.engines(slow="postgresql", why="thousands of decisions; it is about the proof")
def test_a_canary_that_is_proven_worse_is_retired_automatically(opened):
    project = opened(
        '[tasks.route]\nactions = ["good", "bad"]\ngate = "off"\n'
        'rules = [{ when = "text_length >= 0", use = "good" }]\n'
    )
    for number in range(300):  # the candidate learns from flattering rewards that "bad" is best …
        pick = project.decide("route", f"question {number}")
        project.signal(pick.id, reward=0.9 if pick.action == "bad" else 0.1)
    policy = project.learn("route")
    project.canary(policy, share=0.3)
    assert project.guard("route") is None, "nothing is proven yet"
    for number in range(300, 1500):  # … and traffic shows that it is not
        pick = project.decide("route", f"question {number}")
        project.signal(pick.id, reward=0.1 if pick.action == "bad" else 0.9)
    entry = project.guard("route")
    assert entry is not None
    assert (entry.kind, entry.policy) == ("retire", policy)
    assert entry.why.startswith("automatic: Proven worse")
    assert project.decide("route", "x").assigned == ""


@pytest.mark.engines(slow="postgresql", why="thousands of decisions; it is about the proof")
def test_a_current_policy_that_is_proven_worse_is_rolled_back_automatically(opened):
    project = opened(
        '[tasks.route]\nactions = ["good", "bad"]\ngate = "off"\nexplore = { kind = "epsilon", value = 0.3 }\n'
    )
    for number in range(200):
        pick = project.decide("route", f"question {number}")
        project.signal(pick.id, reward=0.9 if pick.action == "bad" else 0.1)
    project.promote(project.learn("route"))
    for number in range(200, 1200):
        pick = project.decide("route", f"question {number}")
        project.signal(pick.id, reward=0.1 if pick.action == "bad" else 0.9)
    entry = project.guard("route")
    assert entry is not None
    assert (entry.kind, entry.policy) == ("rollback", "uniform@0")
    assert project.guard("route") is None


@pytest.mark.engines(slow="postgresql", why="thousands of decisions; it is about the proof")
def test_a_plan_fixes_the_horizon_before_the_test_starts(opened):
    project = opened()
    play(project, n=600)
    policy = project.learn("route")
    planned = project.plan("route", uplift=0.05, register=True)
    assert planned.plan.horizon >= 200
    assert planned.plan.from_decision == project.query.last_decision("route")
    play(project, n=300, seed=12)
    evidence = project.prove(policy).evidence
    assert evidence.plan == planned.plan
    assert evidence.n <= 300, "pilot rows do not count"


@pytest.mark.engines(slow="postgresql", why="it is about learning")
def test_folding_equals_recomputing_the_statistics(opened):
    toml = '[tasks.route]\nactions = ["small", "large"]\ngate = "off"\nonline = "live"\n'
    project = opened(toml)
    ids = play(project, n=150)
    project._folded_at = float("inf")  # only explicit folds in this test
    project.promote(project.learn("route", model="linear", ridge=3.0, prior="mean"))
    start = project.ledger.current("route").policy_hash
    before = project.registry.load(start, task="route")[1]
    untouched = {name: tensor.copy() for name, tensor in before.items()}
    pick = project.decide("route", "one more question")
    project.signal(pick.id, reward=0.4)
    project.fold("route")
    project.withdraw(pick.id, "reward")
    project.fold("route")
    after = project.registry.load(project.ledger.current("route").policy_hash, task="route")[1]
    for name in ("moments", "targets", "totals"):
        assert abs(after[name] - untouched[name]).max() < 1e-9, "a withdrawn signal leaves no trace"
    assert ids


@pytest.mark.parametrize("n", [24, 30, 40])  # with a few rows the parts may be empty
def test_evidence_from_very_few_rows_is_stored_and_refused(opened, n):
    project = opened()
    play(project, n=n)
    verdict = project.prove(project.learn("route"))
    assert verdict.state == "refused"
    with pytest.raises(GateRefused):
        project.promote(task="route")


def test_a_sticky_episode_draws_again_when_its_arm_is_gone(opened):
    project = opened('[tasks.route]\nactions = ["a", "b", "c"]\nsticky = true\n')
    first = project.decide("route", "start", episode="e")
    left = [name for name in "abc" if name != first.action]
    again = project.decide("route", "next", left, episode="e")
    assert again.action in left
    assert again.draw_id == ""
    assert project.decide("route", "last", left, episode="e").draw_id == again.id


def test_a_promotion_reads_the_ledger_once(opened, monkeypatch):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    play(project, n=80)
    policy = project.learn("route")
    asked, query = [], project.database.query
    monkeypatch.setattr(project.database, "query", lambda sql, *rest: asked.append(sql) or query(sql, *rest))
    project.promote(policy, task="route")
    assert len([sql for sql in asked if "FROM ledger" in sql]) == 1
    assert project.decide("route", "x").policy == policy
