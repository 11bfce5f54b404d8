"""Bad input gives an error with a code and a hint, and stores nothing."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import headway
from headway.nouns.errors import Conflict, HeadwayError, InvalidInput, UnknownName
from tests.project.conftest import ARMS, play

TOML = '[tasks.route]\nactions = ["small", "large"]\nreward = { rating = "stars" }\n'
GONE = "dec_" + "0" * 12 + "7" + "a" * 19


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda p: p.decide("ruote", "x"), "unknown_task"),
        (lambda p: p.decide("Bad Name!", "x"), "bad_task_name"),
        (lambda p: p.decide("route", "x", ["small", "huge"]), "unknown_action"),
        (lambda p: p.decide("route", "x", []), "no_candidates"),
        (lambda p: p.decide("route", "x", ["small", "small"]), "duplicate_candidate"),
        (lambda p: p.decide("route", "x", [7]), "bad_candidate"),
        (lambda p: p.decide("route", "x\0y"), "bad_text"),
        (lambda p: p.decide("route", "x", state={"c": math.nan}), "not_finite"),
        (lambda p: p.decide("route", "x", state={"c": [1.0, math.inf]}), "not_finite"),
        (lambda p: p.decide("route", "x", state={"c": object()}), "bad_state"),
        (lambda p: p.decide("route", "x", id="../../etc/passwd"), "bad_id"),
        (lambda p: p.decide("route", "x", episode=""), "bad_name"),
        (lambda p: p.decide("route", "x", episode="e", step=-1), "bad_step"),
        (lambda p: p.decide("route", "x", source="dreamt"), "bad_source"),
        (lambda p: p.record("route", "x", action="huge", propensity=0.5), "unknown_action"),
        (lambda p: p.record("route", "x", action="small", propensity=0.0), "bad_propensity"),
        (lambda p: p.record("route", "x", action="small", propensity=1.5), "bad_propensity"),
        (lambda p: p.record("route", "x", action="small", propensity=math.nan), "bad_propensity"),
        (lambda p: p.record("route", "x", action="small", probabilities=[0.5, 0.4]), "bad_propensity"),
        (lambda p: p.record("route", "x", action="small"), "missing_propensity"),
        (lambda p: p.signal(GONE, rating=5), "unknown_decision"),
        (lambda p: p.signal("nonsense", rating=5), "bad_id"),
        (lambda p: p.learn("route"), "nothing_to_learn"),
        (lambda p: p.learn("route", family="bandid"), "family_missing"),
        (lambda p: p.prove("bandit@beef"), "unknown_policy"),
        (lambda p: p.prove("../bandit"), "bad_reference"),
        (lambda p: p.prove(task="route"), "no_candidate_policy"),
        (lambda p: p.rollback("route", to="bandit@beef"), "unknown_policy"),
        (lambda p: p.rollback("route"), "already_current"),
        (lambda p: p.explain(GONE), "unknown_decision"),
    ],
)
def test_bad_input_is_reported_and_nothing_is_stored(opened, call, code):
    project = opened(TOML)
    with pytest.raises(HeadwayError) as error:
        call(project)
    assert error.value.code == code
    assert error.value.message
    assert project.query.counts("route").decisions == 0
    assert project.ledger.entries("route") == []


@pytest.mark.parametrize("value", [math.nan, math.inf, 0, 6, "five", None, 10**400])
def test_an_invalid_signal_value_is_refused(opened, value):
    project = opened(TOML)
    pick = project.decide("route", "x")
    with pytest.raises(InvalidInput):
        project.signal(pick.id, rating=value)
    assert project.query.signals(pick.id) == []


def test_an_unknown_task_suggests_the_right_one(opened):
    with pytest.raises(UnknownName) as error:
        opened(TOML).decide("ruote", "x")
    assert "'route'" in error.value.hint


def test_a_damaged_settings_file_is_named_with_its_line(opened):
    with pytest.raises(InvalidInput) as error:
        opened("[tasks.route\nactions = 3\n")
    assert "headway.toml" in error.value.message
    assert "line 1" in str(error.value)


def test_an_empty_signal_is_refused(project):
    with pytest.raises(InvalidInput) as error:
        project.signal(project.decide("route", "x", ARMS).id)
    assert error.value.code == "no_signal"


def test_the_same_id_returns_the_stored_decision(project):
    first = project.decide("route", "x", ARMS, id="0197c1f2-a3b4-7000-a1b2-c3d4e5f60718")
    again = project.decide("route", "x", ARMS, id="0197c1f2-a3b4-7000-a1b2-c3d4e5f60718")
    assert again == first
    with pytest.raises(Conflict):
        project.decide("route", "y", ARMS, id="0197c1f2-a3b4-7000-a1b2-c3d4e5f60718")


def test_a_recorded_decision_counts_like_any_other(project):
    made = project.record("route", "x", ARMS, action="large", propensity=0.3, at=1_700_000_000.0)
    assert made.probabilities == (0.7, 0.3)
    assert (made.source, made.policy) == ("imported", "elsewhere@0")
    project.signal(made.id, reward=1.0)
    assert project.outcome(made.id).reward == 1.0
    assert project.replay(made.id).exact is None


def test_a_decision_block_records_latency_and_failure(project):
    with project.decision("route", "x", ARMS) as pick:
        pass
    assert project.query.signals(pick.id)[0].name == "latency_s"
    with pytest.raises(ZeroDivisionError), project.decision("route", "y", ARMS) as pick:
        1 / 0  # noqa: B018
    project.settle("route")
    assert project.outcome(pick.id).status == "failed"
    assert project.outcome(pick.id).reward == -1.0
    assert {signal.label for signal in project.query.signals(pick.id)} == {"ZeroDivisionError"}


def test_a_sticky_episode_keeps_its_first_action(opened):
    project = opened('[tasks.route]\nactions = ["a", "b", "c"]\nsticky = true\n')
    first = project.decide("route", "start", episode="e")
    later = [project.decide("route", f"turn {turn}", episode="e") for turn in range(8)]
    assert {entry.action for entry in later} == {first.action}
    assert {entry.draw_id for entry in later} == {first.id}
    assert {entry.propensity for entry in later} == {first.propensity}
    assert [entry.situation.step for entry in later] == list(range(1, 9))
    assert project.replay(later[3].id).exact
    project.signal(later[2].id, reward=1.0)
    project.signal(later[5].id, reward=0.0)
    project.settle("route")
    assert [(row.decision.id, row.reward) for row in project.query.settled("route")] == [(first.id, 0.5)]


def test_threads_open_one_sticky_episode_once(opened):
    project = opened('[tasks.route]\nactions = ["a", "b", "c", "d"]\nsticky = true\n')
    made = []

    def work():
        made.extend(project.decide("route", "x", episode="e") for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({decision.action for decision in made}) == 1
    assert sum(not decision.draw_id for decision in made) == 1
    assert sorted(decision.situation.step for decision in made) == list(range(60))


def test_decide_and_signal_work_inside_an_event_loop(project):
    async def one(number):
        pick = project.decide("route", f"question {number}", ARMS)
        await asyncio.sleep(0)
        await asyncio.to_thread(project.signal, pick.id, reward=0.5)
        return pick.id

    async def many():
        return await asyncio.gather(*[one(number) for number in range(100)])

    ids = asyncio.run(many())
    assert len(set(ids)) == 100
    project.settle("route")
    assert project.query.counts("route").by_status["rewarded"] == 100


def test_rescoring_changes_rewards_and_no_signal(opened):
    project = opened('[tasks.route]\nactions = ["small", "large"]\nreward = { solved = 1.0 }\n')
    pick = project.decide("route", "x")
    project.signal(pick.id, solved=1.0, cost_usd=0.01)
    assert project.outcome(pick.id).reward == 1.0
    before = project.query.signals(pick.id)
    later = opened('[tasks.route]\nactions = ["small", "large"]\nreward = { solved = 1.0, cost_usd = -20.0 }\n')
    assert later.rescore("route") == 1
    assert later.outcome(pick.id).reward == pytest.approx(0.8)
    assert later.query.signals(pick.id) == before


def test_a_users_reward_function_sees_the_decision(opened, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def score(decision, signals):\n    return signals['a'] if decision.action == 'small' else 0.25\n"
    )
    project = opened('[tasks.route]\nactions = ["small", "large"]\nreward = "mine:score"\n')
    for number in range(12):
        pick = project.decide("route", f"x{number}")
        project.signal(pick.id, a=0.75)
        assert project.outcome(pick.id).reward == (0.75 if pick.action == "small" else 0.25)


def test_online_learning_folds_settled_rows_into_snapshots(opened):
    toml = '[tasks.route]\nactions = ["small", "large"]\ngate = "off"\nonline = "live"\n'
    project = opened(toml)
    ids = play(project, n=120)
    project.promote(project.learn("route"))
    project._folded_at = float("inf")  # only explicit folds from here
    first = project.decide("route", "x")
    project.signal(first.id, reward=1.0)
    snapshot = project.fold("route")
    served = project.decide("route", "x")
    assert served.policy == snapshot != first.policy
    assert served.state_seq > first.state_seq
    assert project.replay(served.id).exact
    assert project.ledger.current("route").kind == "snapshot"
    assert project.fold("route") is None, "nothing new settled"
    # A changed signal removes its old contribution: the state equals one without it.
    project.signal(ids[0], reward=-1.0)
    project.signal(ids[0], reward=0.5)
    assert project.fold("route") is not None
    project._folded_at = 0.0
    project.signal(served.id, reward=1.0)
    assert project.decide("route", "x").policy not in (served.policy, first.policy), "a signal folds by itself"


def test_requests_with_one_id_in_the_same_microsecond_are_distinguished(tmp_path: Path) -> None:
    identifier = "dec_" + "1f" * 16
    with headway.open(tmp_path, environ={}) as project:
        project.clock = lambda: 1_700_000_000.0
        asks = [project.consider("route", "Hello", ["small", "large"], id=identifier) for _ in range(2)]
        first, second = (project.submit([considered]).result()[0] for considered in asks)
    assert first == second
    assert asks[0].is_new(first)
    assert not asks[1].is_new(second)


def test_a_verb_has_a_signature_and_documentation_before_its_first_use() -> None:
    script = """
import inspect, sys
import headway
from headway.project import Project
assert "headway.project.prove.examine" not in sys.modules
assert "against: 'str' = 'current'" in str(inspect.signature(Project.prove)), inspect.signature(Project.prove)
for name in dir(Project):
    assert name.startswith("_") or inspect.getdoc(getattr(Project, name)) or not callable(getattr(Project, name)), name
class Mine(Project): pass
assert Mine.prove is Project.prove
"""
    subprocess.run([sys.executable, "-c", script], check=True)
