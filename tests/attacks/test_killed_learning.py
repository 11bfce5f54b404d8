"""Thirty kills of a training of each family that keeps unfinished work: it ends with the policy of a quiet one."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.project import Project
from tests.attacks.test_kills import KILLS
from tests.cli.terminal import headway

pytest.importorskip("torch")
pytest.importorskip("gymnasium", reason="gymnasium is in the extra 'worlds'")
from headway.kits.grow.learner import practise

PUBLISHING = 8  # of the kills: while the bundle is written
CHILD = """
import importlib, os, signal, sys

module, deadly = sys.argv[1], int(sys.argv[2])
if module:  # its snapshots are a minute or 20 s apart, longer than this training
    importlib.import_module(module)._EVERY_S = 0.0
seen = 0


def hook(event, arguments):
    global seen
    if event in ("open", "os.mkdir", "os.rename") and f"{os.sep}policies{os.sep}" in f"{arguments[0]}{os.sep}":
        seen += 1
        if seen == deadly:
            os.kill(os.getpid(), signal.SIGKILL)


if deadly:
    sys.addaudithook(hook)
from headway.cli.main import run

sys.exit(run(sys.argv[3:]))
"""


@dataclass(frozen=True, slots=True)
class Training:
    """A training by the command line."""

    task: str
    toml: str
    words: tuple[str, ...]
    saved: str  # the snapshots, in .headway/work
    module: str = ""  # says how often it saves
    verb: tuple[str, ...] = ("learn",)

    def made(self, folder: Path) -> Path:
        """A project that is ready to learn."""
        folder.mkdir()
        (folder / "headway.toml").write_text(self.toml, "utf-8")
        if self.task == "next-action":
            headway("-C", folder, "data", "synth", self.task, "--world", "projects", "--rows", "600", "--seed", "42")
        return folder

    def start(self, folder: Path, *, resume: bool, deadly: int = 0) -> subprocess.Popen[bytes]:
        """Start it, an hour after the last time."""
        for half in (folder / ".headway" / "policies").glob(".new-*"):
            os.utime(half, (0, 0))
        words = ("-C", str(folder), *self.verb, self.task, *self.words, *(["--resume"] if resume else []))
        command = [sys.executable, "-c", CHILD, self.module, str(deadly), *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def snapshots(self, folder: Path) -> set[tuple[str, int]]:
        found = set()
        for path in (folder / ".headway" / "work").rglob(self.saved):
            with suppress(OSError):  # a newer one has just replaced it
                found.add((path.name, path.stat().st_mtime_ns))
        return found

    def finish(self, folder: Path, *, resume: bool) -> str:
        """Learn to the end; the hash of the candidate."""
        run = self.start(folder, resume=resume)
        _, said = run.communicate(timeout=300)
        assert run.returncode == 0, said
        return self.candidate(folder)

    def candidate(self, folder: Path) -> str:
        """The hash of the one candidate in an intact store with one bundle, which is whole."""
        with closing(sqlite3.connect(folder / ".headway" / "headway.db")) as connection:
            assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        with Project(folder) as project:
            (entry,) = project.ledger.entries(self.task)
            assert entry.kind == "candidate"
            project.registry.load(entry.policy_hash, task=self.task)  # compares the content with its hash
            assert [path.name for path in (project.home / "policies").iterdir()] == [entry.policy_hash]
        return entry.policy_hash


RANKER = Training(
    "next-action",
    '[tasks.next-action]\nkind = "ranking"\nreward = { composite_delta = 1.0 }\n',
    ("--device", "cpu", "--set", "architecture=small", "--set", "epochs=60"),
    "ranker-small-*.safetensors",
)
ACTOR_CRITIC = Training(
    "pole",
    '[tasks.pole]\nactions = ["0", "1"]\nfamily = "actor_critic"\n',
    ("--world", "cartpole", "--steps", "65536", "--seed", "3", "--target", "nan"),
    "run.json",  # names the weights, which are written before it
    "headway.kits.practice.run",
)
RECURRENT = Training(
    "masked",
    '[tasks.masked]\nkind = "factored"\nworld = "masked_cartpole"\n',
    (
        *("--world", "masked_cartpole", "--family", "recurrent", "--steps", "6144", "--seed", "1", "--target", "nan"),
        *(part for knob in ("envs=4", "horizon=16", "width=16", "confirm=4", "episodes=4") for part in ("--set", knob)),
    ),
    "run.json",
    "headway.kits.grow.learner",
)
GROW = Training(
    "growth",
    '[tasks.growth]\nkind = "factored"\nworld = "morph"\n',
    (
        "--steps", "480", "--seed", "1",
        *(
            part
            for knob in ("envs=4", "horizon=10", "width=16", "episodes=2", "confirm=2", "evaluate_every=240")
            for part in ("--set", knob)
        ),
    ),
    "run.json",
    "headway.kits.grow.learner",
    ("grow", "train"),
)  # fmt: skip


def metrics(folder: Path) -> list[dict[str, object]]:
    """The lines of a run's metrics, but for their times."""
    (path,) = (folder / ".headway" / "work").glob("*-recurrent/metrics.jsonl")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def killed(training: Training, folder: Path, kills: int, *, resume: bool, whole: str = "") -> int:
    """Kill a training so often, the last times while it publishes; how often it went on from a snapshot.

    One that ended all the same is compared with `whole`, and starts again in a fresh project.
    """
    fresh = shutil.copytree(folder, folder.with_name("fresh"))
    rng, count, resumed = random.Random(23), 0, 0
    publishing = kills * PUBLISHING // KILLS
    while count < kills:
        before = training.snapshots(folder)
        deadly = rng.randint(1, 6) if count >= kills - publishing else 0
        run = training.start(folder, resume=resume and bool(before), deadly=deadly)
        try:
            if not deadly and rng.random() < 0.7:
                while run.poll() is None and training.snapshots(folder) <= before:
                    time.sleep(0.005)
                time.sleep(0.1 * rng.random())
            elif not deadly:  # also while it starts and reads
                with suppress(subprocess.TimeoutExpired):
                    run.wait(2.0 * rng.random())
            if not deadly:
                run.kill()
            _, said = run.communicate(timeout=300)
        finally:
            run.kill()
        assert run.returncode in (0, -signal.SIGKILL), said
        count += run.returncode != 0
        resumed += run.returncode != 0 and resume and bool(before)
        with Project(folder) as project:
            ended = bool(list(project.ledger.entries(training.task)))
        if ended:
            assert not whole or training.candidate(folder) == whole
            shutil.rmtree(folder)
            shutil.copytree(fresh, folder)
        elif deadly and resume:
            assert training.snapshots(folder), "they are deleted once the policy is published"
    return resumed


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("training", [RANKER, RECURRENT, GROW], ids=["ranker", "recurrent", "grow"])
def test_thirty_kills_of_a_training_that_is_resumed_end_with_the_same_policy(
    tmp_path: Path, training: Training
) -> None:
    folder = training.made(tmp_path / "killed")
    shutil.copytree(folder, tmp_path / "whole")  # the sample world's rows have the time at which they were made
    whole = training.finish(tmp_path / "whole", resume=False)
    assert killed(training, folder, KILLS, resume=True, whole=whole) > KILLS // 2
    assert training.finish(folder, resume=bool(training.snapshots(folder))) == whole
    if training is not RANKER:
        assert metrics(folder) == metrics(tmp_path / "whole")


