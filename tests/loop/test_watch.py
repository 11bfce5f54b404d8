"""`headway watch` as a process: once, stopped, killed during its work, and as a service."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import headway
from headway.loop import service
from headway.observe.jobs import Jobs
from tests.loop.conftest import ASK, AUTO, play
from tests.loop.running import until


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headway", "-C", str(folder), "watch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, timeout=100)


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headway", "-C", str(folder), "watch"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_once_does_the_due_work_and_prints_it(tmp_path):
    (tmp_path / "headway.toml").write_text(AUTO, "utf-8")
    play(tmp_path, 1500)
    done = run(tmp_path, "--once", "--json")
    assert done.returncode == 0, done.stderr
    (task,) = json.loads(done.stdout)["tasks"]
    assert task["done"]["promoted"] == task["done"]["learned"]
    assert task["done"]["verdict"] == "pass"
    again = run(tmp_path, "--once")
    assert "Next: headway" in again.stdout


def test_once_in_an_empty_folder_has_nothing_to_do(tmp_path):
    done = run(tmp_path, "--once")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Nothing is due.")


def test_a_closed_window_postpones_work_unless_now_is_set(tmp_path):
    from datetime import UTC, datetime

    hour = datetime.now(UTC).astimezone().hour
    window = f'"{(hour + 3) % 24:02}:00-{(hour + 4) % 24:02}:00"'
    (tmp_path / "headway.toml").write_text(f"{ASK}[watch]\nwindow = {window}\n", "utf-8")
    play(tmp_path, 60)
    assert "not now: outside the window" in run(tmp_path, "--once").stdout
    assert "Learned bandit@" in run(tmp_path, "--once", "--now").stdout


def test_a_second_watch_is_refused(tmp_path):
    (tmp_path / "headway.toml").write_text(ASK, "utf-8")
    first = start(tmp_path)
    try:
        assert first.stdout is not None
        assert first.stdout.readline().startswith(b"Watching ")
        done = run(tmp_path, "--once")
        assert done.returncode == 1
        assert f"process {first.pid}" in done.stderr
    finally:
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=30) == 0
        assert first.stdout is not None
        first.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_during_the_work_stops_the_watch_and_the_next_start_continues(tmp_path, number):
    (tmp_path / "headway.toml").write_text(AUTO, "utf-8")
    play(tmp_path, 3000)
    watch = start(tmp_path)
    with headway.open(tmp_path, environ={}) as project:
        jobs = Jobs(project.database)
        until(lambda: [job for job in jobs.latest() if job.state == "running"], "a running cycle")
        watch.send_signal(number)
        assert watch.wait(timeout=60) == 0
        assert watch.stdout is not None
        watch.stdout.close()
        (job,) = jobs.latest()
        assert (job.state, job.result["error"]["code"]) == ("failed", "stopped")
        assert not [entry for entry in project.ledger.entries("route") if entry.kind == "promote"]
    assert run(tmp_path, "--once").returncode == 0
    with headway.open(tmp_path, environ={}) as project:
        assert [entry.kind for entry in project.ledger.entries("route")].count("promote") == 1


def kill_at_random(folder: Path, times: int, seed: int) -> None:
    """A cycle that is killed repeatedly still ends with exactly one promotion."""
    (folder / "headway.toml").write_text(AUTO, "utf-8")
    play(folder, 1500)
    rng = Random(seed)
    for _ in range(times):
        command = [sys.executable, "-m", "headway", "-C", str(folder), "watch", "--once"]
        watch = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            watch.wait(timeout=0.4 + rng.random() * 2.0)
        except subprocess.TimeoutExpired:
            os.kill(watch.pid, signal.SIGKILL)
            watch.wait()
    with headway.open(folder, environ={}) as project:
        # three kills in a row within a task's cycles make it wait; that is over by tomorrow
        for job in Jobs(project.database).latest(1000):
            assert job.state in ("failed", "done", "running")
    from headway.loop.watch import Watch
    from tests.loop.conftest import ROOMY

    with Watch(folder, environ={}, machine=lambda _: ROOMY, clock=lambda: 4e9) as watching:
        watching.check()
        project = watching.project
        kinds = [entry.kind for entry in project.ledger.entries("route")]
        assert kinds.count("promote") == 1
        entry = project.ledger.current("route")
        assert entry is not None
        assert project.servings.of(project.settings.task("route")).digest == entry.policy_hash
        assert len(list((project.home / "policies").iterdir())) == len(set(project.ledger.states("route"))), (
            "no bundle without a row, no row without a bundle"
        )


def test_a_watch_that_is_killed_at_random_promotes_once(tmp_path):
    kill_at_random(tmp_path, 3, seed=2)


# -- the service


def parsed(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return parser


def test_the_unit_runs_the_loop_of_this_folder(tmp_path):
    odd = tmp_path / 'a "b" 100% $HOME'
    odd.mkdir()
    unit = parsed(service.unit(odd, python="/usr/bin/python3"))
    start = unit["Service"]["ExecStart"]
    assert start.startswith('"/usr/bin/python3" -P -m headway -C "')
    assert start.endswith(" watch")
    assert r"a \"b\" 100%% $$HOME" in start
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Install"]["WantedBy"] == "default.target"


def test_units_of_different_folders_have_different_names(tmp_path):
    names = {service.unit_name(tmp_path / name) for name in ("demo", "other/demo", "Démo!", "demo/")}
    assert len(names) == 3
    assert all(name.startswith("headway-") and name.endswith(".service") for name in names)


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here: this machine does not run systemd")
    path = service.install(tmp_path, into=tmp_path / "units")
    command = ["systemd-analyze", "verify", "--user", str(path)]
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr


def test_install_shows_or_writes_the_unit(tmp_path):
    shown = run(tmp_path, "--install", "--dry-run")
    assert parsed(shown.stdout)["Service"]["ExecStart"].endswith("watch")
    folder = Path.home() / ".config" / "systemd" / "user"
    assert not (folder / service.unit_name(tmp_path)).exists()
    done = run(tmp_path, "--install")
    assert done.returncode == 0
    assert (folder / service.unit_name(tmp_path)).read_text("utf-8") == service.unit(tmp_path)
    assert f"enable --now {service.unit_name(tmp_path)}" in done.stdout
