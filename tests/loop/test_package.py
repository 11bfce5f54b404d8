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
from tests.conftest import ROOT
from tests.loop.adder import adder
from tests.loop.running import Up, until, up

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


def has_page(running: Up) -> bool:
    """Whether the server shows its page, with the script that the page loads."""
    status, page, _ = running.ask("GET", "/")
    script = re.search(r'src="\.?(/assets/[^"]+)"', page.decode())
    return status == 200 and script is not None and running.ask("GET", script[1])[0] == 200


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
        assert has_page(running)
        assert running.decide()
        assert running.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_a_new_environment_with_nothing_but_the_package_does_the_first_hour(
    packages: Path, tmp_path: Path, kind: str
) -> None:
    """Installs from the package index that pip is set up with, as a user does; no Node, no checkout, an empty home."""
    environment, home, folder = (tmp_path / name for name in ("environment", "home", "folder"))
    home.mkdir()
    folder.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"PATH": str(environment / "bin"), "HOME": str(home)}
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, str(only(packages, kind))], check=True, cwd=tmp_path, env=clean)

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("headway", "--version").startswith("headway ")
    alone = {"python": python, "cwd": folder, "env": clean}
    with up(folder, program=("-m", "headway", "up", "--demo", "--port", "0"), **alone) as demo:
        demo.ready()
        demo.folder = folder / "headway-demo"
        assert has_page(demo)
        until(lambda: demo.ask("GET", "/v1/tasks")[1], "the tasks of the demo")
        assert demo.stop() == 0
    traffic = shutil.copy(ROOT / "examples" / "first_hour" / "traffic.py", tmp_path / "traffic.py")
    with adder() as url:
        models = [word for name in ("small", "big") for word in ("--upstream", name, url, f"{name}-model")]
        run("headway", "init", "--task", "route", "--reward", "solved=1", *models, "--price", "big=0.15/0.60")
        with up(folder, "--port", "0", **alone) as running:
            running.ready()
            assert has_page(running)
            assert re.search(r"\d+ of 300 sums were right", run("python", str(traffic), "300"))
            assert "bandit@" in run("headway", "learn", "route")
            status = run("headway", "status")
            assert "bandit@" in status
            assert "of the quality of big" in status
            assert running.stop() == 0