def test_growing_that_is_killed_within_an_update_resumes_to_the_same_policy_and_metrics(tmp_path: Path) -> None:
    how: Any = {"seed": 1, "steps": 100, "settings": {"mode": "simplified", "source": "digits"}}
    knobs: Any = {"envs": 4, "horizon": 5, "width": 16, "episodes": 1, "confirm": 1, "evaluate_every": 240}
    with Project(GROW.made(tmp_path / "whole")) as project:
        whole = practise(project, "morph", task="growth", **how, **knobs)
    folder = GROW.made(tmp_path / "killed")
    words = ("--steps", "100", "--seed", "1", *(f"--set={name}={value}" for name, value in knobs.items()))
    run = replace(GROW, words=words).start(folder, resume=False)
    while run.poll() is None and not GROW.snapshots(folder):
        time.sleep(0.005)
    run.kill()
    run.communicate(timeout=60)
    assert run.returncode == -signal.SIGKILL, "it was killed before the last of five updates"
    (path,) = (folder / ".headway" / "work").glob("*-recurrent/metrics.jsonl")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"update": 2, "steps"')  # the kernel may keep any beginning of a line
    with Project(folder) as project:
        again = practise(project, "morph", task="growth", resume=True, **how, **knobs)
    assert 0 < again.about.resumed_from < 100
    assert again.learned.tensors.keys() == whole.learned.tensors.keys()
    for name, tensor in whole.learned.tensors.items():
        assert np.array_equal(again.learned.tensors[name], tensor), name
    assert metrics(folder) == metrics(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thirty_kills_of_practice_that_starts_again_end_with_the_same_policy(tmp_path: Path) -> None:
    whole = ACTOR_CRITIC.finish(ACTOR_CRITIC.made(tmp_path / "whole"), resume=False)
    folder = ACTOR_CRITIC.made(tmp_path / "killed")
    killed(ACTOR_CRITIC, folder, KILLS, resume=False, whole=whole)
    assert ACTOR_CRITIC.finish(folder, resume=False) == whole


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thirty_kills_of_practice_that_is_resumed_leave_whole_snapshots(tmp_path: Path) -> None:
    """Resumed practice begins new episodes: it equals the same snapshot continued elsewhere, not an unbroken run."""
    folder = ACTOR_CRITIC.made(tmp_path / "killed")
    assert killed(ACTOR_CRITIC, folder, KILLS, resume=True) > KILLS // 2
    shutil.copytree(folder, tmp_path / "copy")
    resume = bool(ACTOR_CRITIC.snapshots(folder))
    assert ACTOR_CRITIC.finish(folder, resume=resume) == ACTOR_CRITIC.finish(tmp_path / "copy", resume=resume)
