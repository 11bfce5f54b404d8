"""An experiment gives a candidate a share of the traffic until its test ends; its start is a row of the ledger."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from headway.cli.experiment import experiment_line
from headway.nouns.errors import Conflict, HeadwayError, InvalidInput
from headway.nouns.wire import document
from headway.project import Project

ARMS = ["small", "large"]
TOML = """
[store]
durability = "process"
[tasks.route]
actions = ["small", "large"]
fallback = "small"
rules = [{ when = "task_complexity_score > 2", use = "large" }]
range = [0, 1]
"""
UNIFORM = '[store]\ndurability = "process"\n[tasks.route]\nactions = ["small", "large"]\nrange = [0, 1]\n'


class Traffic:
    """A project on a clock of its own, one decision every minute; "large" is better."""

    def __init__(self, folder: Path, toml: str = TOML) -> None:
        (folder / "headway.toml").write_text(toml)
        self.now = 1_700_000_000.0
        self.folder, self.rng = folder, random.Random(5)
        self.project = Project(folder, environ={}, seed=3, clock=lambda: self.now)

    def play(self, n: int, large: float = 0.8, small: float = 0.5, *, silent: float = 0.0) -> list[str]:
        """`silent`: the share of decisions without an outcome."""
        made = []
        for number in range(n):
            self.now += 60.0
            pick = self.project.decide("route", f"ask {number}")
            made.append(pick.id)
            if silent and self.rng.random() < silent:
                continue
            self.project.signal(pick.id, reward=float(self.rng.random() < (large if pick.action == "large" else small)))
        return made

    def again(self) -> Project:
        self.project.close()
        self.project = Project(self.folder, environ={}, seed=3, clock=lambda: self.now)
        return self.project


@pytest.fixture
def traffic(tmp_path: Path) -> Iterator[Callable[..., Traffic]]:
    opened: list[Traffic] = []

    def open_one(toml: str = TOML) -> Traffic:
        opened.append(Traffic(tmp_path, toml))
        return opened[-1]

    yield open_one
    for one in opened:
        one.project.close()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A project with 400 decisions of a rules policy and a candidate that prefers the other action; and its time."""
    one = Traffic(tmp_path_factory.mktemp("played"))
    one.play(400)
    one.project.learn("route")
    one.project.close()
    return one.folder, one.now


@pytest.fixture
def learned(traffic: Callable[..., Traffic], played: tuple[Path, float], tmp_path: Path) -> Traffic:
    folder, now = played
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    one = traffic()
    one.now = now
    return one


def refused(call: Callable[[], object], code: str, *words: str) -> None:
    with pytest.raises(HeadwayError) as error:
        call()
    assert error.value.code == code
    assert all(word in f"{error.value.message} {error.value.hint}" for word in words), error.value


def test_an_experiment_shares_the_traffic_with_exact_propensities(learned: Traffic) -> None:
    project = learned.project
    entry = project.start_experiment("route", share=0.3, who="ann")
    candidate = entry.policy
    assert (entry.kind, entry.policy, entry.who, entry.share) == ("experiment", candidate, "ann", 0.3)
    picks = [project.decide("route", f"question {number}") for number in range(40)]
    assert {pick.assigned for pick in picks} == {"rules@0", candidate}
    for pick in picks:
        body = project.servings.body(project.settings.task("route"))
        current, target = (
            project.servings.pipeline("route", body, *policy).distributions(
                [pick.situation], [pick.candidates], [pick.seed]
            )[0]
            for policy in (
                project.servings.resolve(project.settings.task("route"), ref) for ref in ("rules@0", candidate)
            )
        )
        assert pick.probabilities == tuple((0.7 * current + 0.3 * target).tolist())
        assert "experiment 0.3" in pick.exploration
        assert pick.policy == "rules@0"


