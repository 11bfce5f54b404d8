"""A project in one file: consistent while others write, whole or absent, never over something else."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import headway as package
from headway.kits.backup.archive import read_backup
from tests.cli.terminal import headway


def test_a_restored_project_decides_as_before(project: Path, tmp_path: Path) -> None:
    (project / ".headway" / "token").write_text("hw_secret\n", "ascii")
    done = headway("-C", project, "backup", tmp_path / "one.backup")
    assert done.code == 0, done.err
    assert (tmp_path / "one.backup").stat().st_mode & 0o077 == 0
    restored = tmp_path / "restored"
    done = headway("-C", restored, "restore", tmp_path / "one.backup")
    assert done.code == 0, done.err
    assert "1,500 decisions and 1 policy" in done.out
    assert not (restored / ".headway" / "token").exists()  # a secret of the machine
    with package.open(project) as before, package.open(restored) as after:
        assert after.status().tasks[0].current == before.status().tasks[0].current != "uniform@0"
        pick = before.query.latest("route", 1)[0]
        assert after.explain(pick.id) == before.explain(pick.id)
        assert after.replay(pick.id).exact


def test_nothing_is_overwritten(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.backup"
    file.write_text("mine", "utf-8")
    assert headway("-C", project, "backup", file, "--json").error["code"] == "file_exists"
    assert file.read_text("utf-8") == "mine"
    file.unlink()
    assert headway("-C", project, "backup", file).code == 0
    assert headway("-C", project, "restore", file, "--json").error["code"] == "project_exists"
    other = tmp_path / "other"
    other.mkdir()
    (other / "headway.toml").write_text("[tasks.mine]\n", "utf-8")
    assert headway("-C", other, "restore", file, "--json").error["code"] == "file_exists"
    assert not (other / ".headway").exists()
    assert [path.name for path in other.iterdir()] == ["headway.toml"]


@pytest.mark.parametrize("harm", ["cut", "changed", "foreign", "outside"])
def test_a_damaged_backup_restores_nothing(project: Path, tmp_path: Path, harm: str) -> None:
    file = tmp_path / "one.backup"
    assert headway("-C", project, "backup", file).code == 0
    body = bytearray(gzip.decompress(file.read_bytes()))
    if harm == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif harm == "changed":
        body[2_000] ^= 1
        file.write_bytes(gzip.compress(bytes(body), 1))
    elif harm == "foreign":
        file.write_text("not an archive", "utf-8")
    else:
        file.write_bytes(gzip.compress(bytes(body.replace(b".headway/headway.db", b"../../x/headway.db")), 1))
    assert headway("-C", tmp_path / "restored", "restore", file, "--json").error["code"] == "backup_damaged"
    assert list((tmp_path / "restored").iterdir()) == []


def test_a_backup_beside_a_writer_holds_whole_decisions(tmp_path: Path) -> None:
    folder = tmp_path / "busy"
    stop = threading.Event()
    with package.open(folder, environ={}) as project:
        project.decide("route", "first", ["small", "large"])

        def write() -> None:
            while not stop.is_set():
                pick = project.decide("route", "busy", ["small", "large"])
                project.signal(pick.id, reward=1.0)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            done = headway("-C", folder, "backup", tmp_path / "busy.backup")
        finally:
            stop.set()
            writer.join()
    assert done.code == 0, done.err
    read_backup(tmp_path / "busy.backup", tmp_path / "restored")
    with package.open(tmp_path / "restored", environ={}) as restored:
        assert restored.damage() is None
        assert restored.query.counts("route").decisions >= 1


def test_a_killed_restore_leaves_no_project_and_the_next_one_works(project: Path, tmp_path: Path) -> None:
    file, target = tmp_path / "one.backup", tmp_path / "restored"
    assert headway("-C", project, "backup", file).code == 0
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nimport headway.kits.backup.archive as backup\n"
        "backup._count = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"  # after extracting, before the rename
        "backup.read_backup(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(file), str(target)], env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (target / ".headway").exists()
    done = headway("-C", target, "restore", file)
    assert done.code == 0, done.err
    assert sorted(path.name for path in target.iterdir()) == [".headway", "headway.toml"]
