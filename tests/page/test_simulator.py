"""The page of a task that practised on problems: solve rates, runs, and an episode step by step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.kits.simulator import SOLVERS
from headway.kits.simulator.generate import generate
from headway.kits.simulator.outcomes import outcomes
from headway.kits.simulator.practise import practise_sim
from headway.kits.simulator.problem import write_problems
from headway.kits.simulator.run import ResultsFile
from headway.project import Project
from tests.kits.simulator.conftest import own_code
from tests.kits.simulator.test_practise import TOML
from tests.page.browser import Served, serving
from tests.page.conftest import AXE, Open, need
from tests.page.test_views import ready, violations


@pytest.fixture(scope="module")
def practised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("practised") / "desk"
    folder.mkdir()
    (folder / "headway.toml").write_text(TOML, "utf-8")
    tasks, problems = folder / "problems.jsonl", list(generate(120, seed=4))
    write_problems(tasks, problems)
    outcomes(problems, tasks, own_code)
    with ResultsFile(folder / "problems-large.results.jsonl", {"solver": "large", "count": 120}) as file:
        file.append([{"id": str(number), "status": "passed" if number % 4 else "failed"} for number in range(60)])
    with Project(folder, source="synthetic") as project:
        practise_sim(project, task="route", tasks=tasks, seed=3, steps=4_096, hidden=(16,), episodes=20)
        project.decide("route", "Write a Python function `tally(numbers)`.", state={"steps": 0})
    with ResultsFile(folder / "problems-small.results.jsonl", {"solver": "small", "count": 120}) as running:
        running.append([{"id": str(number), "status": "passed"} for number in range(30)])
        with serving(folder) as server:
            yield server


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_solve_rates_runs_and_an_episode_are_shown(practised: Served, tab: Open, scheme: str) -> None:
    page = tab(practised, "#/tasks/route", scheme=scheme)
    ready(page)
    page.get_by_role("heading", name="An episode, step by step").wait_for()
    rates = page.get_by_role("table").filter(has_text="dynamic-programming")
    assert "held out" in rates.inner_text()
    assert all(solver in rates.get_by_role("row").first.inner_text() for solver in SOLVERS)
    assert rates.get_by_role("row").filter(has_text="arithmetic").inner_text().count("%") == len(SOLVERS)
    runs = page.get_by_role("table").filter(has_text="60 of 120")
    assert "45, 75%" in runs.inner_text()
    assert "running" not in runs.get_by_role("row").filter(has_text="large").inner_text()
    assert "running" in runs.get_by_role("row").filter(has_text="30 of 120").inner_text()
    steps = page.get_by_role("table").filter(has_text="Visible tests")
    steps.wait_for()
    assert steps.get_by_role("row").nth(1).inner_text().split()[:2] == ["1", "large"]
    first = page.get_by_text("on the held-out problem").inner_text()
    page.get_by_role("button", name="Next problem").press("Enter")
    page.wait_for_function(
        "before => !document.body.innerText.includes(before) && document.body.innerText.includes('(2 of')", arg=first
    )
    need(AXE.exists(), "axe-core is not installed (python scripts/build_page.py --tools)")
    assert violations(page) == []
