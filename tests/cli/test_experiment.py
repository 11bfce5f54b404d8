"""`headway experiment` and `headway plan` without options, from the terminal."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.terminal import headway
from tests.project.test_experiment import Traffic


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a rules policy and a candidate; tests must not change it."""
    one = Traffic(tmp_path_factory.mktemp("waiting"))
    one.play(250)
    one.project.learn("route")
    one.project.close()
    return one.folder


@pytest.fixture
def folder(waiting: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(waiting, tmp_path / "project"))


def test_an_experiment_is_started_shown_and_stopped(folder: Path) -> None:
    nothing = headway("-C", folder, "experiment", "show", "route")
    assert "no experiment" in nothing.out
    assert "headway -C" in nothing.out
    assert headway("-C", folder, "experiment", "show", "route", "--json").json["experiment"] is None
    started = headway("-C", folder, "experiment", "start", "route", "--share", "0.3", "--who", "ann")
    assert started.code == 0, started.err
    assert re.search(r"on 30% of route, 0 decisions so far; about \d+ more decisions, ", started.out)
    assert "experiment stop route" in started.out
    shown = headway("-C", folder, "experiment", "show", "route", "--json").json["experiment"]
    assert (shown["running"], shown["share"], shown["who"], shown["against"]) == (True, 0.3, "ann", "rules@0")
    status = headway("-C", folder, "status")
    assert re.search(r"Experiment running: 15 Nov 2023 \(bandit@\w+\) on 30% of route, ", status.out)
    (task,) = headway("-C", folder, "status", "--json").json["tasks"]
    assert (task["canary"], task["experiment"]["share"]) == (None, 0.3)
    again = headway("-C", folder, "experiment", "start", "route", "--share", "0.1", "--json")
    assert (again.code, again.json["error"]["code"]) == (1, "experiment_running")
    stopped = headway("-C", folder, "experiment", "stop", "route", "--why", "too expensive")
    assert "Experiment ended, stopped" in stopped.out
    gone = headway("-C", folder, "experiment", "stop", "route", "--json")
    assert (gone.code, gone.json["error"]["code"]) == (1, "no_experiment")
    assert headway("-C", folder, "status", "--json").json["tasks"][0]["experiment"] is None


def test_plan_without_options_says_what_a_verdict_costs_and_how_long_it_takes(folder: Path) -> None:
    planned = headway("-C", folder, "plan", "route")
    assert planned.code == 0, planned.err
    assert "with the log alone: " in planned.out
    assert "of the traffic for the candidate: about " in planned.out
    assert "experiment start route" in planned.out
    cost = headway("-C", folder, "plan", "route", "--json").json
    assert cost["share"] > 0
    assert cost["by_share"]["0"] == cost["log_alone"]
    assert cost["decisions"] < (cost["log_alone"] or 10**9)
    assert cost["forecast"]["text"] in planned.out
    assert re.fullmatch(r"about [\d,]+ more decisions, about [\d,]+ \w+", cost["forecast"]["text"])
    assert headway("-C", folder, "plan", "route", "--register").code == 2
    assert "decisions for a 80%" in headway("-C", folder, "plan", "route", "--uplift", "0.1").out