def test_a_decision_of_an_experiment_is_replayed_exactly_during_and_after_it(learned: Traffic) -> None:
    project = learned.project
    project.start_experiment("route", share=0.4)
    during = learned.play(30)
    assert all(project.replay(identifier).exact for identifier in during)
    project.stop_experiment("route")
    assert project.decide("route", "x").assigned == ""
    assert all(project.replay(identifier).exact for identifier in during)


def test_without_a_share_the_cheapest_one_is_registered_with_its_decisions(learned: Traffic) -> None:
    project = learned.project
    cost = project.verdict_cost("route")
    entry = project.start_experiment("route")
    assert entry.share == cost.experiment_share == cost.share
    assert entry.detail == {
        "share": cost.share,
        "from_decision": project.query.last_decision("route"),
        "needed": cost.decisions,
        "uplift": cost.uplift,
        "most": 25_000,
    }
    assert cost.log_alone is None or cost.log_alone > 2 * (cost.decisions or 0)


def test_the_state_has_progress_and_a_forecast_at_the_present_rate(learned: Traffic) -> None:
    project = learned.project
    assert project.experiment("route") is None
    entry = project.start_experiment("route")
    learned.play(50)
    state = project.experiment("route")
    assert state is not None
    assert state.running
    assert (state.decisions, state.against, state.share) == (50, "rules@0", entry.share)
    planned = entry.detail["needed"]
    assert state.forecast is not None
    assert (state.forecast.low, state.forecast.high) == (planned - 50, planned - 50)
    assert state.progress == 50 / planned
    assert state.forecast.per_day == pytest.approx(1440, rel=0.01)
    assert state.forecast.text.startswith(f"about {planned - 50:,} more decisions, about ")
    assert state.forecast.text in experiment_line(state)
    assert state.difference is None, "no verdict shows an estimate yet"
    assert document(state)["progress"] == state.progress


def test_an_experiment_that_runs_longer_than_planned_says_what_the_last_verdict_still_needs(learned: Traffic) -> None:
    project = learned.project
    planned = project.start_experiment("route", share=0.5).detail["needed"]
    learned.play(planned + 10, large=0.55)
    state = project.experiment("route")
    assert state is not None
    assert (state.forecast, state.progress) == (None, None), "no verdict says how many more"
    verdict = project.prove(task="route")
    state = project.experiment("route")
    assert state is not None
    assert (verdict.state, state.decisions) == ("wait", planned + 10)
    assert verdict.forecast is not None
    assert state.forecast == verdict.forecast, "one record, whoever shows it"
    assert verdict.forecast.text in project.next_step("route").why
    assert verdict.forecast.text in experiment_line(state)


def test_an_experiment_whose_outcomes_are_late_says_how_many_wait_and_until_when(learned: Traffic) -> None:
    project = learned.project
    planned = project.start_experiment("route", share=0.5).detail["needed"]
    learned.play(planned + 10, silent=0.05)
    verdict = project.prove(task="route")
    state = project.experiment("route")
    assert state is not None
    assert verdict.evidence is not None
    waiting = verdict.evidence.waiting
    assert waiting is not None
    assert verdict.more == 0
    assert state.waiting == waiting.decisions
    assert state.forecast is not None
    assert state.forecast.until == waiting.until > learned.now
    assert f"{waiting.decisions} of them waiting for outcomes; waiting for {waiting.open} " in experiment_line(state)


def test_the_state_shows_an_estimate_only_where_the_verdict_does(learned: Traffic) -> None:
    project = learned.project
    project.start_experiment("route", share=0.5)
    learned.play(600)
    verdict = project.prove(task="route")
    state = project.experiment("route")
    assert state is not None
    assert verdict.evidence is not None
    assert (state.verdict, verdict.state) == ("better", "pass")
    assert state.difference == verdict.evidence.difference.value


