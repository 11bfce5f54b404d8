"""`headway learn --world …`: practice, its bundle, its plot, resuming, and errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.kits.practice.policy import ActorCritic
from tests.cli.terminal import headway as run
from tests.families import build

pytest.importorskip("gymnasium", reason="gymnasium is in the extra 'worlds'")


def asked(folder: Path, *words: str, code: int = 0) -> Any:
    done = run("-C", str(folder), "learn", *words, "--json")
    assert done.code == code, done.out + done.err
    return done.json


def test_practice_gives_a_bundle_a_curve_and_a_plot_and_can_resume(tmp_path: Path) -> None:
    done = asked(tmp_path, "--world", "cartpole", "--steps", "4096", "--seed", "3", "--target", "nan")
    assert done["world"] == "CartPole-v1"
    assert done["steps"] >= 4096
    assert done["target"] is None
    assert len(done["curve"]) >= 1
    assert Path(done["plot"]).stat().st_size > 10_000
    with headway.open(tmp_path) as project:
        digest = project.registry.find(done["policy"])
        header, tensors = project.registry.load(digest, task="cartpole")
        policy = build(header.family, header.knobs, tensors, header.extra)
        assert isinstance(policy, ActorCritic)
        assert policy.arms.names == ("0", "1")
        assert header.trained_on["world"] == "CartPole-v1"
        assert done["policy"] in [entry.policy for entry in project.ledger.entries("cartpole")]
    again = asked(tmp_path, "--world", "cartpole", "--steps", "8192", "--seed", "3", "--target", "nan", "--resume")
    assert again["resumed_from"] == done["steps"]
    assert again["steps"] >= 8192
    assert again["curve"][: len(done["curve"])] == done["curve"]
    other = asked(
        tmp_path, "--world", "cartpole", "--steps", "99999", "--seed", "3", "--resume", "--set", "norm=true", code=1
    )
    assert other["error"]["code"] == "other_run"
    (tmp_path / ".headway" / "work" / "cartpole-3" / "run.json").write_text("{}", "utf-8")
    damaged = asked(tmp_path, "--world", "cartpole", "--steps", "99999", "--seed", "3", "--resume", code=1)
    assert damaged["error"]["code"] == "damaged_snapshot"


def test_the_same_seed_gives_the_same_policy(tmp_path: Path) -> None:
    one, other = (
        asked(folder, "--world", "cartpole", "--steps", "2048", "--seed", "5")
        for folder in (_made(tmp_path / "one"), _made(tmp_path / "other"))
    )
    assert one["policy"] == other["policy"]
    assert one["curve"] == other["curve"]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_continuous_actions_are_practised_too(tmp_path: Path) -> None:
    done = asked(tmp_path, "--world", "Pendulum-v1", "--steps", "2048", "--set", "horizon=64")
    assert done["task"] == "pendulum-v1"


OWN = """
import gymnasium as gym
import numpy as np

SPACES = {
    "Pairs-v0": gym.spaces.MultiDiscrete([3, 2]),
    "Numbers-v0": gym.spaces.Box(-2.0, 4.0, (2,), np.float32),
    "Named-v0": gym.spaces.Dict({"a": gym.spaces.Discrete(2)}),
}


class World(gym.Env):
    # Ten steps; what is paid is the action itself.
    def __init__(self, space):
        self.observation_space, self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32), SPACES[space]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), float(np.sum(action)), False, self.steps >= 10, {}


for name in SPACES:
    gym.register(name, entry_point=World, kwargs={"space": name})
"""


def test_a_custom_world_is_imported_from_the_project_folder_and_other_spaces_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gymnasium

    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setitem(sys.modules, "own_worlds", None)  # removed after the test
    del sys.modules["own_worlds"]
    (tmp_path / "own_worlds.py").write_text(OWN, "utf-8")
    (tmp_path / "broken_worlds.py").write_text("1 / 0\n", "utf-8")
    more = ("--steps", "4096", "--set", "rate=0.01", "--set", "horizon=32")
    pairs = asked(tmp_path, "--world", "own_worlds:Pairs-v0", *more)
    assert (pairs["world"], pairs["task"]) == ("own_worlds:Pairs-v0", "own_worlds-pairs-v0")
    assert pairs["mean_return"] == 30.0  # the best: 2 + 1 in each of ten steps
    with headway.open(tmp_path) as project:
        header, _ = project.registry.load(project.registry.find(pairs["policy"]), task=pairs["task"])
        assert (header.kind, header.extra["actions"]["sizes"]) == ("factored", [3, 2])
    numbers = asked(tmp_path, "--world", "own_worlds:Numbers-v0", *more)
    assert numbers["mean_return"] > 40.0  # at chance about 20, at most 80
    for name, code in (
        ("own_worlds:Named-v0", "bad_space"),
        ("own_worlds:Other-v0", "unknown_world"),
        ("broken_worlds:Id-v0", "bad_world"),
    ):
        assert asked(tmp_path, "--world", name, code=1)["error"]["code"] == code
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("--world", "cartpol"), "unknown_world", "cartpole"),
        (("--world", "nowhere.to.be.found:Id-v0"), "unknown_world", "module:Id"),
        (("--world", "cartpole", "--resume"), "nothing_to_resume", "--resume"),
        (("--world", "cartpole", "--set", "epoch=3"), "unknown_key", "epochs"),
        (("--world", "cartpole", "--check"), "nothing_named", "--check"),
        (("--world", "cartpole", "--family", "bandit"), "nothing_named", "--family"),
        (("--world", "cartpole", "--set", "rate=-1"), "bad_knob", "rates"),
        (("--world", "cartpole", "--device", "mps"), "bad_device", "cpu"),
    ],
)
def test_invalid_practice_is_refused(tmp_path: Path, words: tuple[str, ...], code: str, hint: str) -> None:
    done = asked(tmp_path, *words, code=1)
    assert done["error"]["code"] == code
    assert hint in done["error"]["hint"]


@pytest.mark.parametrize("words", [(), ("route", "--steps", "5"), ("route", "--target", "5")])
def test_a_task_or_a_world_is_required(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = asked(tmp_path, *words, code=2)
    assert done["error"]["code"] == "usage"
    assert "--world" in done["error"]["message"]


def test_the_package_gives_the_function_and_not_a_module_of_that_name() -> None:
    for before in ("", "import headway.kits.practice.run; "):
        script = f"{before}from headway.kits.practice import practise; print(callable(practise))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
