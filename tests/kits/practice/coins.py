"""A world of one toss, a policy that always takes one coin, and a project whose policies are proven there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from headway.encode.state import Features
from headway.kits.practice.fit import Practice
from headway.kits.practice.learner import fresh
from headway.kits.practice.run import publish_practised
from headway.nouns.kit import Catalogue, Kit
from headway.nouns.protocols import Learned
from headway.project import Project

__all__ = ["COINS", "coin_project", "publish"]

COINS = ("left", "right")
_KIT = Kit(name="coins", summary="A world of tests.", worlds={"coins": f"{__name__}:Coins"})
_SMALL = Practice(hidden=(4,), normalise_observations=False, normalise_rewards=False)


class Coins:
    """`count` tosses at once: coin k pays 1 with its chance, else `low`; `first` is added to it for who plays first."""

    def __init__(
        self,
        *,
        count: int,
        chances: tuple[float, ...] = (0.5, 0.5),
        low: float = 0.0,
        bounded: bool = True,
        first: float = 0.0,
    ) -> None:
        self.num_envs = count
        self.single_observation_space = SimpleNamespace(shape=(1,), dtype=np.dtype(np.float64))
        self.single_action_space = SimpleNamespace(n=2, start=0, shape=())
        self.metadata: dict[str, Any] = {"autoreset_mode": "SameStep"}
        self.action_names = COINS
        self._chances, self._low = np.array(chances), low
        if bounded:
            self.returns = (low, 1.0)
        self._rng = np.random.default_rng(0)
        self._first, self._resets = first, 0

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self._rng = np.random.default_rng(seed)
        self._resets += 1
        return self._seen(), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        luck = self._rng.random(self.num_envs)  # the same for both policies
        chances = self._chances + self._first * (self._resets == 1)
        won = np.where(np.asarray(actions) == 0, luck < chances[0], 1.0 - luck < chances[1])
        over, cut = np.ones(self.num_envs, dtype=np.bool_), np.zeros(self.num_envs, dtype=np.bool_)
        seen = self._seen()
        return seen, np.where(won, 1.0, self._low), over, cut, {"final_obs": seen, "_final_obs": over}

    def close(self) -> None:
        """Nothing to close."""

    def _seen(self) -> Any:
        return self._rng.random((self.num_envs, 1))


def coin_project(folder: Path, *, settings: str = "") -> Project:
    """A project with the task `coins`, in which a kit provides the world `coins`."""
    task = f'[tasks.coins]\nactions = ["left", "right"]\nfamily = "actor_critic"\n{settings}'
    (folder / "headway.toml").write_text(task, "utf-8")
    project = Project(folder)
    project.catalogue = Catalogue((*project.catalogue, _KIT))
    return project


def publish(project: Project, coin: str, *, task: str = "coins", **world: Any) -> str:
    """A candidate that takes this coin nearly always, as if it had practised in the world."""
    features = Features(vectors_of=(("observation", 1),), means=(0.0,), scales=(1.0,))
    policy = fresh(arms=COINS, features=features, seed=0, settings=_SMALL)
    tensors = {name: np.array(tensor) for name, tensor in policy.tensors.items() if not name.startswith("adam")}
    last = max(name for name in tensors if name.startswith("policy.b"))
    tensors[last] = np.array([9.0, -9.0] if coin == "left" else [-9.0, 9.0])
    learned = Learned(
        family="actor_critic",
        tensors=tensors,
        knobs={name: value for name, value in policy.knobs.items() if name != "adam_steps"},
        metrics={"steps": 1.0},
        baselines={},
        trained_on={"steps": 1, "episodes": 1},
        extra={"arms": list(COINS), "features": features.to_json(), "actions": policy.actions.to_json()},
    )
    published = publish_practised(
        project, learned, task=task, kind="choice", encoder="", world="coins", seed=0, fresh=world
    )
    return published.ref
