"""`headway data copy`, `doctor` and `status` with a PostgreSQL store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import contents, headway


@pytest.fixture
def url(postgres: Any) -> str:
    address: str = postgres.store()
    return address


@pytest.mark.slow
def test_a_project_moves_to_postgresql_and_back(
    played: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "mine"
    shutil.copytree(played, here)
    before = contents(here)
    done = headway("data", "copy", here, url, "--json")
    assert done.code == 0, done.err
    assert done.json["rows"]["decisions"] == len(before["decisions"]) > 0
    assert set(done.json["sha256"]) == set(done.json["rows"])
    assert headway("data", "copy", here, url, "--json").json["written"] == 0, "the second copy has nothing to do"
    known = headway("-C", here, "status", "--json").json
    monkeypatch.setenv("HEADWAY_STORE_URL", url)
    moved = headway("-C", here, "status", "--json").json
    assert moved["tasks"] == known["tasks"]
    assert (known["store"]["engine"], moved["store"]["engine"]) == ("sqlite", "postgresql")
    assert "PostgreSQL" in headway("-C", here, "status").out
    report = headway("-C", here, "doctor")
    assert report.code == 0
    assert "PostgreSQL" in report.out
    assert headway("-C", here, "decide", "route", "one more", "--candidates", "small,large").code == 0
    again = headway("-C", here, "data", "copy", "store", tmp_path / "back" / ".headway" / "headway.db")
    assert again.code == 0, again.err
    after = contents(tmp_path / "back")
    assert [row for row in after["decisions"] if row in before["decisions"]] == before["decisions"]
    assert len(after["decisions"]) == len(before["decisions"]) + 1
    assert contents(here) == before, "the file is unchanged"


@pytest.mark.parametrize("target", [".", "", ".headway/headway.db", "link"])
def test_a_store_is_not_copied_onto_itself(
    target: str, played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(played, tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    Path("link").symlink_to(tmp_path / "mine")
    done = headway("data", "copy", ".", target, "--json")
    assert (done.code, done.error["code"]) == (1, "copy_onto_itself")


@pytest.mark.kits("postgres")
def test_a_missing_store_is_named(tmp_path: Path, url: str) -> None:
    done = headway("data", "copy", tmp_path / "nothing.db", url, "--json")
    assert (done.code, done.error["code"]) == (1, "no_store")
    away = headway("data", "copy", "postgresql://ann:pa55@127.0.0.1:9/x", tmp_path / "new.db")
    assert away.code == 1
    assert "127.0.0.1:9" in away.err
    assert "pa55" not in away.out + away.err


@pytest.mark.kits("postgres")
def test_the_doctor_reports_an_unreachable_database(played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_STORE_URL", "postgresql://ann:pa55@127.0.0.1:9/x")
    report = headway("-C", played, "doctor", "--json")
    assert report.code == 1
    (check,) = [check for check in report.json["checks"] if check["name"] == "store"]
    assert check["ok"] is False
    assert "cannot be reached" in check["found"]
    assert check["cure"]
    assert "pa55" not in report.out + report.err
