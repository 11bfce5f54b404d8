"""Live comparisons on problem files and on the suites that come with Headway."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.kits.demo.synth import synthesise
from headway.kits.offline.live_answers import read_tasks
from headway.kits.simulator.commands.compare import SUITES, estimate, is_problem_file, live_tasks, suite
from headway.kits.simulator.generate import generate
from headway.kits.simulator.problem import CodeProblem, write_problems
from headway.nouns.errors import HeadwayError
from headway.project import Project
from headway.settings import Upstream
from tests.cli.terminal import headway
from tests.kits.simulator.test_model_solvers import Coder, coder, problems  # noqa: F401 — fixtures

TOML = """
[tasks.route]
actions = ["primary", "fallback"]
reward = {{ solved = 1.0, trajectory_reward = 1.0 }}
required = []
rules = [{{ when = "task_complexity_score > 0.8", use = "fallback" }}]

[upstreams.primary]
url = "{url}/v1"
model = "any"
price_in = 1.0
price_out = 2.0

[upstreams.fallback]
url = "{url}/v1"
model = "any"
price_in = 10.0
price_out = 20.0
"""


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_sixty_checked_tasks(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in suite(name)))
    tasks = read_tasks(path)
    assert len(tasks) >= 60
    assert all(task.check is not None for task in tasks)


def test_problem_files_are_told_apart_from_task_files(tmp_path: Path) -> None:
    write_problems(tmp_path / "problems.jsonl", generate(1, seed=1))
    (tmp_path / "tasks.jsonl").write_text('{"text": "Say yes."}\n')
    assert is_problem_file(tmp_path / "problems.jsonl")
    assert not is_problem_file(tmp_path / "tasks.jsonl")
    assert not is_problem_file(tmp_path / "none.jsonl")


def test_an_estimate_spans_the_upstreams() -> None:
    rows = [{"text": "x" * 400}] * 10
    priced = [
        Upstream(name=name, url="http://127.0.0.1:9/v1", model="m", price_in=price, price_out=2 * price, max_tokens=100)
        for name, price in (("a", 1.0), ("b", 10.0))
    ]
    cost = estimate(rows, priced, repeats=3)
    assert cost.answers == 60
    assert (cost.least_usd, cost.most_usd) == (pytest.approx(0.018), pytest.approx(0.18))
    assert estimate(rows, []).most_usd == 0.0


def test_tests_that_are_code_are_refused(tmp_path: Path) -> None:
    from headway.kits.simulator.foreign_problems import read_foreign
    from tests.kits.simulator.test_import import MBPP, written

    with pytest.raises(HeadwayError) as refused:
        live_tasks(read_foreign(written(tmp_path, MBPP)).problems)
    assert refused.value.code == "bad_tasks"


def test_compare_asks_the_problems_of_a_file_and_says_the_cost_first(
    tmp_path: Path,
    coder: Coder,  # noqa: F811
    problems: list[CodeProblem],  # noqa: F811
) -> None:
    (tmp_path / "headway.toml").write_text(TOML.format(url=coder.url))
    write_problems(tmp_path / "problems.jsonl", problems[:2])
    with Project(tmp_path) as project:
        synthesise(project, "route", rows=300, seed=1)
        project.learn("route")
    words = ("-C", tmp_path, "compare", "route", "--tasks", tmp_path / "problems.jsonl")
    done = headway(*words, "--out", tmp_path / "compare.json")
    assert done.code == 0
    assert "4 answers will be asked for, at an estimated cost of 0.00 to 0.03 US dollars" in done.out
    live = json.loads((tmp_path / "compare.json").read_bytes())["live"]
    assert (live["runs"], live["metrics"]["solved"]["policy"]) == (4, 1.0)  # the answers were really run
    assert headway(*words, "--suite", "code").code == 2
    damaged = (tmp_path / "problems.jsonl").read_text("utf-8").replace('"difficulty":1', '"difficulty":2', 1)
    (tmp_path / "problems.jsonl").write_text(damaged, "utf-8")
    assert headway(*words, "--json").error["code"] == "problem_damaged"