@pytest.mark.parametrize(
    ("why", "ended"),
    [("better", "better"), ("worse", "worse"), ("no difference", "no difference"), ("too expensive", "stopped")],
)
def test_the_end_is_a_row_that_says_why(learned: Traffic, why: str, ended: str) -> None:
    project = learned.project
    start = project.start_experiment("route", share=0.2)
    learned.play(5)
    entry = project.stop_experiment("route", why=why, who="ann")
    assert (entry.kind, entry.policy, entry.who, entry.why) == ("experiment", start.policy, "ann", why)
    assert (entry.share, entry.detail["ended"]) == (0.0, ended)
    learned.play(5)
    state = project.experiment("route")
    assert state is not None
    assert (state.running, state.ended, state.share, state.decisions) == (False, ended, 0.2, 5)
    assert state.since == start.at
    refused(lambda: project.stop_experiment("route"), "no_experiment", "headway experiment start route")


def test_a_promotion_ends_it(learned: Traffic) -> None:
    project = learned.project
    project.start_experiment("route", share=0.5)
    learned.play(600)
    project.promote(because=project.prove(task="route"), task="route", at_once=True)
    assert project.ledger.experiment("route") is None
    state = project.experiment("route")
    assert state is not None
    assert state.ended == "better"
    assert project.decide("route", "x").assigned == ""


def test_a_rollback_and_a_retirement_end_it(traffic: Callable[..., Traffic]) -> None:
    one = traffic(TOML + 'gate = "off"\n')
    project = one.project
    one.play(60)
    project.promote(project.learn("route"), task="route")
    one.play(60)
    second = project.learn("route")
    project.start_experiment("route", share=0.2)
    project.rollback("route")
    state = project.experiment("route")
    assert state is not None
    assert (state.policy, state.ended) == (second, "replaced")
    project.start_experiment("route", policy=second, share=0.2)
    project.retire(second, task="route", why="worse")
    state = project.experiment("route")
    assert state is not None
    assert state.ended == "worse"


def test_another_policy_replaces_the_experiment_in_one_step(learned: Traffic) -> None:
    project = learned.project
    first = project.start_experiment("route", share=0.2)
    second = project.start_experiment("route", policy="uniform@0", share=0.3)
    rows = project.ledger.entries("route", "experiment")
    assert [(row.policy, row.share) for row in rows] == [(first.policy, 0.2), (first.policy, 0.0), ("uniform@0", 0.3)]
    assert rows[1].detail["ended"] == "replaced"
    assert project.ledger.experiment("route") == second


def test_a_new_candidate_replaces_the_one_under_test(learned: Traffic) -> None:
    project = learned.project
    project.start_experiment("route", share=0.2)
    learned.play(100)
    project.learn("route")
    state = project.experiment("route")
    assert state is not None
    assert state.ended == "replaced"


def test_starting_it_again_changes_nothing(learned: Traffic) -> None:
    project = learned.project
    entry = project.start_experiment("route", share=0.2)
    learned.play(10)
    assert project.start_experiment("route") == entry
    assert project.start_experiment("route", share=0.2) == entry
    assert learned.again().start_experiment("route") == entry
    refused(lambda: learned.project.start_experiment("route", share=0.3), "experiment_running", "20%", "stop route")


def test_a_canary_and_an_experiment_exclude_each_other(learned: Traffic) -> None:
    project = learned.project
    policy = project.canary(task="route", share=0.2).policy
    refused(lambda: project.start_experiment("route"), "canary_running", "--canary 0", policy)
    project.canary(task="route", share=0.0)
    project.start_experiment("route", share=0.2)
    refused(lambda: project.canary(task="route", share=0.2), "experiment_running", "headway experiment stop route")


@pytest.mark.parametrize("share", [0.0, -0.1, 0.6, 1.5])
def test_a_share_out_of_bounds_is_refused(learned: Traffic, share: float) -> None:
    refused(lambda: learned.project.start_experiment("route", share=share), "bad_share", repr(share), "most_share")


