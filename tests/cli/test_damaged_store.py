"""Damaged values in a store are named by every command: no traceback, and no guess."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import headway as library
from tests.cli.terminal import headway

TOML = '[tasks.route]\nactions = ["small", "large"]\nreward = { reward = 1.0 }\nrange = [-5, 5]\n'
DAMAGE: list[tuple[str, str, object]] = [
    ("decisions", "at", "yesterday"),
    ("decisions", "at", 10**18),
    ("decisions", "text", b"\xff\xfe"),
    ("decisions", "state", '{"a":'),
    ("decisions", "state", "9" * 100_000),
    ("decisions", "probabilities", b"\x00"),
    ("decisions", "action", 10**17),
    ("decisions", "action", "small"),
    ("decisions", "source", 77),
    ("decisions", "step", "first"),
    ("decisions", "candidate_set_id", 10**6),
    ("candidate_sets", "body", "[[1]]"),
    ("configs", "body", "[" * 50_000),
    ("settled", "reward", "much"),
    ("settled", "status", 9),
    ("signals", "value", "good"),
    ("ledger", "detail", "{"),
]
READING = (("status",), ("data", "log"), ("data", "stats"), ("learn", "route"), ("watch", "--once"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "headway.toml").write_text(TOML, "utf-8")
    with library.open(folder, seed=3) as project:
        for place, ask in enumerate(library.sample("route", n=30, seed=7)):
            pick = project.decide("route", ask.text, state={"n": place}, episode=f"e{place % 5}")
            project.signal(pick.id, reward=ask.outcome(pick.action), rater="ann")
        project.settle("route")
        project.learn("route")
    return folder


def damage(whole: Path, folder: Path, table: str, column: str, value: object) -> Path:
    shutil.copytree(whole, folder)
    with closing(sqlite3.connect(folder / ".headway" / "headway.db", isolation_level=None)) as store:
        store.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))
    return folder


@pytest.mark.parametrize(("table", "column", "value"), DAMAGE)
def test_a_damaged_value_is_found(whole: Path, tmp_path: Path, table: str, column: str, value: object) -> None:
    folder = damage(whole, tmp_path / "damaged", table, column, value)
    with library.open(folder) as project:
        assert f"{table} row 1: {column}" in project.database.check()[0]


def test_doctor_names_the_table_and_the_column(whole: Path, tmp_path: Path) -> None:
    checked = headway("doctor", "-C", damage(whole, tmp_path / "damaged", "decisions", "at", "yesterday"))
    assert checked.code == 1
    assert "decisions row 1: at is not INTEGER" in checked.out


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize(("table", "column", "value"), DAMAGE[:2] + DAMAGE[7:9])
def test_a_command_that_meets_a_damaged_value_says_so(
    whole: Path, tmp_path: Path, words: tuple[str, ...], table: str, column: str, value: object
) -> None:
    folder = damage(whole, tmp_path / "damaged", table, column, value)
    done = headway(*words, "--json", "-C", folder)
    assert done.code == 0 or "is damaged: " in done.out, done


@pytest.mark.slow
@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize(("table", "column", "value"), DAMAGE)
def test_no_command_ends_in_a_traceback(
    whole: Path, tmp_path: Path, words: tuple[str, ...], table: str, column: str, value: object
) -> None:
    folder = damage(whole, tmp_path / "damaged", table, column, value)
    done = headway(*words, "--json", "-C", folder)
    assert done.code in (0, 1), done  # an exception would end this test
