"""The wheel and the source archive: both carry the page, and the wheel alone is a working Headway."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from headway.serve.page import built
from tests.loop.running import up

USE = """
import headway
project = headway.open(seed=7)
for number in range(400):
    pick = project.decide("route", f"sum {number}", ["small", "large"])
    project.signal(pick.id, solved=float(pick.action == "large"))
"""
PAGE = "headway/serve/static/index.html"


def build(source: Path, target: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    return subprocess.run(command, cwd=source, env={**os.environ, **environ}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def packages(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive of this checkout."""
    if not built():
        pytest.skip("the page is not built: make page")
    folder = tmp_path_factory.mktemp("dist")
    for target in ("wheel", "sdist"):
        done = build(root, target, folder)
        assert done.returncode == 0, done.stderr
    return folder


def only(folder: Path, pattern: str) -> Path:
    (file,) = folder.glob(pattern)
    return file


def test_both_packages_carry_the_page_and_all_its_files(packages: Path) -> None:
    with zipfile.ZipFile(only(packages, "*.whl")) as wheel:
        names, page = wheel.namelist(), wheel.read(PAGE).decode()
    linked = re.findall(r'"\./?(assets/[^"]+)"|"/(assets/[^"]+)"', page)
    assert linked
    for asset in ("".join(pair) for pair in linked):
        assert f"headway/serve/static/{asset}" in names
    with tarfile.open(only(packages, "*.tar.gz")) as archive:
        files = archive.getnames()
    assert any(name.endswith(f"/src/{PAGE}") for name in files)
    assert not any("node_modules" in name for name in files)


def test_a_package_without_the_page_is_not_built_but_an_editable_install_is(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "src" / "headway").mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src/headway/__init__.py"):
        shutil.copy(root / name, source / name)
    for target in ("wheel", "sdist"):
        done = build(source, target, tmp_path / "dist")
        assert done.returncode != 0
        assert "make page" in done.stderr
    assert not (tmp_path / "dist").exists() or not list((tmp_path / "dist").iterdir())
    assert build(source, "wheel:editable", tmp_path / "dist").returncode == 0


def test_up_serves_the_page_from_the_wheel_alone_in_an_empty_folder(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(only(packages, "*.whl")) as wheel:
        wheel.extractall(tmp_path / "installed")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    monkeypatch.chdir(tmp_path)
    with up(tmp_path / "new", "--port", "0") as running:
        running.ready()
        status, page, _ = running.ask("GET", "/")
        assert status == 200
        text = page.decode()
        assert "without its page" not in text
        script = re.search(r'src="\.?(/assets/[^"]+)"', text)
        assert script is not None
        assert running.ask("GET", script[1])[0] == 200
        assert running.decide()
        assert running.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_a_new_environment_with_nothing_but_the_package_learns(packages: Path, tmp_path: Path, kind: str) -> None:
    """Installs from the package index that pip is set up with, as a user does."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, str(only(packages, kind))], check=True, cwd=tmp_path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"PATH": f"{environment / 'bin'}:/usr/bin:/bin"}

    def headway(*words: str) -> str:
        done = subprocess.run(["headway", *words], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert headway("--version").startswith("headway ")
    headway("init", "--task", "route", "--reward", "solved=1", "--actions", "small,large")
    program = [str(environment / "bin" / "python"), "-c", USE]
    subprocess.run(program, cwd=tmp_path, env=clean, check=True)
    assert "bandit@" in headway("learn", "route")
    assert "bandit@" in headway("status")
