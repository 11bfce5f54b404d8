"""Deletion, ratings and questions from the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import headway as library
from tests.cli.terminal import headway

TOML = '[tasks.reply]\nactions = ["short", "long"]\nreward = { rating = "stars" }\nconsensus = true\n'


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    folder = tmp_path / "rated"
    folder.mkdir()
    (folder / "headway.toml").write_text(TOML, "utf-8")
    with library.open(folder, seed=4) as project:
        for n in range(24):
            pick = project.decide("reply", f"question {n}")
            stars = 1.0 + n % 5
            project.signal(pick.id, {"rating": stars}, rater="ann")
            project.signal(pick.id, {"rating": min(5.0, stars + (n % 2))}, rater="bob")
            project.signal(pick.id, {"rating": 6.0 - stars}, rater="zoe-7")
        project.decide("reply", "unrated")
    return folder


def test_a_dry_run_prints_the_rows_to_delete_and_the_command(rated: Path) -> None:
    done = headway("data", "delete", "--rater", "zoe-7", "--dry-run", "-C", rated)
    assert done.code == 0, done.err
    assert "Would delete 24 signals" in done.out
    assert "data delete --rater zoe-7" in done.out
    with library.open(rated) as project:
        assert project.query.counts("reply").signals == 72


def test_without_yes_a_script_deletes_nothing(rated: Path) -> None:
    done = headway("data", "delete", "--rater", "zoe-7", "-C", rated)
    assert done.code != 0
    assert "--yes" in done.err
    with library.open(rated) as project:
        assert project.query.counts("reply").signals == 72


def test_with_yes_the_rows_are_deleted(rated: Path) -> None:
    done = headway("data", "delete", "--rater", "zoe-7", "--yes", "--json", "-C", rated)
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["signals"], report["raters"], report["remains"]) == (24, 1, [])
    assert b"zoe-7" not in (rated / ".headway" / "headway.db").read_bytes()


def test_two_deletion_conditions_are_refused(rated: Path) -> None:
    done = headway("data", "delete", "--rater", "zoe-7", "--before", "2026-01-01", "--yes", "-C", rated)
    assert done.code != 0
    assert "expected one" in done.err


def test_retention_deletes_nothing_without_a_setting(rated: Path) -> None:
    done = headway("data", "retain", "-C", rated)
    assert (done.code, done.out.splitlines()[0]) == (0, "`keep_days` is not set: everything is kept.")


def test_retention_refuses_when_a_clock_would_delete_everything(rated: Path) -> None:
    (rated / "headway.toml").write_text(TOML + "[store]\nkeep_days = 1e-12\n", "utf-8")
    done = headway("data", "retain", "-C", rated)
    assert done.code == 1
    assert "Every decision (25) is older than keep_days = 1e-12" in done.err
    assert "data delete --before" in done.err


def test_a_deletion_that_waits_says_so(rated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.observe.sqlite._PATIENCE_S", 0.0)
    with closing(sqlite3.connect(rated / ".headway" / "headway.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM decisions").fetchone()
        done = headway("data", "delete", "--rater", "zoe-7", "--yes", "-C", rated)
    assert done.code == 0
    assert "Waiting: headway.db is being read by another process." in done.err
    assert "May still hold some of it: headway.db-wal" in done.out


@pytest.mark.kits("raters")
def test_the_analysis_compares_raters_and_finds_the_reversed_one(rated: Path) -> None:
    report = json.loads(headway("rewards", "analyze", "reply", "--json", "-C", rated).out)
    turned = {rater["rater"]: rater["reversed"] for rater in report["raters"]}
    assert turned["zoe-7"] > 0.9
    assert turned["ann"] < 0.5
    assert report["consensus"] is True
    shown = headway("rewards", "analyze", "reply", "-C", rated)
    assert "Raters of 'rating' compared" in shown.out


@pytest.mark.kits("raters")
def test_a_plot_can_be_coloured_by_source(rated: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "rewards.svg"
    done = headway("rewards", "analyze", "reply", "--plot", picture, "--by", "source", "-C", rated)
    assert done.code == 0, done.err
    assert picture.stat().st_size > 1000


@pytest.mark.kits("raters")
def test_questions_start_with_unrated_decisions(rated: Path) -> None:
    done = headway("rewards", "ask", "reply", "-n", 3, "-C", rated)
    assert done.code == 0, done.err
    assert "not rated yet" in done.out
    report = json.loads(headway("rewards", "ask", "reply", "-n", 3, "--json", "-C", rated).out)
    assert report["questions"][0]["text"] == "unrated"
    assert len(report["questions"]) == 3
