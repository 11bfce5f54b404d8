"""A kit of the tests: the family `tally` for factored tasks, whose policies remember a fading sum of what they saw.

    def test_…(tally_site: Path) -> None:          # installed: a package that offers the kit `tally`
    (folder / "headway.toml").write_text(PLAN)     # a factored task
    learned(project, weight=2.0)                   # a policy of the family decides; its reference

Its arithmetic is elementwise, so a row has the same bits in every batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headway.kits.grow import Factored, FactoredOpinions, Head, Observations
from headway.nouns.kit import Family, Kit, catalogue
from headway.nouns.protocols import Learned

KIT = Kit(
    name="tally",
    summary="A kit of the tests.",
    needs=("grow",),
    families={
        "tally": Family(
            kinds=("factored",),
            policy=f"{__name__}:read",
            learner=f"{__name__}:TallyLearner",
            evidence=("world",),
        )
    },
    worlds={"countdown": f"{__name__}:countdown"},
    spaces={"countdown": f"{__name__}:COUNTDOWN"},
)
FEATURES = 2
ROOT = Path(__file__).resolve().parents[4]
PLAN = """
[kits]
use = ["tally"]
[tasks.plan]
kind = "factored"
heads = { op = ["ANSWER", "RETRY", "STOP"], model = ["small", "large"], effort = ["low", "medium", "high"] }
needs = { STOP = [], RETRY = ["model"] }
masks = { model = { RETRY = ["large"] } }
reward = { solved = 1.0 }
[tasks.count]
kind = "factored"
heads = "countdown"
world = "countdown"
"""
COUNTDOWN = Factored((Head("op", ("hold", "jump")), Head("far", ("1", "2", "3"))), {"hold": ()}, ("far",))
STATE = {"observation": [0.5, -1.25], "indices": [2]}


@dataclass(frozen=True, slots=True)
class Tally:
    """Scores that depend on the memory: half of the last one, plus what is seen now."""

    space: Factored
    weight: float
    prefer: Mapping[str, int] = field(default_factory=dict)  # head → the choice that it mostly takes
    family: str = "tally"
    memory_width: int = 2
    features: int = FEATURES
    indices: tuple[int, ...] = (3,)

    def scores(self, observations: Observations, memory: Any) -> FactoredOpinions:
        memory = memory * 0.5 + observations.features + observations.indices.astype(np.float64)
        scores = {
            head.name: np.stack([self._score(place, choice, memory) for choice in range(len(head.choices))], axis=1)
            for place, head in enumerate(self.space.heads)
        }
        return FactoredOpinions(scores, memory, memory[:, 0])

    def _score(self, place: int, choice: int, memory: Any) -> Any:
        angle = place + 1.7 * choice
        liked = 8.0 * (self.prefer.get(self.space.heads[place].name) == choice)
        return liked + self.weight * (math.sin(angle) * memory[:, 0] + math.cos(angle) * memory[:, 1])


def read(knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Any) -> Tally:
    del tensors, encoder
    heads = tuple(Head(name, tuple(choices)) for name, choices in extra["heads"])
    space = Factored(heads, {choice: tuple(used) for choice, used in extra["needs"].items()})
    return Tally(space, knobs["weight"], extra["prefer"])


class Countdown:
    """Copies that count down from a random number; `wrong` names what is broken."""

    space = COUNTDOWN
    features, indices = 2, (3,)
    returns = (-9.0, 0.0)

    def __init__(self, count: int, wrong: str = "") -> None:
        self.count, self.wrong = count, wrong
        self.rng = np.random.default_rng(0)

    def reset(self, seed: int) -> tuple[Observations, dict[str, Any]]:
        self.rng = np.random.default_rng(0 if self.wrong == "seed" else seed)
        self.left = self.rng.integers(3, 9, size=self.count)
        return self._seen(), self._masks()

    def step(self, actions: Any) -> Any:
        self.left = self.left - 1 - np.where(actions[:, 0] == 1, actions[:, 1], 0)
        ended = self.left <= 0
        final = Observations(self._seen().features[ended], self._seen().indices[ended])
        self.left = np.where(ended, self.rng.integers(3, 9, size=self.count), self.left)
        rewards = np.full(self.count, np.nan) if self.wrong == "reward" else -np.ones(self.count)
        info = {"final": final if self.wrong != "final" else self._seen()}
        truncated = np.zeros(self.count, dtype=bool)
        return SimpleNamespace(
            observations=self._seen(), masks=self._masks(), rewards=rewards, terminated=ended, truncated=truncated,
            info=info,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        return {"left": self.left.copy(), "rng": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> tuple[Observations, dict[str, Any]]:
        self.left = state["left"].copy()
        if self.wrong != "restore":
            self.rng.bit_generator.state = state["rng"]
        return self._seen(), self._masks()

    def close(self) -> None: ...

    def _seen(self) -> Observations:
        return Observations(np.stack([self.left, self.left % 2], axis=1) / 8.0, self.left[:, None] % 3)

    def _masks(self) -> dict[str, Any]:
        far = np.ones((self.count, 2, 3), dtype=bool)
        far[:, 1, 2] = self.left > 3
        if self.wrong == "masks":
            far[:, 1] = False
        return {"far": far}


def countdown(*, count: int, wrong: str = "") -> Countdown:
    return Countdown(count, wrong)


class TallyLearner:
    """It learns from no log."""

    def __init__(self, encoder: Any) -> None:
        del encoder

    def learn(self, experience: Any, knobs: Any, seed: int, progress: Any = None) -> Learned:
        raise AssertionError("the family learns from no log")


def publish(project: Any, task: str, *, weight: float = 1.0, heads: Any = None, **prefer: int) -> str:
    """A policy of the family as a candidate; its reference."""

    settings = project.settings.task(task)
    learned = Learned(
        family="tally",
        tensors={"weight": np.array([weight])},
        knobs={"weight": weight},
        metrics={},
        baselines={},
        trained_on={"world": "countdown", "fresh": {}},
        extra={
            "heads": [[name, list(choices)] for name, choices in heads or settings.own.heads],
            "needs": {choice: list(used) for choice, used in settings.own.needs.items()},
            "prefer": prefer,
        },
    )
    return project.publish(learned, task=task, kind="factored", encoder="", seed=0, why="made by a test").ref


def learned(project: Any, weight: float = 1.0) -> str:
    """Make a policy of the family current, without a proof; its reference."""
    ref = publish(project, "plan", weight=weight)
    project.rollback("plan", to=ref, why="by a test")
    return ref


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """The kit as an installed package, for this process and those that it starts."""
    metadata = folder / "tally_kit-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tally-kit\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text(f"[headway.kits]\ntally = {__name__}:KIT\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        catalogue.cache_clear()
        yield
    catalogue.cache_clear()


@pytest.fixture
def tally_site(tmp_path: Path) -> Iterator[Path]:
    """The kit is installed during a test."""
    with installed(tmp_path / "site"):
        yield tmp_path / "site"
