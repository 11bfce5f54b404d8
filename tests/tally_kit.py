"""A kit of the tests: the family `tally` for factored tasks, whose policies remember a fading sum of what they saw.

    def test_…(tally_site: Path) -> None:          # installed: a package that offers the kit `tally`
    (folder / "headway.toml").write_text(PLAN)     # a factored task
    learned(project, weight=2.0)                   # a policy of the family decides; its reference

Its arithmetic is elementwise, so a row has the same bits in every batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.nouns.factored import Factored, FactoredOpinions, Head, Observations
from headway.nouns.kit import Family, Kit, catalogue
from headway.nouns.protocols import Learned

KIT = Kit(
    name="tally",
    summary="A kit of the tests.",
    families={
        "tally": Family(
            kinds=("factored",),
            policy="tests.tally_kit:read",
            learner="tests.tally_kit:TallyLearner",
            evidence=("world",),
        )
    },
)
FEATURES = 2
ROOT = Path(__file__).resolve().parent.parent
PLAN = """
[kits]
use = ["tally"]
[tasks.plan]
kind = "factored"
heads = { op = ["ANSWER", "RETRY", "STOP"], model = ["small", "large"], effort = ["low", "medium", "high"] }
needs = { STOP = [], RETRY = ["model"] }
masks = { model = { RETRY = ["large"] } }
reward = { solved = 1.0 }
"""
STATE = {"observation": [0.5, -1.25], "indices": [2]}


@dataclass(frozen=True, slots=True)
class Tally:
    """Scores that depend on the memory: half of the last one, plus what is seen now."""

    space: Factored
    weight: float
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
        return self.weight * (math.sin(angle) * memory[:, 0] + math.cos(angle) * memory[:, 1])


def read(knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Any) -> Tally:
    del tensors, encoder
    heads = tuple(Head(name, tuple(choices)) for name, choices in extra["heads"])
    return Tally(Factored(heads, {choice: tuple(used) for choice, used in extra["needs"].items()}), knobs["weight"])


class TallyLearner:
    """It learns from no log."""

    def __init__(self, encoder: Any) -> None:
        del encoder

    def learn(self, experience: Any, knobs: Any, seed: int, progress: Any = None) -> Learned:
        raise AssertionError("the family learns from no log")


def publish(project: Any, task: str, *, weight: float = 1.0, heads: Any = None) -> str:
    """A policy of the family as a candidate; its reference."""
    from headway.project import publish_policy

    settings = project.settings.task(task)
    learned = Learned(
        family="tally",
        tensors={"weight": np.array([weight])},
        knobs={"weight": weight},
        metrics={},
        baselines={},
        trained_on={},
        extra={
            "heads": [[name, list(choices)] for name, choices in heads or settings.heads],
            "needs": {choice: list(used) for choice, used in settings.needs.items()},
        },
    )
    return publish_policy(project, learned, task=task, kind="factored", encoder="", seed=0, why="made by a test").ref


def learned(project: Any, weight: float = 1.0) -> str:
    """Make a policy of the family current, without a proof; its reference."""
    ref = publish(project, "plan", weight=weight)
    project.rollback("plan", to=ref, why="by a test")
    return ref


@pytest.fixture
def tally_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where the kit is installed, for this process and those that it starts."""
    site = tmp_path / "site"
    metadata = site / "tally_kit-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tally-kit\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[headway.kits]\ntally = tests.tally_kit:KIT\n", "utf-8")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")
    catalogue.cache_clear()
    yield site
    catalogue.cache_clear()
