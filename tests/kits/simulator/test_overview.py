"""What the page shows of the simulator, and the routes behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits.simulator import ACTIONS, SOLVERS
from headway.kits.simulator.overview import episode, overview
from headway.kits.simulator.practise import practise_sim
from headway.kits.simulator.run import ResultsFile
from headway.kits.simulator.split import HELD_OUT
from headway.nouns.errors import HeadwayError
from headway.project import Project
from tests.kits.simulator.test_practise import TOML
from tests.serve.conftest import Running


@pytest.fixture(scope="module")
def practised(tmp_path_factory: pytest.TempPathFactory, problem_file: Path) -> Path:
    """A project whose policy practised a little on a copy of the problem file."""
    tmp_path = tmp_path_factory.mktemp("practised")
    (tmp_path / "headway.toml").write_text(TOML)
    for path in problem_file.parent.glob("problems*.jsonl"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with Project(tmp_path) as project:
        tasks = tmp_path / "problems.jsonl"
        practise_sim(project, task="route", tasks=tasks, seed=3, steps=4_096, hidden=(16,), episodes=20)
    return tmp_path


def test_solve_rates_and_runs_of_a_file(practised: Path) -> None:
    results = practised / "problems-small.results.jsonl"
    key = {"solver": "small", "count": 180}
    with Project(practised) as project, ResultsFile(results, key) as file:
        rows = [{"id": str(number), "status": status} for number, status in enumerate(("passed", "failed", "error"))]
        file.append(rows)
        shown = overview(project, "route")
        [run] = shown.runs
        assert (run.solver, run.done, run.of, run.passed, run.running) == ("small", 2, 180, 1, True)
    with Project(practised) as project:
        shown = overview(project, "route")
    assert not shown.runs[0].running
    assert shown.problems == 180
    assert {(rate.family, rate.solver) for rate in shown.rates} == {
        (family, solver) for family in {rate.family for rate in shown.rates} for solver in SOLVERS
    }
    assert sum(rate.problems for rate in shown.rates) == 180 * len(SOLVERS)
    assert {rate.family for rate in shown.rates if rate.held_out} == set(HELD_OUT)
    rates = {(rate.family, rate.solver): rate.rate for rate in shown.rates}
    assert rates["parsing", "text"] > rates["parsing", "algorithms"] + 0.3
    assert rates["graphs", "algorithms"] > rates["graphs", "text"] + 0.3


def test_an_episode_adds_up_step_by_step(practised: Path) -> None:
    with Project(practised) as project:
        candidate = project.standing("route").candidate
        assert candidate is not None
        for number in range(6):
            played = episode(project, "route", number, candidate.ref)
            assert played == episode(project, "route", number, candidate.ref)
            assert {step.action for step in played.steps} <= set(ACTIONS)
            costs = sum(step.cost for step in played.steps)
            assert played.value == pytest.approx(played.solved - costs)
            assert all(0 < step.probability <= 1 for step in played.steps)
        ruled = episode(project, "route", 0)
        assert ruled.policy == "rules@0"
        assert [step.action for step in ruled.steps] == ["large", "stop"]


def test_a_task_without_practice_has_nothing_to_show(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(TOML)
    with Project(tmp_path) as project:
        assert overview(project, "route").file == ""
        with pytest.raises(HeadwayError) as refused:
            episode(project, "route", 0)
    assert refused.value.code == "no_world"


def test_the_page_gets_both_over_http(practised: Path) -> None:
    server = Running(practised)
    try:
        shown = server.client.get("/v1/tasks/route/sim", headers=server.token).raise_for_status().json()
        assert shown["problems"] == 180
        played = server.client.get("/v1/tasks/route/sim/episode?number=2", headers=server.token).json()
        assert [step["action"] for step in played["steps"]] == ["large", "stop"]
        assert server.client.get("/v1/tasks/none/sim", headers=server.token).status_code == 404
        assert server.client.get("/v1/tasks/route/sim/episode?number=-1", headers=server.token).status_code == 422
    finally:
        server.stop()
