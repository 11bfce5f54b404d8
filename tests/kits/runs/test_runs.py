"""Runs: metrics over time, bounded, tolerant of a crash, averaged for charts; stopped and listed."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import pytest

from headway.kits.runs.training_runs import ask_to_stop, list_runs, read_curves
from headway.nouns.errors import Conflict, UnknownName
from headway.observe.run_log import RunLog, drop_old_runs


def test_nested_numbers_become_curves_and_are_averaged(tmp_path):
    log = RunLog(tmp_path / "work" / "cart-7")
    log.begin({"task": "cart", "family": "recurrent", "seed": 7, "command": "headway learn cart --resume"})
    for step in range(100):
        log.add({"steps": step * 10, "loss": float(step), "heads": {"model": {"entropy": step / 2}}, "who": "text"})
    curves = read_curves(tmp_path, "cart-7", points=10)
    assert (curves.x_name, curves.lines, curves.lines_per_point) == ("steps", 100, 10)
    assert curves.x == [90.0 + 100 * place for place in range(10)]
    assert curves.series["loss"] == [4.5 + 10 * place for place in range(10)]
    assert set(curves.series) == {"loss", "heads.model.entropy"}
    assert curves.run.state == "running"
    log.end("recurrent@4f2a")
    (run,) = list_runs(tmp_path)
    assert (run.state, run.policy, run.task, run.seed) == ("done", "recurrent@4f2a", "cart", 7)


def test_a_torn_line_is_ignored_and_numbers_that_are_none_are_left_out(tmp_path):
    log = RunLog(tmp_path / "work" / "a")
    log.begin({})
    log.add({"steps": 1, "loss": float("nan"), "value": 2})
    with (tmp_path / "work" / "a" / "metrics.jsonl").open("a") as file:
        file.write('{"steps": 2, "lo')
    curves = read_curves(tmp_path, "a")
    assert curves.lines <= 1
    assert "loss" not in curves.series


def test_a_file_that_grows_too_large_keeps_lines_at_equal_distances(tmp_path, monkeypatch):
    monkeypatch.setattr(RunLog, "LARGEST", 2000)
    log = RunLog(tmp_path / "work" / "a")
    log.begin({})
    for step in range(1000):
        log.add({"steps": step})
        assert (tmp_path / "work" / "a" / "metrics.jsonl").stat().st_size <= 2100
    lines = [json.loads(line) for line in (tmp_path / "work" / "a" / "metrics.jsonl").read_text().splitlines()]
    steps = [line["steps"] for line in lines]
    assert steps[0] == 0
    assert steps[-1] > 980
    assert max(later - earlier for earlier, later in pairwise(steps)) <= 2 * 16
    assert len(steps) > 40


def test_a_run_stops_when_it_is_asked_to_and_names_the_command_that_continues_it(tmp_path):
    log = RunLog(tmp_path / "work" / "a")
    log.begin({"command": "headway learn a --world cartpole --resume"})
    log.add({"steps": 1})
    assert ask_to_stop(tmp_path, "a").state == "running"
    with pytest.raises(Conflict, match="was stopped") as refused:
        log.add({"steps": 2})
    assert refused.value.code == "run_stopped"
    assert "headway learn a --world cartpole --resume" in (refused.value.hint or "")
    assert [run.state for run in list_runs(tmp_path)] == ["stopped"]
    with pytest.raises(Conflict, match="not running"):
        ask_to_stop(tmp_path, "a")
    log.begin({"command": ""}, resumed=True)
    log.add({"steps": 3})
    assert read_curves(tmp_path, "a").lines == 3


def test_a_run_whose_process_is_gone_was_interrupted(tmp_path):
    log = RunLog(tmp_path / "work" / "a")
    log.begin({})
    log.add({"steps": 1})
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    about = tmp_path / "work" / "a" / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "pid": child}))
    assert [run.state for run in list_runs(tmp_path)] == ["interrupted"]


def test_unknown_runs_and_old_ones(tmp_path):
    for number in range(5):
        log = RunLog(tmp_path / "work" / f"route-bandit-{number}")
        log.begin({})
        log.add({"steps": 1})
    drop_old_runs(tmp_path, "route-bandit-", keep=2)
    assert sorted(run.run for run in list_runs(tmp_path)) == ["route-bandit-3", "route-bandit-4"]
    with pytest.raises(UnknownName, match="no run"):
        read_curves(tmp_path, "../../etc")
