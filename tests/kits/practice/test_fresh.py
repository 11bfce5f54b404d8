"""Evidence from fresh episodes: practised policies are proven, promoted, served and rolled back; others are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.practice import environments
from headway.kits.practice.environments import copies, environment
from headway.kits.practice.play import play
from headway.kits.practice.world_evidence import EPISODES, LOOK, WORLD, fresh_seed
from headway.kits.report import pages as report
from headway.nouns.errors import GateRefused, InvalidInput, MissingExtra
from headway.nouns.evidence import Plan
from headway.nouns.kit import catalogue
from headway.project import Project
from headway.testing import evidence_contract, world_contract
from tests.cli.terminal import headway as run
from tests.kits.practice.coins import Coins, coin_project, publish

GYMNASIUM = "gymnasium is in the extra 'worlds'"


def proven(folder: Path, chances: tuple[float, float], *, settings: str = "", **world: Any) -> tuple[Project, Any]:
    """A policy that takes the left coin, proven against uniform choice."""
    project = coin_project(folder, settings=settings)
    publish(project, "left", chances=list(chances), **world)
    return project, project.prove(task="coins")


# -- the kind itself


def test_a_better_policy_passes_at_the_first_look_that_decides(tmp_path: Path) -> None:
    project, verdict = proven(tmp_path, (0.9, 0.1))
    with project:
        assert verdict.passed, verdict.reasons
        evidence = verdict.evidence
        assert (evidence.kind, evidence.rule) == ("world", "betting")
        assert evidence.n % LOOK == 0
        assert evidence.alpha == pytest.approx(0.001)
        assert evidence.n < EPISODES
        assert any("'coins'" in words for words in evidence.unchecked)
        assert project.promote(task="coins").kind == "promote"
        assert project.decide("coins", state={"observation": [0.5]}).policy == evidence.candidate
        assert project.rollback("coins").policy == "uniform@0"


def test_a_worse_policy_is_proven_worse_and_an_equal_one_uses_up_its_episodes(tmp_path: Path) -> None:
    (tmp_path / "worse").mkdir()
    project, verdict = proven(tmp_path / "worse", (0.1, 0.9))
    project.close()
    assert verdict.state == "worse"
    (tmp_path / "equal").mkdir()
    project, verdict = proven(tmp_path / "equal", (0.5, 0.5))
    with project:
        assert verdict.state == "refused"
        assert verdict.evidence.n == EPISODES
        assert "1,000 episodes are used up" in verdict.reasons[0]
        with pytest.raises(GateRefused):
            project.promote(task="coins")


@pytest.mark.parametrize("advantage", [0.3, -0.3])
def test_who_plays_first_decides_nothing(tmp_path: Path, advantage: float) -> None:
    """Both coins are equal, and a copy pays whoever plays it first more, or less."""
    project, verdict = proven(tmp_path, (0.5, 0.5), first=advantage)
    with project:
        assert verdict.state == "refused"
        assert verdict.evidence.n == EPISODES
        assert abs(verdict.evidence.difference.value) < 0.15


def test_a_better_policy_passes_although_the_first_has_an_advantage(tmp_path: Path) -> None:
    project, verdict = proven(tmp_path, (0.8, 0.2), first=0.2)
    with project:
        assert verdict.passed, verdict.reasons


def test_the_same_proof_plays_the_same_episodes_and_is_charged_once(tmp_path: Path) -> None:
    project, verdict = proven(tmp_path, (0.7, 0.3))
    with project:
        again = project.prove(task="coins")
        assert again.evidence is not None
        assert (again.evidence.data_hash, again.evidence.id) == (verdict.evidence.data_hash, verdict.evidence.id)
        assert len(project.ledger.tests("coins")) == 1


def test_seeds_follow_from_what_is_proven_and_never_equal_those_of_practice() -> None:
    plan = Plan(horizon=100, uplift=0.1, power=0.8, alpha=0.04)
    seeds = [
        fresh_seed("coins", "abc", "proof", None, 0),
        fresh_seed("coins", "abc", "proof", None, 1),
        fresh_seed("coins", "abd", "proof", None, 0),
        fresh_seed("dice", "abc", "proof", None, 0),
        fresh_seed("coins", "abc", "pilot", None, 0),
        fresh_seed("coins", "abc", "proof", plan, 0),
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(1 << 62 <= seed < 1 << 63 for seed in seeds)
    assert fresh_seed("coins", "abc", "proof", None, 0) == seeds[0]


def test_a_registered_plan_fixes_the_number_of_episodes(tmp_path: Path) -> None:
    with coin_project(tmp_path) as project:
        publish(project, "left", chances=[0.55, 0.45])
        sized = project.plan("coins", uplift=0.3, register=True)
        assert sized.unit == "episodes"
        assert sized.plan.horizon % LOOK == 0
        verdict = project.prove(task="coins")
        assert verdict.evidence is not None
        assert verdict.evidence.n <= sized.plan.horizon < EPISODES
        assert verdict.evidence.rule == f"betting, registered horizon {sized.plan.horizon}"


def test_returns_without_declared_bounds_are_judged_and_the_evidence_says_so(tmp_path: Path) -> None:
    project, verdict = proven(tmp_path, (0.95, 0.05), bounded=False)
    with project:
        assert verdict.evidence.rule == "confidence sequence"
        assert any("asymptotically" in words for words in verdict.evidence.unchecked)


def test_a_return_outside_its_declared_bounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coins, "step", lambda self, actions: _paying_two(self, actions))
    with coin_project(tmp_path) as project:
        publish(project, "left")
        with pytest.raises(InvalidInput, match="declared to lie between 0 and 1"):
            project.prove(task="coins")


def _paying_two(world: Coins, actions: Any) -> tuple[Any, ...]:
    over = np.ones(len(actions), dtype=np.bool_)
    seen = np.zeros((len(actions), 1))
    return seen, np.full(len(actions), 2.0), over, ~over, {"final_obs": seen, "_final_obs": over}


def test_a_guard_that_the_world_does_not_measure_refuses(tmp_path: Path) -> None:
    settings = "[tasks.coins.guards]\ncost_usd = 0.1\n"
    project, verdict = proven(tmp_path, (0.9, 0.1), settings=settings)
    with project:
        assert verdict.state == "refused"
        assert "episodes do not measure 'cost_usd'" in verdict.reasons[0]


def test_the_evidence_keeps_the_contract(tmp_path: Path) -> None:
    with coin_project(tmp_path) as project:
        publish(project, "left", chances=[0.9, 0.1])
        evidence_contract(project, WORLD, "coins")


def test_pages_and_status_show_the_world(tmp_path: Path) -> None:
    project, verdict = proven(tmp_path, (0.9, 0.1))
    with project:
        for page in (report.text(verdict), report.markdown(verdict), report.html(verdict)):
            assert "episodes" in page
            assert "elsewhere" in page
        judged = project.report(verdict.evidence.id).document()
        assert (judged["kind"], judged["unit"]) == ("world", "episodes")
        assert project.next_step("coins").verb == "promote"


# -- what cannot be proven


def test_status_recommends_no_proof_without_the_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with coin_project(tmp_path) as project:
        publish(project, "left")
        assert project.next_step("coins").verb == "prove"
        project.catalogue = catalogue()
        monkeypatch.setattr("headway.kits.practice.world_evidence.find_spec", lambda name: None)
        step = project.next_step("coins")
        assert step.verb == "doctor"
        assert "gymnasium" in step.why
        with pytest.raises(MissingExtra):
            project.prove(task="coins")


def test_the_guard_waits_for_outcomes_and_then_judges_by_them(tmp_path: Path) -> None:
    project, verdict = proven(tmp_path, (0.9, 0.1))
    with project:
        project.promote(because=verdict, task="coins")
        assert project.guard("coins") is None
        for _ in range(30):
            pick = project.decide("coins", state={"observation": [0.5]})
            project.signal(pick.id, reward=1.0)
        assert project.guard("coins") is None
        latest = project.ledger.latest_evidence("coins")
        assert latest is not None
        assert project.evidence(latest).kind == "log"


# -- the error rate


@pytest.mark.parametrize(
    "chances", [(0.97, 0.97), *(pytest.param(pair, marks=pytest.mark.slow) for pair in ((0.5, 0.5), (0.03, 0.03)))]
)
def test_equal_policies_are_not_promoted(chances: tuple[float, float], tmp_path: Path) -> None:
    """12 proofs with up to 20 looks each at α = .001: 3 or more passes have a probability below 1e-6."""
    passed = 0
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        project, verdict = proven(folder, chances, low=-0.001 * number)
        project.close()
        passed += verdict.passed
    assert passed <= 2


# -- worlds


@pytest.mark.parametrize("world", ["cartpole", "acrobot"])
def test_the_declared_bounds_hold(world: str) -> None:
    pytest.importorskip("gymnasium", reason=GYMNASIUM)
    assert environments.ENVIRONMENTS
    envs = environment(world, count=2)
    low, high = envs.returns  # type: ignore[attr-defined]
    envs.close()
    assert low < high
    world_contract(lambda count: copies(catalogue(), world, count=count))


def test_a_world_of_prompts_is_played_on_held_out_prompts_with_its_text(tmp_path: Path) -> None:
    from headway.decide.acting import Pipeline
    from headway.decide.baselines import baseline
    from headway.kits.prompts import MUTATIONS

    envs = copies(catalogue(), "prompts", count=20, part="test", prompts=70)
    played = play(envs, Pipeline(baseline("uniform@0")), MUTATIONS, task="mutate", seed=7)
    low, high = envs.returns  # type: ignore[attr-defined]
    assert ((played.returns >= low) & (played.returns <= high)).all()
    again = play(envs, Pipeline(baseline("uniform@0")), MUTATIONS, task="mutate", seed=7)
    assert np.array_equal(played.returns, again.returns)


# -- the terminal


def told(folder: Path, *words: str) -> Any:
    done = run("-C", str(folder), *words, "--json")
    assert done.code == 0, done.out + done.err
    return done.json


def test_a_cartpole_policy_is_proven_promoted_served_and_rolled_back(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason=GYMNASIUM)
    learned = told(tmp_path, "learn", "--world", "cartpole", "--steps", "6144", "--seed", "3", "--target", "nan")
    verdict = told(tmp_path, "prove", "cartpole")
    assert verdict["passed"], verdict["reasons"]
    assert verdict["evidence"]["kind"] == "world"
    assert run("-C", str(tmp_path), "report", "cartpole").code == 0
    told(tmp_path, "promote", "cartpole")
    state = json.dumps([0.0, 0.0, 0.0, 0.0])
    chosen = told(tmp_path, "decide", "cartpole", "--state", f"observation={state}", "--candidates", "0,1")
    assert chosen["policy"] == learned["policy"]
    told(tmp_path, "rollback", "cartpole")
    assert told(tmp_path, "status")["tasks"][0]["current"] == "uniform@0"
