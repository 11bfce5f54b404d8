"""Adam and AdamW on a network's flat parameter vector, with gradient clipping: a dozen numpy calls at any depth.

References: Kingma and Ba, "Adam", 2015; Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.kits.practice.mlp import Array, Network


class Adam:
    """Adam or (with `decay`) AdamW on a network's flat vector, with the gradient clipped to a norm."""

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
