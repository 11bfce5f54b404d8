"""The engine of an actor-critic: a network and its optimiser, behind the interface of rollouts and fitting.

`NumpyEngine` is the default. `torch_engine.TorchEngine` does the same on a GPU; both work on numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice import objective as losses
from headway.kits.practice.adam import Adam
from headway.kits.practice.heads import Actions
from headway.kits.practice.mlp import Array, Network, Shape
from headway.kits.practice.objective import Minibatch, Objective, Stats

LOG_STD_BOUNDS = (-5.0, 2.0)  # of a Gaussian head: outside them, densities overflow


class PolicyEngine(Protocol):
    """An actor, a critic and an optimiser."""

    @property
    def actions(self) -> Actions: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def free(self) -> Array: ...  # log deviations of a Gaussian head

    def outputs(self, x: Array) -> Array: ...  # [row, outputs] of the actor

    def values(self, x: Array) -> Array: ...  # [row] of the critic

    def log_probabilities(
        self, x: Array, action: NDArray[Any], allowed: NDArray[np.bool_] | None
    ) -> Array: ...  # [row]: the same bits that the next `step` on these rows computes

    def step(self, batch: Minibatch, objective: Objective) -> tuple[Stats, Array]: ...  # one update; ratios [row]

    def set_rate(self, rate: float) -> None: ...

    def tensors(self) -> dict[str, NDArray[np.float64]]: ...

    def state(self) -> tuple[dict[str, Array], int]: ...  # the optimiser's state and its number of steps

    def load(self, tensors: Mapping[str, Any], steps: int) -> None: ...


def shape_of(actions: Actions, inputs: int, hidden: tuple[int, ...], activation: Any, norm: bool) -> Shape:
    """The shape of an actor and a critic over the same input."""
    return Shape(
        inputs=inputs,
        towers=(("policy", actions.outputs), ("value", 1)),
        hidden=hidden,
        activation=activation,
        norm=norm,
        free=actions.free,
    )


class NumpyEngine:
    """`mlp` and `adam`: at the size of a small policy several times faster than torch."""

    def __init__(
        self,
        actions: Actions,
        shape: Shape,
        *,
        seed: int = 0,
        rate: float = 3e-4,
        most_norm: float | None = 0.5,
        decay: float = 0.0,
        start: Any = "orthogonal",
        dtype: Any = np.float32,
    ) -> None:
        self._actions = actions
        # A policy that starts almost uniform explores evenly, whatever the first layers are.
        self.network = Network(shape, seed=seed, start=start, gains=(0.01, 1.0), dtype=dtype)
        self.adam = Adam(self.network, rate=rate, most_norm=most_norm, decay=decay)

    @property
    def actions(self) -> Actions:
        return self._actions

    @property
    def shape(self) -> Shape:
        return self.network.shape

    @property
    def free(self) -> Array:
        return self.network.free

    def outputs(self, x: Array) -> Array:
        return self.network.forward_one(x, 0)

    def values(self, x: Array) -> Array:
        return self.network.forward_one(x, 1)[:, 0]

    def log_probabilities(self, x: Array, action: NDArray[Any], allowed: NDArray[np.bool_] | None) -> Array:
        outputs = self.network.forward(x)[0]  # the same call as in `step`
        return losses.log_probabilities(self._actions, outputs, self.network.free, action, allowed)

    def step(self, batch: Minibatch, objective: Objective) -> tuple[Stats, Array]:
        result = losses.step(self.network, self._actions, batch, objective)
        self.adam.step()
        if self._actions.free:
            np.clip(self.network.free, *LOG_STD_BOUNDS, out=self.network.free)
        return result

    def set_rate(self, rate: float) -> None:
        self.adam.rate = rate

    def tensors(self) -> dict[str, NDArray[np.float64]]:
        return self.network.tensors()

    def state(self) -> tuple[dict[str, Array], int]:
        return self.adam.tensors(), self.adam.steps

    def load(self, tensors: Mapping[str, Any], steps: int) -> None:
        self.network.load(tensors)
        if "adam.mean" in tensors:
            self.adam.load(tensors, steps)
