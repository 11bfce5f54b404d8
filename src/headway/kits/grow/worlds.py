"""The interface of a world whose actions are factored and whose copies are stepped together.

    observations, masks = world.reset(seed=7)
    result = world.step(actions)                       # actions int [copy, head]
    result.observations, result.masks, result.rewards, result.terminated, result.truncated, result.info

A copy whose episode ends is reset in the same step: `observations` and `masks` are those of the next episode, and
`info["final"]` holds the observations of the ended rows, in the order of their places.

Arrays may be numpy's or, in a world on a GPU, torch tensors of `world.device`; actions come in the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.factored.space import Factored, Observations


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step of all copies gives.

    A fixed horizon whose time is part of the observation is *terminated*. `truncated` is an episode that would have
    gone on: the value of its final observation counts.

    `info`: "final" (see above); "metrics", name → [copy], which are averaged into metrics.jsonl; "credit" [copy], what
    hindsight credits to an earlier action, whose distribution goes there too; anything else is the world's own.
    """

    observations: Observations
    masks: Mapping[str, Any]  # head → bool [copy, choice], or [copy, lead choice, choice]; a missing head: all allowed
    rewards: Any  # float [copy]
    terminated: Any  # bool [copy]
    truncated: Any  # bool [copy]
    info: Mapping[str, Any] = field(default_factory=dict)


class FactoredWorld(Protocol):
    """Copies of a world, stepped together.

    Optional: `horizon`, the most steps of an episode: by default a rollout is one whole episode;
    `feedback`, the columns of the features that tell about the last action: a policy without feedback does not see
    them; `device`, where its arrays are ("cpu" if it has none); `returns = (low, high)`, the bounds of a return;
    `teacher(name)`, which gives a function of no arguments for the actions that a known way of acting takes now;
    `scaled`: the features are of the order of one, so nothing scales them; `stagger()` after a reset, which lets the
    first episodes of copies end at different times, and gives what `reset` gives.
    """

    count: int
    space: Factored
    features: int
    indices: tuple[int, ...]  # the vocabulary of each column of indices

    def reset(self, seed: int) -> tuple[Observations, Mapping[str, Any]]: ...

    def step(self, actions: Any) -> StepResult: ...

    def state(self) -> dict[str, Any]:
        """Arrays from which `restore` continues bit for bit, its random numbers included."""
        ...

    def restore(self, state: Mapping[str, Any]) -> tuple[Observations, Mapping[str, Any]]:
        """Continue from `state`; the present observations and masks."""
        ...

    def close(self) -> None: ...


def random_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of numpy's default generator as an array, for `FactoredWorld.state`."""
    told: Any = rng.bit_generator.state
    whole, most = told["state"], 1 << 64
    words = [whole["state"] // most, whole["state"] % most, whole["inc"] // most, whole["inc"] % most]
    return np.array([*words, told["has_uint32"], told["uinteger"]], dtype=np.uint64)


def random_from(array: NDArray[np.uint64]) -> np.random.Generator:
    """The generator that continues from `random_state`."""
    state, low, increment, low_increment, has, rest = (int(word) for word in array)
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": (state << 64) + low, "inc": (increment << 64) + low_increment},
        "has_uint32": has,
        "uinteger": rest,
    }
    return np.random.Generator(bits)
