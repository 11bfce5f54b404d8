"""Running means and deviations of observations and rewards, for a network that expects numbers of about one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.kits.practice.mlp import Array


@dataclass(slots=True)
class RunningScale:
    """Mean and variance of a stream of rows, merged batch by batch (Chan et al., 1983)."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    count: float = 0.0

    @classmethod
    def of(cls, width: int) -> RunningScale:
        return cls(np.zeros(width), np.ones(width))

    def add(self, rows: NDArray[Any]) -> None:
        """Rows [row, width]."""
        if not len(rows):
            return
        rows = rows.astype(np.float64, copy=False)
        count, mean, variance = float(len(rows)), rows.mean(axis=0), rows.var(axis=0)
        if not self.count:
            self.mean, self.variance, self.count = mean, variance, count
            return
        total, shift = self.count + count, mean - self.mean
        self.mean = self.mean + shift * (count / total)
        spread = self.variance * self.count + variance * count + shift * shift * (self.count * count / total)
        self.variance, self.count = spread / total, total


@dataclass(slots=True)
class Scales:
    """The scales of observations and rewards."""

    observations: RunningScale
    rewards: RunningScale = field(default_factory=lambda: RunningScale.of(1))
    normalise_observations: bool = True
    normalise_rewards: bool = True

    def means(self) -> NDArray[np.float64]:
        return self.observations.mean if self.normalise_observations else np.zeros_like(self.observations.mean)

    def deviations(self) -> NDArray[np.float64]:
        """A constant value keeps its scale."""
        if not self.normalise_observations or not self.observations.count:
            return np.ones_like(self.observations.mean)
        deviation = np.sqrt(self.observations.variance)
        return np.where(deviation > 1e-6, deviation, 1.0)

    def seen(self, flat: NDArray[Any], dtype: Any) -> Array:
        """Observations [row, width] as the network's input: within ±8, like the acting policy's features."""
        if not self.normalise_observations:
            kept: Array = np.clip(flat, -Features.LIMIT, Features.LIMIT)
            return kept.astype(dtype, copy=False)
        scaled: Array = np.clip((flat - self.means()) / self.deviations(), -Features.LIMIT, Features.LIMIT)
        return scaled.astype(dtype, copy=False)

    def reward_scale(self) -> float:
        if not self.normalise_rewards or not self.rewards.count:
            return 1.0
        return float(1.0 / np.sqrt(self.rewards.variance[0] + 1e-8))
