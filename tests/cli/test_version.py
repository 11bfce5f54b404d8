"""`headway --version` names the commit if it is known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import headway
from headway.cli.main import commit, version_line


def test_a_checkout_gets_the_commit_from_git(tmp_path: Path) -> None:
    package = tmp_path / "src" / "headway"
    package.mkdir(parents=True)
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "start"]):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True)
    assert re.fullmatch(r"[0-9a-f]{7,}", commit(package))
    assert version_line(package) == f"headway {headway.__version__} (commit {commit(package)})"


def test_an_installed_package_reads_the_commit_from_its_build_file(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "headway"
    package.mkdir(parents=True)
    (package / "commit.txt").write_text("0123abc\n", "utf-8")
    assert version_line(package) == f"headway {headway.__version__} (commit 0123abc)"


def test_without_either_only_the_version_is_shown(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "headway"
    package.mkdir(parents=True)
    assert version_line(package) == f"headway {headway.__version__}"


def test_a_broken_repository_is_not_an_error(tmp_path: Path) -> None:
    package = tmp_path / "src" / "headway"
    package.mkdir(parents=True)
    (tmp_path / ".git").write_text("gitdir: /nowhere\n", "utf-8")
    assert version_line(package) == f"headway {headway.__version__}"


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_a_build_contains_the_commit(root: Path, tmp_path: Path, target: str) -> None:
    source = tmp_path / "source"
    (source / "src" / "headway").mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src/headway/__init__.py"):
        (source / name).write_text((root / name).read_text("utf-8"), "utf-8")
    (source / "src/headway/serve/static").mkdir(parents=True)
    (source / "src/headway/serve/static/index.html").write_text("<!doctype html>\n", "utf-8")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tmp_path / "dist")],
        cwd=source,
        env={**os.environ, "HEADWAY_COMMIT": "0123abc"},
        capture_output=True,
        check=True,
    )
    (archive,) = (tmp_path / "dist").iterdir()
    if target == "wheel":
        with zipfile.ZipFile(archive) as wheel:
            assert wheel.read("headway/commit.txt") == b"0123abc\n"
    else:
        with tarfile.open(archive) as sdist:
            (name,) = [name for name in sdist.getnames() if name.endswith("src/headway/commit.txt")]
            file = sdist.extractfile(name)
            assert file is not None
            assert file.read() == b"0123abc\n"
