"""Worlds by name.

sample("route", n=4000, seed=7)     # sample traffic: asks with text, state and known outcomes
world("route").optimum()            # what the best policy would earn
world("escalation")                 # a generator of logged decisions with exact values (numpy)
practice("cartpole", count=16)      # copies of an environment to practise in: short names, ours, any Gymnasium id
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headway.nouns.errors import UnknownName, did_you_mean
from headway.worlds.routing import Ask, RoutingWorld, two_arms, wide

if TYPE_CHECKING:
    from headway.worlds.environments import Environments
    from headway.worlds.escalation import Escalation

__all__ = ["ASKING", "NAMES", "PRACTICE", "asking", "practice", "sample", "world"]

ASKING = ("route", "route-wide")  # worlds that give asks, one at a time
NAMES = (*ASKING, "escalation", "escalation-priced")
# Worlds of ours to practise in: name → "module:function", called as function(count=…, **settings). What it gives has
# the interface of gymnasium's VectorEnv (`worlds.environments.Environments`). Loaded when asked for.
PRACTICE: dict[str, str] = {"prompts": "headway.worlds.prompts.synthetic:synthetic"}


def sample(name: str, *, n: int = 4000, seed: int = 0) -> Iterator[Ask]:
    """Synthetic traffic of a named world."""
    return asking(name).sample(n, seed)


def asking(name: str) -> RoutingWorld:
    """The world whose asks `sample` gives."""
    if name == "route":
        return two_arms()
    if name == "route-wide":
        return wide()
    raise UnknownName(
        f"There is no sample traffic called {name!r}.", code="unknown_world", hint=did_you_mean(name, ASKING)
    )


def world(name: str) -> RoutingWorld | Escalation:
    """Any world."""
    if name in ASKING:
        return asking(name)
    if name in NAMES:
        from headway.worlds.escalation import PRICE, Escalation

        return Escalation() if name == "escalation" else Escalation(PRICE)
    raise UnknownName(f"There is no world called {name!r}.", code="unknown_world", hint=did_you_mean(name, NAMES))


def practice(name: str, *, count: int, **settings: Any) -> Environments:
    """`count` copies of a world to practise in."""
    ours = PRACTICE.get(name)
    if ours is not None:
        module, _, function = ours.partition(":")
        found: Environments = getattr(importlib.import_module(module), function)(count=count, **settings)
        return found
    from headway.worlds.environments import environment

    return environment(name, count=count, **settings)
