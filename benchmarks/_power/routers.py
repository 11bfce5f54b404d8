"""Routers that learn while they choose, for the reward beside the loop's: Vowpal Wabbit and LiteLLM's adaptive router.

LiteLLM's router is played by the published functions of its bandit (its priors for equal models, its choice, its
update). It is told every outcome as it is, which is more than its detectors of satisfaction and failure would see.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from _power.world import LARGE, SMALL, World

__all__ = ["ROUTERS", "LiteLlmRouter", "RewardRouter", "VowpalRouter", "available", "play"]

ARMS = (SMALL, LARGE)


class RewardRouter(Protocol):
    """Chooses an arm and learns from its outcome."""

    def choose(self) -> str: ...

    def learn(self, arm: str, reward: float) -> None: ...

    def close(self) -> None: ...


class VowpalRouter:
    """Vowpal Wabbit's contextual bandit without a context; costs are 1 - reward."""

    def __init__(self, seed: int, setting: str) -> None:
        import vowpalwabbit

        self._workspace: Any = vowpalwabbit.Workspace(f"--cb_explore_adf {setting} --quiet")
        self._rng = np.random.default_rng([seed, 23])
        self._propensity = 1.0

    def choose(self) -> str:
        chances = np.array(self._workspace.predict("shared | \n" + "".join(f"| arm={arm}\n" for arm in ARMS)))
        place = int(self._rng.choice(len(ARMS), p=chances / chances.sum()))
        self._propensity = float(chances[place])
        return ARMS[place]

    def learn(self, arm: str, reward: float) -> None:
        label = f"0:{1 - reward}:{self._propensity}"
        lines = [f"{label} | arm={name}\n" if name == arm else f"| arm={name}\n" for name in ARMS]
        self._workspace.learn("shared | \n" + "".join(lines))

    def close(self) -> None:
        self._workspace.finish()


class LiteLlmRouter:
    """LiteLLM's adaptive router over two models of the same tier and price, for requests of one type."""

    def __init__(self, seed: int) -> None:
        import random

        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # its own copy: nothing is fetched
        from litellm.router_strategy.adaptive_router import bandit
        from litellm.types.router import AdaptiveRouterPreferences, RequestType

        self._bandit: Any = bandit
        preferences = AdaptiveRouterPreferences(quality_tier=2, strengths=[])
        self._cells = {arm: bandit.initial_cell(preferences, RequestType.GENERAL) for arm in ARMS}
        self._random = random.Random(seed)

    def choose(self) -> str:
        return str(self._bandit.pick_best(self._cells, dict.fromkeys(ARMS, 0.0), rng=self._random))

    def learn(self, arm: str, reward: float) -> None:
        self._cells[arm] = self._bandit.apply_delta(self._cells[arm], reward, 1 - reward)

    def close(self) -> None:
        """Nothing to close."""


ROUTERS: dict[str, tuple[str, Callable[[int], RewardRouter]]] = {
    "vw": ("vowpalwabbit", lambda seed: VowpalRouter(seed, "--epsilon 0.1")),
    "vw_squarecb": ("vowpalwabbit", lambda seed: VowpalRouter(seed, "--squarecb")),
    "litellm": ("litellm", LiteLlmRouter),
}


def available() -> list[str]:
    """The routers whose package is installed."""
    return [name for name, (package, _) in ROUTERS.items() if find_spec(package) is not None]


def play(name: str, world: World, seed: int, count: int) -> list[float]:
    """The chances of the arms that a router chose, decision by decision."""
    router = ROUTERS[name][1](seed)
    rng = np.random.default_rng([seed, 29])
    chances = []
    for place in range(count):
        arm = router.choose()
        chance = world(place)[arm]
        router.learn(arm, float(rng.random() < chance))
        chances.append(chance)
    router.close()
    return chances
