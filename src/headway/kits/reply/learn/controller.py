"""The KL controller: the learning rate follows a path of distance to the base, and training stops at the budget."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_SMOOTH = 0.5
_FASTER, _SLOWER = 1.15, 0.5
_MOST, _LEAST = 2.0, 1.0 / 64.0  # of the first learning rate
_WARM = 0.1  # of the path at its begin


@dataclass(slots=True)
class KlController:
    """The budget grows evenly over the run. Beyond the path the rate is halved; below half of it, it rises.

    controller.after(kl, progress)      # after an update; the factor of the learning rate is `factor`
    controller.spent                    # the budget is used up: stop
    """

    budget: float
    factor: float = 1.0
    smooth: float = 0.0
    looks: int = 0
    hold: int = 0  # updates until the next change, so that one shows its effect first

    @property
    def spent(self) -> bool:
        return self.smooth >= self.budget

    def path(self, progress: float) -> float:
        """The distance that the run may have at this share of its updates."""
        return self.budget * (_WARM + (1.0 - _WARM) * progress)

    def after(self, kl: float, progress: float) -> None:
        self.looks += 1
        self.smooth = kl if self.looks == 1 else _SMOOTH * kl + (1.0 - _SMOOTH) * self.smooth
        self.hold = max(0, self.hold - 1)
        path = self.path(progress)
        if self.smooth > path and self.hold == 0:
            self.factor, self.hold = max(self.factor * _SLOWER, _LEAST), 3
        elif self.smooth < 0.5 * path and self.hold == 0:
            self.factor, self.hold = min(self.factor * _FASTER, _MOST), 1

    def state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> KlController:
        return cls(**state)
