"""The spaces of a world as a network sees them: observations as flat numbers, actions by their heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice.environments import Environments
from headway.kits.practice.heads import Actions
from headway.nouns import errors


@dataclass(frozen=True, slots=True)
class WorldSpaces:
    """What goes into a network and what comes out of it, in one world."""

    actions: Actions
    inputs: int
    discrete: bool  # observations are whole numbers
    action_space: Any

    @classmethod
    def of(cls, envs: Environments) -> WorldSpaces:
        """Unsupported spaces are refused."""
        seen, acted = envs.single_observation_space, envs.single_action_space
        return cls(actions_of(acted), inputs_of(seen), _whole(seen), acted)

    def flat(self, observations: NDArray[Any]) -> NDArray[Any]:
        """[copy, width], raw."""
        if self.discrete:
            return np.eye(self.inputs, dtype=np.float32)[np.asarray(observations, dtype=np.int64)]
        return observations.reshape(len(observations), -1)

    def given(self, chosen: NDArray[Any]) -> NDArray[Any]:
        """[copy, …]: the actions in the form that the world expects."""
        if self.actions.kind == "categorical":
            return chosen[:, 0] if chosen.shape[1] == 1 else chosen
        shape = getattr(self.action_space, "shape", ()) or ()
        return self.actions.acted(chosen).reshape(len(chosen), *shape).astype(self.action_space.dtype)


def actions_of(space: Any) -> Actions:
    """The heads for an action space: Discrete, MultiDiscrete or Box; anything else is refused.

    A space is recognised by its attributes (`n`, `nvec`, or `low` and `high`), so a world need not import gymnasium.
    """
    if not np.any(getattr(space, "start", 0)):
        if np.ndim(getattr(space, "nvec", 0)) == 1:
            return Actions("categorical", tuple(int(size) for size in space.nvec))
        if _whole(space):
            return Actions("categorical", (int(space.n),))
    if hasattr(space, "low") and hasattr(space, "high") and np.issubdtype(space.dtype, np.floating) and space.shape:
        low, high = (tuple(float(number) for number in np.ravel(bound)) for bound in (space.low, space.high))
        return Actions("gaussian", (len(low),), low, high)
    raise errors.InvalidInput(
        f"A policy cannot act in {space!r:.120}.",
        code="bad_space",
        hint="Actions may be Discrete, MultiDiscrete (both counting from 0) or a Box of real numbers.",
    )


def inputs_of(space: Any) -> int:
    """How wide an observation is: a Box flattened, or a Discrete one as one-hot; anything else is refused."""
    if _whole(space):
        return int(space.n)
    if getattr(space, "shape", None) is not None and not hasattr(space, "n") and not hasattr(space, "nvec"):
        return int(np.prod(space.shape)) or 1
    raise errors.InvalidInput(
        f"A policy cannot observe {space!r:.120}.",
        code="bad_space",
        hint="Observations may be a Box, Discrete or a Dict; wrap others with gymnasium.wrappers.FlattenObservation.",
    )


def _whole(space: Any) -> bool:
    """Discrete: one of n, from 0."""
    count = getattr(space, "n", None)
    return (
        isinstance(count, int | np.integer)
        and not getattr(space, "shape", ())
        and not np.any(getattr(space, "start", 0))
    )
