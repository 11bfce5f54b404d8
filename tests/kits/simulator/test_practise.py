"""Policies that practise on problems: learned, compared, proven by world evidence, promoted and served."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headway.kits.offline.packs import played_summary, verify
from headway.kits.simulator import ACTIONS
from headway.kits.simulator.generate import generate
from headway.kits.simulator.outcomes import outcomes
from headway.kits.simulator.practise import before_practice, practise_sim
from headway.kits.simulator.problem import write_problems
from headway.kits.simulator.report import baselines
from headway.kits.simulator.split import ENCODER, ProblemPart, sim
from headway.nouns.errors import HeadwayError
from headway.project import Project
from tests.cli.terminal import headway
from tests.kits.simulator.conftest import own_code
from tests.serve.conftest import Running

TOML = """
[tasks.route]
actions = "sim"
reward = { solved = 1.0 }
range = [-3, 1]
state = ["steps"]
rules = [{ when = "steps >= 1", use = "stop" }]
fallback = "large"
explore = { kind = "none" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headway.toml").write_text(TOML)
    return tmp_path


def test_practice_gives_a_candidate_that_a_proof_can_play_again(folder: Path, problem_file: Path) -> None:
    with Project(folder) as project:
        done = practise_sim(project, task="route", tasks=problem_file, seed=3, steps=4_096, hidden=(16,), episodes=20)
        header = project.registry.header(project.registry.find(done.policy))
        assert (header.task, header.trained_on["world"]) == ("route", "sim")
        fresh = {"tasks": str(problem_file), "encoder": "hashing-1-w128", "part": "test", "shuffled": None}
        assert header.trained_on["fresh"] == fresh
        assert header.extra["arms"] == list(ACTIONS)
        decision = project.decide("route", "Write a Python function `tally(numbers)`.", state={"steps": 0})
        assert decision.policy == "rules@0"  # a candidate decides nothing


def test_the_same_seed_practises_the_same_policy(folder: Path, problem_file: Path) -> None:
    with Project(folder) as project:
        how = {"task": "route", "tasks": problem_file, "steps": 4_096, "hidden": (16,), "episodes": 20}
        first, again, other = (practise_sim(project, seed=seed, **how) for seed in (3, 3, 4))
    assert first.policy == again.policy != other.policy


def test_shuffled_rewards_tell_nothing_and_a_proof_uses_real_ones(problem_file: Path) -> None:
    real, shuffled = (sim(count=2, tasks=str(problem_file), shuffled=seed) for seed in (None, 5))
    assert real.table.hidden.sum() == shuffled.table.hidden.sum()
    assert shuffled.table.hidden[:, 0].mean() < 0.5 < real.table.hidden[:, 0].mean()
    assert sim.fresh["shuffled"] is None  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_learn_with_the_world_and_train_are_the_same(folder: Path, problem_file: Path) -> None:
    shared = ("--tasks", problem_file, "--steps", "4096", "--seed", "3", "--json")
    one = headway("-C", folder, "sim", "train", "route", *shared)
    other = headway("-C", folder, "learn", "route", "--world", "sim", *shared)
    assert (one.code, other.code) == (0, 0)
    assert one.json["policy"] == other.json["policy"]
    assert one.json["next"].endswith("prove route")
    assert one.json["before"]["value"] <= 0.85 * one.json["before"]["oracle"]


def test_before_practice_it_is_said_how_much_the_best_fixed_arm_leaves(problem_file: Path) -> None:
    before = before_practice({"tasks": str(problem_file), "encoder": ENCODER})
    assert 0.0 < before.value <= 0.85 * before.oracle
    assert f"({before.arm}) is worth {before.value / before.oracle:.0%} of the oracle" in before.words


def test_tasks_belong_to_the_world_sim(folder: Path, problem_file: Path) -> None:
    done = headway("-C", folder, "learn", "route", "--tasks", problem_file)
    assert done.code == 2
    assert "--world sim" in done.err


def test_a_file_without_wrong_solutions_is_refused(folder: Path, tmp_path: Path) -> None:
    from tests.kits.simulator.test_import import MBPP, written

    headway("sim", "import", written(tmp_path, MBPP), "--out", tmp_path / "mbpp.jsonl")
    done = headway("-C", folder, "sim", "train", "route", "--tasks", tmp_path / "mbpp.jsonl", "--json")
    assert done.error["code"] == "bad_world"


def test_a_wrong_file_creates_no_project(tmp_path: Path) -> None:
    (tmp_path / "wrong.jsonl").write_text("{}\n")
    done = headway("-C", tmp_path, "sim", "train", "route", "--tasks", tmp_path / "wrong.jsonl", "--json")
    assert done.error["code"] == "bad_problem"
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.jsonl"]


def test_a_report_needs_a_policy_of_this_world(folder: Path) -> None:
    with Project(folder):
        pass
    done = headway("-C", folder, "sim", "report", "route", "--json")
    assert done.error["code"] == "no_world"


def test_baselines_are_chosen_on_practised_problems(practice_part: ProblemPart) -> None:
    chosen = baselines(practice_part, seed=0, attempts=1)
    assert chosen.names["fixed arm"] in ACTIONS
    assert len(chosen.order) >= 2
    assert chosen.weights.shape == (130, 4)  # a constant, the embedding and the length; one column per solver


def test_a_summary_compares_ways_on_the_same_subjects() -> None:
    rng = np.random.default_rng(2)
    best = rng.random(300)
    values = {"oracle": best, "learned": 0.9 * best, "fixed arm": 0.5 * best}
    rows = [
        {"part": "test", "way": way, "subject": str(place), "value": value, "solved": 1.0, "cost": 0.1}
        for way, column in values.items()
        for place, value in enumerate(column)
    ]
    ways = played_summary(rows, seed=0)["test"]["ways"]
    assert ways["learned"]["share"] == pytest.approx(0.9)
    assert ways["learned"]["share_low"] == pytest.approx(0.9)
    assert ways["fixed arm"]["learned_more"] == pytest.approx(float(0.4 * best.mean()))
    assert ways["fixed arm"]["learned_more_low"] > 0


# -- the whole way


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "problems.jsonl"
    problems = list(generate(600, seed=2024))
    write_problems(path, problems)
    outcomes(problems, path, own_code)
    return path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_several_seeds_practise_side_by_side(folder: Path, problem_file: Path) -> None:
    words = ("--world", "sim", "--tasks", problem_file, "--steps", "4096", "--seed", "3", "--json")
    several = headway("-C", folder, "learn", "route", *words, "--seeds", "2")
    one = headway("-C", folder, "learn", "route", *words)
    assert several.code == 0
    assert one.json["policy"] in str(several.json)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_practised_policy_is_proven_promoted_and_served_by_its_hash(folder: Path, large_file: Path) -> None:
    trained = headway("-C", folder, "sim", "train", "route", "--tasks", large_file, "--steps", "80000", "--json").json
    proven = headway("-C", folder, "prove", "route", "--json")
    assert (proven.code, proven.json["state"], proven.json["evidence"]["kind"]) == (0, "pass", "world")
    pack = folder / "pack"
    report = headway("-C", folder, "sim", "report", "route", "--run-pack", pack, "--json").json
    ways = report["parts"]["test"]["ways"]
    assert ways["learned"]["share"] > ways["fixed arm"]["share"]
    assert ways["fixed arm"]["share_high"] <= 0.85
    assert verify(pack).recomputed
    assert headway("-C", folder, "promote", "route", "--json").code == 0
    with Project(folder) as project:
        digest = project.registry.find(trained["policy"])
        assert project.current("route").digest == digest
    world = sim("test", count=1, tasks=str(large_file))
    world.reset(seed=1)
    situation = world.situations()[0]
    server = Running(folder)
    try:
        body = {"task": "route", "text": situation.text, "state": dict(situation.state)}
        answer = server.client.post("/v1/decisions", json=body)
        assert (answer.status_code, answer.json()["policy"]) == (201, trained["policy"])
        assert answer.json()["action"] in ACTIONS
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_of_twenty_policies_of_shuffled_rewards_are_refused(tmp_path: Path, large_file: Path) -> None:
    for seed in range(20):
        folder = tmp_path / str(seed)  # a fresh error budget, which is the largest
        folder.mkdir()
        (folder / "headway.toml").write_text(TOML)
        with Project(folder) as project:
            how = {"seed": seed, "steps": 16_384, "hidden": (32,), "episodes": 20}
            practise_sim(project, task="route", tasks=large_file, shuffled=seed, **how)
            verdict = project.prove(task="route")
            assert not verdict.passed, f"seed {seed}: {verdict.reasons}"
            with pytest.raises(HeadwayError):
                project.promote(task="route")
