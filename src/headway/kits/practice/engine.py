"""The engine of an actor-critic: a network and its optimiser, behind the interface of rollouts and fitting.

`NumpyEngine` is the default. `torch_engine.TorchEngine` does the same on a GPU; both work on numpy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice import objective as losses
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


class Adam:
    """Adam or (with `decay`) AdamW on a network's flat vector, with the gradient clipped to a norm.

    Kingma and Ba, "Adam", 2015; Loshchilov and Hutter, "Decoupled weight decay regularization", 2019 (AdamW).
    """

    def __init__(
        self,
        network: Network,
        *,
        rate: float = 3e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-5,
        decay: float = 0.0,
        most_norm: float | None = 0.5,
    ) -> None:
        self.network, self.rate, self.betas, self.epsilon = network, rate, betas, epsilon
        self.decay, self.most_norm = decay, most_norm
        self.mean: Array = np.zeros_like(network.theta)
        self.square: Array = np.zeros_like(network.theta)
        self.steps = 0
        self._scratch: Array = np.empty_like(network.theta)

    def step(self) -> float:
        """One update from `network.grad`; returns its norm before clipping. A gradient that is not finite changes
        nothing, and returns its norm."""
        grad, scratch, network = self.network.grad, self._scratch, self.network
        norm = math.sqrt(float(np.dot(grad, grad)))
        if not math.isfinite(norm):
            return norm
        if self.most_norm is not None and norm > self.most_norm:
            grad *= self.most_norm / (norm + 1e-6)
        self.steps += 1
        one, two = self.betas
        self.mean *= one
        np.multiply(grad, 1.0 - one, out=scratch)
        self.mean += scratch
        self.square *= two
        np.multiply(grad, grad, out=scratch)
        scratch *= 1.0 - two
        self.square += scratch
        # With both corrections taken out of the elementwise work: lr·√c₂/c₁ · m/(√v + ε·√c₂).
        root = math.sqrt(1.0 - two**self.steps)
        np.sqrt(self.square, out=scratch)
        scratch += self.epsilon * root
        np.divide(self.mean, scratch, out=scratch)
        scratch *= self.rate * root / (1.0 - one**self.steps)
        if self.decay:
            network.theta[: network.decayed] *= 1.0 - self.rate * self.decay
        network.theta -= scratch
        return norm

    def tensors(self) -> dict[str, Array]:
        """The optimiser's state, for a resumed run."""
        return {"adam.mean": self.mean.copy(), "adam.square": self.square.copy()}

    def load(self, tensors: Mapping[str, Any], steps: int) -> None:
        self.mean[...], self.square[...], self.steps = tensors["adam.mean"], tensors["adam.square"], steps
