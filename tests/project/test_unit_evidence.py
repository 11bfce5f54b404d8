"""Requests and episodes as evidence: what is counted, drawn, judged and said, each by its unit."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner

from headway.cli.main import headway
from headway.loop.cycle import cycle
from headway.loop.due import Marks, due
from headway.nouns.errors import InvalidInput
from headway.observe import DeletionFilter, ServedRows, by_day, recent
from headway.project import Project
from headway.project.inspect.worth import task_worth
from tests.project.test_claims import Clock

REQUESTS = """[tasks.ask]
unit = "request"
actions = ["large", "small"]
range = [0.0, 1.0]
reward = { solved = 1.0 }
fallback = "small"
floor = 0.2
rules = [{ when = "text_length >= 0", use = "small" }]
"""
EPISODES = """[tasks.ask]
unit = "episode"
actions = ["a", "b"]
range = [0.0, 1.0]
floor = 0.1
rules = [{ when = "text_length >= 0", use = "a" }]
"""
PRICES = {"large": 0.01, "small": 0.001}
pytestmark = pytest.mark.engines(slow="postgresql", why="evidence by unit; both engines: tests/observe/test_units.py")


def opened(folder, toml: str) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "headway.toml").write_text(toml, "utf-8")
    return Project(folder, environ={}, clock=Clock(), seed=1)


def worth_of(project: Project):
    project.settle("ask")
    project.worths.clear()
    return task_worth(project, "ask")


def request(project: Project, rng: random.Random, *, down: str = "", out: str = "", good: float = 0.9) -> list[str]:
    """A request as the proxy makes it: `down` refuses, and `out` was taken out of the candidates by the breaker."""
    offered = [name for name in ("large", "small") if name != out]
    attempts: list[str] = []
    text = f"question {rng.random()}"
    while True:
        unit = {"unit": attempts[0]} if attempts else {}
        made = project.decide("ask", text, offered, **unit)
        attempts.append(made.id)
        if made.action != down:
            solved = float(rng.random() < good)
            project.signal(made.id, solved=solved, cost_usd=PRICES[made.action], http_status=200.0)
            return attempts
        project.signal(made.id, failed=1.0, http_status=503.0)
        offered.remove(down)


def episode(project: Project, name: str, rng: random.Random, worth: dict[str, float], *, steps: int = 3) -> list:
    made = [project.decide("ask", "", state={"x": rng.random()}, episode=name) for _ in range(steps)]
    chance = sum(worth[one.action] for one in made) / steps
    project.signal(project.episode("ask", name), reward=float(rng.random() < chance))
    return made


# -- requests


def test_every_count_is_of_requests_and_not_of_their_attempts(tmp_path):
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(1)
        attempts = [request(project, rng, down="small") for _ in range(60)]
        assert sum(map(len, attempts)) > 90
        (task,) = project.status().tasks
        assert (task.decisions, task.units, task.unit) == (60, 60, "request")
        assert sum(task.outcomes.values()) == sum(task.sources.values()) == 60
        assert sum(project.query.by_action("ask").values()) == 60
        assert project.query.count_units("ask", after=0) == 60
        assert project.due("ask") == project.settings.task("ask").retrain_after - 60 or project.due("ask") == 0
        project.learn("ask")
        header = project.registry.header(project.ledger.last("ask", "candidate").policy_hash)
        assert sum(header.trained_on["sources"].values()) <= 60


def test_an_experiment_counts_requests(tmp_path):
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(2)
        for _ in range(60):
            request(project, rng)
        project.start_experiment("ask", policy=project.learn("ask"), share=0.5)
        for _ in range(30):
            request(project, rng, down="small")
        assert project.experiment("ask").decisions == 30


def test_alarms_and_the_data_commands_count_requests(tmp_path):
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(8)
        for _ in range(40):
            request(project, rng, down="small")
        project.settle("ask")
        served = ServedRows(project.database, project.query, "ask")
        served.update()
        assert len(served.mature().seq) == 40
        assert [day.decisions for day in by_day(project.database, project.query.name_id("task", "ask"), since=0.0)] == [
            40
        ]
        shown = recent(project.database, project.query, "ask", window=100, points=10)
        assert (shown.decisions, shown.window) == (40, 40)
        assert sum(part.decisions for part in shown.actions) == 40
        costs = [part.signals["cost_usd"] for part in shown.actions]
        assert sum(mean.n for mean in costs) == 40
        assert sum(mean.total for mean in costs) == pytest.approx(40 * PRICES["large"])
    stats = CliRunner().invoke(headway, ["-C", str(tmp_path), "data", "stats", "--json"])
    (counts,) = json.loads(stats.stdout)["tasks"].values()
    assert (counts["decisions"], counts["units"], sum(counts["by_action"].values())) == (40, 40, 40)


def test_the_verdict_speaks_of_its_unit_and_is_bound_to_it(tmp_path):
    with opened(tmp_path, REQUESTS.replace("floor = 0.2", "floor = 0.6")) as project:
        rng = random.Random(9)
        for _ in range(100):
            request(project, rng, good=0.5)
        candidate = project.learn("ask")
        for _ in range(100):
            request(project, rng, good=0.5)
        verdict = project.prove(candidate)
        assert verdict.evidence.unit == "requests"
        assert verdict.evidence.declared["unit"] == "request"
        assert verdict.evidence.n <= 200
        evidence = verdict.evidence.id
    with opened(tmp_path, REQUESTS.replace('unit = "request"', 'unit = "decision"').replace("0.2", "0.6")) as project:
        assert project.verdict(evidence).evidence.unit == "requests"
        assert project.standing("ask").verdict is None


def test_an_attempt_is_replayed_by_itself(tmp_path):
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(3)
        attempts = next(made for made in iter(lambda: request(project, rng, down="small"), None) if len(made) == 2)
        assert [project.replay(one).exact for one in attempts] == [True, True]
        assert project.explain(attempts[1]).action == "large"


# -- worth


def test_what_a_fallback_rescued_has_the_quality_and_the_price_of_who_answered(tmp_path):
    """`small` is down and `large` answers everything: nothing is saved and nothing is lost."""
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(4)
        for _ in range(400):
            request(project, rng, down="small")
        worth = worth_of(project)
        assert worth.against == "large"
        assert worth.ratio.low <= 1.0 <= worth.ratio.high
        assert worth.saved.low <= 0.0 <= worth.saved.high


def test_requests_without_a_choice_say_nothing_about_money(tmp_path):
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(5)
        for _ in range(300):
            request(project, rng)
        alone = worth_of(project)
        for _ in range(300):
            request(project, rng, down="small", out="small")
        worth = worth_of(project)
        assert worth.saved == alone.saved
        assert worth.ratio == alone.ratio
        assert "Not counted: 300 requests without a choice" in worth.text


def test_the_total_is_of_the_requests_that_had_a_choice(tmp_path):
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(6)
        for _ in range(300):
            request(project, rng)
        project.rollback("ask", to="fixed@0", why="for the test")
        for _ in range(450):
            request(project, rng)
        for _ in range(200):
            request(project, rng, down="small", out="small")
        worth = worth_of(project)
        assert worth.requests == 650
        assert worth.saved_since == pytest.approx(worth.saved.value / 1000.0 * 450)
        assert "650 requests, 450 of them with a choice" in worth.text


def test_a_request_with_an_attempt_of_unknown_cost_has_an_unknown_cost(tmp_path):
    with opened(tmp_path, REQUESTS) as project:
        rng = random.Random(7)
        for number in range(300):
            attempts = request(project, rng, down="small")
            if number % 3 == 0 and len(attempts) == 2:  # the stream broke off: nobody knows what it cost
                project.signal(attempts[0], http_status=200.0)
        worth = worth_of(project)
        assert worth.cost_known < 0.9
        assert worth.saved is None or "is missing" in worth.text


# -- episodes


def test_an_experiment_draws_a_policy_per_episode_and_keeps_to_it(tmp_path):
    with opened(tmp_path, EPISODES) as project:
        rng = random.Random(1)
        for number in range(60):
            episode(project, f"before-{number}", rng, {"a": 0.2, "b": 0.8})
        project.decide("ask", "", state={"x": 0.5}, episode="open")
        candidate = project.learn("ask")
        project.start_experiment("ask", policy=candidate, share=0.4)
        drawn = []
        for number in range(100):
            steps = episode(project, f"after-{number}", rng, {"a": 0.2, "b": 0.8}, steps=1 + number % 5)
            assert len({one.assigned for one in steps}) == 1
            assert steps[0].exploration.endswith(f", {candidate} on 0.4 of episodes")
            drawn.append(steps[0].assigned)
            assert all(project.replay(one.id).exact for one in steps[:1])
        assert 25 <= drawn.count(candidate) <= 55
        assert project.decide("ask", "", state={"x": 0.5}, episode="open").assigned == "rules@0"
        assert project.experiment("ask").decisions == 100


def test_an_episode_goes_to_the_current_policy_when_its_own_no_longer_acts(tmp_path):
    with opened(tmp_path, EPISODES) as project:
        rng = random.Random(1)
        for number in range(60):
            episode(project, f"before-{number}", rng, {"a": 0.2, "b": 0.8})
        candidate = project.learn("ask")
        project.canary(candidate, share=0.5, task="ask")
        firsts = {f"e{n}": project.decide("ask", "", state={"x": 0.5}, episode=f"e{n}") for n in range(20)}
        name = next(name for name, one in firsts.items() if one.assigned == candidate)
        assert project.decide("ask", "", state={"x": 0.5}, episode=name).assigned == candidate
        project.canary(candidate, share=0.0, task="ask")
        later = project.decide("ask", "", state={"x": 0.5}, episode=name)
        assert (later.policy, later.assigned) == ("rules@0", "")


def test_episodes_of_one_batch_keep_to_one_policy(tmp_path):
    with opened(tmp_path, EPISODES) as project:
        rng = random.Random(1)
        for number in range(60):
            episode(project, f"before-{number}", rng, {"a": 0.2, "b": 0.8})
        candidate = project.learn("ask")
        project.canary(candidate, share=0.5, task="ask")
        from headway.project import Ask
        from headway.project.decide.consider import consider, submit

        for number in range(10):
            asks = [Ask("ask", "", None, {"episode": f"b{number}", "state": {"x": 0.1}}) for _ in range(4)]
            made = submit(project, consider(project, asks)).result()
            assert len({one.assigned for one in made}) == 1
            assert [one.position for one in made] == [0, 1, 2, 3]


def test_the_steps_of_the_log_cannot_tell_and_the_cure_is_an_experiment(tmp_path):
    with opened(tmp_path, EPISODES) as project:
        rng = random.Random(2)
        for number in range(300):
            episode(project, f"e{number}", rng, {"a": 0.2, "b": 0.8})
        candidate = project.learn("ask")
        verdict = project.prove(candidate)
        assert verdict.word == "cannot tell"
        assert "only single steps" in verdict.reasons[0]
        assert f"headway experiment start ask --policy {candidate}" in verdict.hint
        ready = project.readiness(project.standing("ask"))
        assert ready.now
        assert ready.experiment


def test_an_experiment_by_episode_is_judged_by_episode(tmp_path):
    with opened(tmp_path, EPISODES) as project:
        rng = random.Random(3)
        for number in range(80):
            episode(project, f"e{number}", rng, {"a": 0.2, "b": 0.8})
        candidate = project.learn("ask")
        project.start_experiment("ask", policy=candidate, share=0.5)
        for number in range(80, 380):
            episode(project, f"e{number}", rng, {"a": 0.2, "b": 0.8}, steps=1 + number % 4)
        verdict = project.prove(candidate)
        assert verdict.passed
        assert verdict.evidence.n == 300
        assert verdict.evidence.difference.value == pytest.approx(0.48, abs=0.15)
        plan = project.plan("ask", uplift=0.2)
        assert plan.unit == "episodes"
        assert plan.plan.horizon < 1000
        running, cost = project.experiment("ask"), project.verdict_cost("ask")
        assert (running.unit, running.decisions) == (cost.unit, 300) == ("episode", 300)
        assert cost.log_alone is None
    shown = CliRunner().invoke(headway, ["-C", str(tmp_path), "experiment", "show", "ask"])
    assert "300 episodes so far; its test is over." in shown.stdout


def test_a_canary_that_is_worse_by_episode_is_ended(tmp_path):
    with opened(tmp_path, EPISODES.replace("floor = 0.1", "floor = 0.6")) as project:
        rng = random.Random(4)
        for number in range(80):
            episode(project, f"e{number}", rng, {"a": 0.2, "b": 0.8})
        candidate = project.learn("ask")
        project.canary(candidate, share=0.5, task="ask")
        for number in range(400):
            episode(project, f"c{number}", rng, {"a": 0.9, "b": 0.1})
        entry = project.guard("ask")
        assert entry is not None
        assert entry.kind == "retire"


def test_deleted_episodes_count_at_their_worst(tmp_path):
    with opened(tmp_path, EPISODES) as project:
        rng = random.Random(5)
        for number in range(80):
            episode(project, f"e{number}", rng, {"a": 0.2, "b": 0.8})
        candidate = project.learn("ask")
        project.start_experiment("ask", policy=candidate, share=0.5)
        for number in range(80, 380):
            episode(project, f"e{number}", rng, {"a": 0.5, "b": 0.6})
        before = project.prove(candidate).evidence
        for number in range(80, 110):
            project.erase(DeletionFilter(task="ask", episode=f"e{number}"), rewrite=False)
        after = project.prove(candidate).evidence
        assert after.difference.low < before.difference.low
        assert after.statistic < before.statistic


def test_results_of_whole_episodes_ask_for_their_unit(tmp_path):
    with opened(tmp_path, EPISODES.replace('unit = "episode"\n', "")) as project:
        rng = random.Random(6)
        episode(project, "e1", rng, {"a": 0.2, "b": 0.8})
        (task,) = project.status().tasks
        assert any('unit = "episode"' in warning for warning in task.warnings)
    with opened(tmp_path / "sticky", EPISODES.replace('unit = "episode"', "sticky = true")) as project:
        episode(project, "e1", rng, {"a": 0.2, "b": 0.8})
        project.settle("ask")
        (task,) = project.status().tasks
        assert not task.warnings


def test_the_loop_tests_a_candidate_by_episode_and_promotes_it(tmp_path):
    more = 'promote = "auto"\nretrain_after = 100\nfinal_after_s = 0\n'
    with opened(tmp_path, EPISODES.replace("floor = 0.1", "floor = 0.3") + more) as project:
        rng, marks, done = random.Random(8), Marks(), []
        for number in range(1200):
            episode(project, f"e{number}", rng, {"a": 0.1, "b": 0.9}, steps=1 + number % 3)
            if number % 50 == 49:
                done.append(cycle(project, "ask", due(project.standing("ask"), marks), marks))
                if done[-1].promoted:
                    break
        assert any(one.experiment for one in done)
        assert done[-1].promoted
        assert project.standing("ask").current.ref == done[-1].promoted
        assert project.guard("ask") is None


def test_nothing_can_be_proven_before_an_episode_was_drawn(tmp_path):
    with opened(tmp_path, EPISODES) as project:
        rng = random.Random(7)
        for number in range(60):
            episode(project, f"e{number}", rng, {"a": 0.2, "b": 0.8})
        candidate = project.learn("ask")
        project.start_experiment("ask", policy=candidate, share=0.5)
        with pytest.raises(InvalidInput) as nothing:
            project.prove(candidate)
        assert nothing.value.code == "no_evidence"