@pytest.mark.kits("reply")
def test_bad_input_is_refused_with_the_next_step(traffic: Callable[..., Traffic]) -> None:
    toml = TOML + "most_share = 0.2\n" + '[tasks.order]\nkind = "ranking"\n'
    one = traffic(toml)
    project = one.project
    refused(lambda: project.start_experiment("route"), "no_candidate_policy", "headway learn route")
    one.play(60)
    project.learn("route")
    refused(lambda: project.start_experiment("route", share=0.3), "bad_share", "at most 0.2")
    refused(lambda: project.start_experiment("rout"), "unknown_task", "route")
    refused(lambda: project.start_experiment("route", policy="bandit@ffff"), "unknown_policy")
    refused(lambda: project.start_experiment("route", policy="rules@0"), "same_policy", "headway learn route")
    refused(lambda: project.start_experiment("order", policy="uniform@0"), "bad_kind", "choice")
    refused(lambda: project.stop_experiment("route"), "no_experiment")
    assert project.ledger.entries("route", "experiment") == []


def test_without_anything_to_plan_from_the_largest_share_is_used(traffic: Callable[..., Traffic]) -> None:
    entry = traffic().project.start_experiment("route", policy="uniform@0")
    assert (entry.share, entry.detail["needed"]) == (0.5, None)


KILLED = """
import os, signal, sys
from pathlib import Path
from headway.project import Project
project = Project(Path(sys.argv[1]), environ={}, seed=3)
entry = project.start_experiment("route", share=0.3, who="watch")
pick = project.decide("route", "the last words")
print(entry.seq, pick.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_9_leaves_it_running_with_the_same_registration(learned: Traffic) -> None:
    learned.project.close()
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(learned.folder)], capture_output=True, text=True, check=False
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    seq, identifier = child.stdout.split()
    project = learned.again()
    entry = project.ledger.experiment("route")
    assert entry is not None
    assert (entry.seq, entry.share, entry.who) == (int(seq), 0.3, "watch")
    assert project.start_experiment("route") == entry, "the restarted loop goes on with it"
    assert project.replay(identifier).exact
    assert "experiment 0.3" in project.decide("route", "and on").exploration
    assert len(project.ledger.entries("route", "experiment")) == 1


def test_evidence_of_an_experiment_can_be_promoted_on(learned: Traffic) -> None:
    """What serves with a share is not what the proof is bound to: ending it makes no evidence stale."""
    project = learned.project
    project.start_experiment("route", share=0.5)
    learned.play(600)
    verdict = project.prove(task="route")
    assert verdict.passed
    project.stop_experiment("route", why="better")
    assert project.standing("route").admitted
    assert project.promote(because=verdict, task="route", at_once=True).kind == "promote"


def test_the_test_of_an_experiment_counts_the_decisions_since_its_start(learned: Traffic) -> None:
    project = learned.project
    project.start_experiment("route", share=0.5)
    learned.play(200)
    during = project.prove(task="route").evidence
    assert during is not None
    assert during.n == 200


def test_uniform_traffic_needs_no_experiment(traffic: Callable[..., Traffic]) -> None:
    one = traffic(UNIFORM)
    one.play(400)
    one.project.learn("route")
    cost = one.project.verdict_cost("route")
    assert cost.share == 0.0
    assert cost.in_time
    assert cost.decisions == cost.log_alone
    assert cost.experiment_share > 0.0


def test_few_decisions_a_day_shorten_the_time_in_decisions(traffic: Callable[..., Traffic]) -> None:
    one = traffic(TOML + "decide_within_days = 0.5\n")
    one.play(400)
    one.project.learn("route")
    assert one.project.verdict_cost("route").within == pytest.approx(720, rel=0.01)


def test_a_verdict_on_the_current_policy_costs_nothing_and_is_refused(learned: Traffic) -> None:
    with pytest.raises(InvalidInput) as error:
        learned.project.verdict_cost("route", policy="rules@0")
    assert error.value.code == "same_policy"
    with pytest.raises(Conflict):
        learned.project.stop_experiment("route")
    assert np.isfinite(learned.project.verdict_cost("route").uplift)
