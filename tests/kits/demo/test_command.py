"""The demo: the whole loop from an empty folder, compared with the true values."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headway.kits.demo.routing import two_arms
from tests.cli.terminal import contents, headway, process


def test_the_demo_learns_proves_promotes_and_draws_from_an_empty_folder(empty: Path) -> None:
    done = process("demo", "route", "--n", "1500", cwd=empty)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Everything here is synthetic")
    assert "BETTER: bandit@" in done.out
    assert "route now bandit@" in done.out
    assert "inside the interval" in done.out
    for name in ("always small", "always large", "the best arm for every prompt"):
        assert name in done.out
    assert done.out.endswith("Undo: headway rollback route\nNext: headway status\n")
    assert (empty / "route.png").read_bytes().startswith(b"\x89PNG")
    assert "bandit@" in process("status", cwd=empty).out


@pytest.mark.slow
def test_the_printed_true_values_are_those_of_the_world(empty: Path) -> None:
    report = headway("demo", "--out", empty, "--n", "1000", "--seed", "3", "--json").json
    world = two_arms()
    assert report["truth"]["always small"] == world.constant("small")
    assert report["truth"]["uniform@0"] == world.uniform()
    assert report["truth"]["the best arm for every prompt"] == world.optimum()
    assert world.uniform() < report["truth"][report["policy"]] < world.optimum()
    assert report["source"] == "synthetic"
    assert {row[16] for row in contents(empty)["decisions"]} == {1}, "every row is marked synthetic"


@pytest.mark.slow
def test_the_same_seed_plays_the_same_traffic(tmp_path: Path) -> None:
    first, second = (headway("demo", "--out", tmp_path / name, "--n", "600", "--json").json for name in ("a", "b"))
    assert first["evidence"]["difference"] == second["evidence"]["difference"]
    assert (
        first["truth"].values()
        != headway("demo", "--out", tmp_path / "c", "--n", "600", "--seed", "8", "--json").json["truth"].values()
    )


@pytest.mark.slow
def test_the_demo_does_not_mix_with_a_project(project: Path) -> None:
    before = contents(project)
    done = headway("demo", "route", "--out", project, "--json")
    assert (done.code, done.error["code"]) == (1, "project_exists")
    assert contents(project) == before


def test_without_matplotlib_the_demo_names_the_extra(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = headway("demo", "--out", empty, "--n", "500")
    assert done.code == 0
    assert "pip install 'headway[plot]'" in done.out
    assert not (empty / "route.png").exists()
