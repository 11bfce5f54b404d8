"""A project that somebody else has prepared: links, pipes, devices and other users' files."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.nouns.errors import Damaged, HeadwayError, InvalidSettings
from headway.project import Project
from headway.promote import bundle
from headway.serve.auth import project_token
from headway.serve.request_log import RequestLog
from tests.promote.test_bundle import TENSORS, header

SPOILS: dict[str, Callable[[Path], None]] = {
    "a link": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
}
spoiled = pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())


def prepared(path: Path, spoil: Callable[[Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.with_name("elsewhere").write_bytes(b"theirs")
    spoil(path)


@spoiled
def test_a_token_log_or_store_that_is_no_regular_file_is_not_opened(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    home = tmp_path / ".headway"
    for name in ("token", "requests.log", "headway.db"):
        prepared(home / name, spoil)
    with pytest.raises(Damaged, match=r"regular file|Is a directory"):
        project_token(home)
    log = RequestLog(home / "requests.log")
    log.add(0.0, "GET", "/", 200, 0.0, 0, "", "")
    with pytest.raises(OSError, match=r"regular file|directory"):
        log.flush()
    with pytest.raises(Damaged) as refused:
        headway.open(tmp_path)
    assert refused.value.code == "store_not_a_file"
    assert (home / "elsewhere").read_bytes() == b"theirs"


@spoiled
@pytest.mark.parametrize("name", ["header.json", "weights.safetensors"])
def test_a_bundle_that_is_no_regular_file_is_damaged(tmp_path: Path, spoil: Callable[[Path], None], name: str) -> None:
    digest = bundle.write(tmp_path, header(), TENSORS)
    prepared(tmp_path / digest / name, spoil)
    with pytest.raises(Damaged):
        bundle.read(tmp_path, digest)


def test_a_bundle_behind_a_link_is_damaged(tmp_path: Path) -> None:
    digest = bundle.write(tmp_path / "theirs", header(), TENSORS)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / digest).symlink_to(tmp_path / "theirs" / digest)
    with pytest.raises(Damaged, match="link"):
        bundle.read(tmp_path / "ours", digest)


def test_the_store_the_token_and_their_folder_belong_to_one_user(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        with headway.open(tmp_path) as project:
            project.decide("route", "text", ["a", "b"])
            project_token(project.home)
            files = [path for path in project.home.glob("*") if path.is_file()]
            assert {"token", "headway.db", "headway.db-wal"} <= {path.name for path in files}
            assert stat.S_IMODE(project.home.stat().st_mode) == 0o700
            for path in files:
                if path.suffix != ".lock":
                    assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", [".headway", "headway.toml"])
def test_a_project_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / ".headway").mkdir(mode=0o700)
    (tmp_path / "headway.toml").write_text("[tasks.route]\nreward = 'mine:score'\n")
    (tmp_path / "mine.py").write_text("def score(decision, signals): return 1.0\n")
    os.chown(tmp_path / name, 12345, 12345)
    with pytest.raises(InvalidSettings) as refused:
        Project(tmp_path, environ={})
    assert refused.value.code == "foreign_owner"
    Project(tmp_path, environ={"HEADWAY_FOREIGN_OWNER": "allow"}).close()
    Project(tmp_path, environ={"SUDO_UID": "12345"}).close()


def test_a_project_of_ones_own_is_opened(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("")
    try:
        Project(tmp_path, environ={}).close()
    except HeadwayError as error:
        pytest.fail(str(error))
