"""A world that remembers: who plays an episode first has an advantage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from _situations.client import Client
from _situations.trial import Ending, settle_it
from headway.encode.state import Features
from headway.kits.practice.fit import Practice
from headway.kits.practice.learner import fresh
from headway.kits.practice.run import publish_practised
from headway.nouns.errors import HeadwayError
from headway.nouns.kit import Catalogue, Kit
from headway.nouns.protocols import Learned

COINS = ("left", "right")
SETTINGS = 'actions = ["left", "right"]\nfamily = "actor_critic"\n'
ADVANTAGE = 0.2  # in chance, for the first one that plays a copy


class Coins:
    """`count` tosses of one of two coins."""

    def __init__(self, *, count: int, left: float, right: float) -> None:
        self.num_envs = count
        self.single_observation_space = SimpleNamespace(shape=(1,), dtype=np.dtype(np.float64))
        self.single_action_space = SimpleNamespace(n=2, start=0, shape=())
        self.metadata: dict[str, Any] = {"autoreset_mode": "SameStep"}
        self.action_names, self.returns = COINS, (0.0, 1.0)
        self._chances, self._resets = np.array([left, right]), 0

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        self._rng = np.random.default_rng(seed)
        self._resets += 1
        return self._rng.random((self.num_envs, 1)), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        chances = self._chances[np.asarray(actions)] + ADVANTAGE * (self._resets == 1)
        won = (self._rng.random(self.num_envs) < chances).astype(float)
        over = np.ones(self.num_envs, dtype=np.bool_)
        seen = self._rng.random((self.num_envs, 1))
        return seen, won, over, ~over, {"final_obs": seen, "_final_obs": over}

    def close(self) -> None:
        """Nothing to close."""


def played(seed: int, left: float, right: float) -> Ending:
    """A policy that takes the left coin, proven against one of the two by chance."""
    ending = Ending()
    with Client(SETTINGS, seed=seed, task="coins") as client:
        kit = Kit(name="coins", summary="A world.", worlds={"coins": f"{__name__}:Coins"})
        client.project.catalogue = Catalogue((*client.project.catalogue, kit))
        features = Features(vectors_of=(("observation", 1),), means=(0.0,), scales=(1.0,))
        small = Practice(hidden=(4,), normalise_observations=False, normalise_rewards=False)
        policy = fresh(arms=COINS, features=features, seed=seed, settings=small)
        tensors = {name: np.array(tensor) for name, tensor in policy.tensors.items() if not name.startswith("adam")}
        tensors[max(name for name in tensors if name.startswith("policy.b"))] = np.array([9.0, -9.0])
        learned = Learned(
            family="actor_critic",
            tensors=tensors,
            knobs={name: value for name, value in policy.knobs.items() if name != "adam_steps"},
            metrics={"steps": 1.0},
            baselines={},
            trained_on={"steps": 1, "episodes": 1},
            extra={"arms": list(COINS), "features": features.to_json(), "actions": policy.actions.to_json()},
        )
        candidate = publish_practised(
            client.project, learned, task="coins", kind="choice", encoder="", world="coins", seed=seed,
            fresh={"left": left, "right": right},
        ).ref  # fmt: skip
        ending.looks = 1
        try:
            verdict = client.project.prove(candidate, task="coins")
        except HeadwayError as error:
            ending.state, ending.reason, ending.said = "error", error.code, error.message
            return ending
        ending.decisions = 0 if verdict.evidence is None else verdict.evidence.n
        settle_it(client, candidate, verdict, ending, uplift=(left - right) / 2.0)
    return ending


def first_player(seed: int) -> Ending:
    """Both coins pay alike."""
    return played(seed, 0.5, 0.5)


def first_player_and_better(seed: int) -> Ending:
    """The left coin pays more."""
    return played(seed, 0.8, 0.2)
