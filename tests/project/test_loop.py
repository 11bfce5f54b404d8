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


def test_the_loop_closes_and_opens_again(learned):
    policy = learned.learn("route")
    proof = learned.prove(policy)
    assert proof.passed, proof.reasons
    entry = learned.promote(policy, because=proof)
    assert (entry.kind, entry.policy, entry.evidence_id) == ("promote", policy, proof.evidence.id)
    pick = learned.decide("route", "Prove that the square root of two is irrational.", ARMS)
    assert (pick.policy, pick.policy_hash) == (policy, entry.policy_hash), "served is what was promoted"
    back = learned.rollback("route")
    assert (back.kind, back.policy) == ("rollback", "uniform@0")
    assert learned.decide("route", "x", ARMS).policy == "uniform@0"
    assert [each.kind for each in learned.ledger.entries("route")][-2:] == ["promote", "rollback"]


def test_learning_twice_from_the_same_rows_gives_the_same_policy(learned):
    first = learned.learn("route", seed=11)
    assert learned.learn("route", seed=11) == first


def test_evidence_is_the_same_when_it_is_computed_again(learned):
    policy = learned.learn("route")
    assert learned.prove(policy).evidence == learned.prove(policy).evidence


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
    learned.promote(policy, because=proof)
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
    other.servings.forget("route")  # it would look by itself within 0.2 s
    assert other.decide("route", "x").policy == policy


def test_every_decision_replays_exactly(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\nexplore = { kind = "thompson" }\n')
    ids = play(project, n=60)
    project.promote(project.learn("route"))
    ids += play(project, n=20, seed=9)
    assert all(project.replay(each)["exact"] for each in ids[::7])


def test_replay_says_what_is_gone(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    play(project, n=60)
    project.promote(project.learn("route"))
    pick = project.decide("route", "x")
    folder = project.home / "policies" / pick.policy_hash
    folder.rename(folder.with_name("moved"))
    found = project.replay(pick.id)
    assert found["exact"] is None
    assert pick.policy_hash[:12] in found["gone"]


def test_a_damaged_bundle_is_refused_and_the_current_policy_goes_on(opened):
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


def test_rules_decide_until_something_better_is_proven(opened):
    project = opened(
        '[tasks.route]\nactions = ["small", "large"]\nexplore = { kind = "none" }\nfloor = 0.0\n'
        'rules = [{ when = "task_complexity_score > 0.8", use = "large" }]\n'
    )
    easy = project.decide("route", "x", state={"task_complexity_score": 0.1})
    hard = project.decide("route", "x", state={"task_complexity_score": 0.9})
    assert (easy.policy, easy.action, hard.action) == ("rules@0", "small", "large")
    assert "rule 1" in project.explain(hard.id)["why"]


def test_headway_policy_off_returns_to_the_baseline_at_once(opened):
    toml = '[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n'
    project = opened(toml)
    play(project, n=60)
    policy = project.learn("route")
    project.promote(policy)
    assert opened(environ={"HEADWAY_POLICY": "off"}).decide("route", "x").policy == "uniform@0"
    project.rollback("route", to="uniform@0")
    assert opened(environ={"HEADWAY_POLICY": policy}).decide("route", "x").policy == policy


def test_the_ledger_tells_the_whole_story(learned):
    learned.learn("route", seed=31)
    entries = learned.ledger.entries("route")
    assert [each.n for each in entries] == list(range(1, len(entries) + 1))
    assert all(each.who and each.why and each.at for each in entries)
    assert json.dumps([each.detail for each in entries])


def test_status_counts_what_is_there(project):
    play(project, n=30)
    project.decide("route", "not rated", ARMS)
    (task,) = project.status()["tasks"]
    assert (task["decisions"], task["outcomes"]["rewarded"], task["outcomes"]["pending"]) == (31, 30, 1)
    assert task["until_retrain"] == 20
    assert rows(project) == 31
