"""What a policy's parts are worth: the same policy without one of them, on the same hosts.

- no memory          the memory is 0 at every step
- no feedback        the seven inputs about the last action are 0
- no contributions   what the ablations measured is 0: contribution, its velocity, interaction and boost
- no blueprints      every slot looks empty
- random HEAD        the choice of one head is drawn from what its mask allows
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.kits.grow.factored.draw import best
from headway.kits.grow.factored.space import FactoredPolicy, Observations
from headway.kits.grow.morph.baselines import Chooser, random_valid
from headway.kits.grow.morph.blueprints import EMPTY
from headway.kits.grow.morph.evaluate import as_arrays
from headway.kits.grow.morph.observation import FEEDBACK, NAMES_OF_FEATURES
from headway.kits.grow.morph.space import SPACE
from headway.kits.grow.morph.world import MorphWorld

_MEASURED = ("contribution", "contribution velocity", "interaction", "boost")
_CONTRIBUTIONS = tuple(
    column for column, name in enumerate(NAMES_OF_FEATURES) if any(name.endswith(f" {word}") for word in _MEASURED)
)


def without(policy: FactoredPolicy) -> Mapping[str, Callable[[], Chooser]]:
    """The policy whole, and without each of its parts, by name."""
    ways: dict[str, Callable[[], Chooser]] = {
        "whole": partial(_chooser, policy),
        "no memory": partial(_chooser, policy, forgets=True),
        "no feedback": partial(_chooser, policy, hidden=FEEDBACK),
        "no contributions": partial(_chooser, policy, hidden=_CONTRIBUTIONS),
        "no blueprints": partial(_chooser, policy, blind=True),
    }
    for head in SPACE.names[1:]:
        ways[f"random {head}"] = partial(_chooser, policy, drawn=head)
    return ways


def _chooser(
    policy: FactoredPolicy,
    *,
    forgets: bool = False,
    hidden: tuple[int, ...] = (),
    blind: bool = False,
    drawn: str = "",
) -> Chooser:
    memory: dict[int, Any] = {}
    anything, rng = random_valid(0), torch.Generator().manual_seed(0)

    def choose(world: MorphWorld) -> Tensor:
        observations, masks = as_arrays(*world.present())
        features = observations.features.copy()
        features[:, list(hidden)] = 0.0
        indices = np.full_like(observations.indices, EMPTY) if blind else observations.indices
        before = np.zeros((world.count, policy.memory_width))
        opinions = policy.scores(Observations(features, indices), before if forgets else memory.get(0, before))
        memory[0] = opinions.memory
        actions = torch.as_tensor(best(policy.space, opinions.scores, masks), device=world.device)
        if drawn:
            _draw_head(world, actions, drawn, anything, rng)
        return actions

    return choose


def _draw_head(world: MorphWorld, actions: Tensor, head: str, anything: Chooser, rng: torch.Generator) -> None:
    """Replace one head's choice by a random one that its mask allows under the operation taken."""
    place = SPACE.index(head)
    if head == "slot":
        mask = world.masks["slot"][torch.arange(world.count, device=world.device), actions[:, 0]]
        drawn = torch.where(mask, torch.rand(mask.shape, generator=rng).to(mask.device), -1.0)
        actions[:, place] = drawn.argmax(dim=1)
    else:
        actions[:, place] = anything(world)[:, place]
