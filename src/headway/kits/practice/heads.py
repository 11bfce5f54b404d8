"""The heads of an actor-critic: one or several categorical heads, or a Gaussian one.

    Actions("categorical", (5,))         one of five                                [row, 5] logits
    Actions("categorical", (3, 4))       one of three and one of four               [row, 7] logits, side by side
    Actions("gaussian", (2,), low, high) two real numbers                           [row, 2] means

A Gaussian head works in units of the action's range: −1 is `low`, +1 is `high` if both are finite, else numbers are
unscaled. A draw outside the range is clipped for acting; its density is that of the unclipped draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats, errors

Kind = Literal["categorical", "gaussian"]
_WIDEST = 1 << 14


@dataclass(frozen=True, slots=True)
class Actions:
    """The shape of an action."""

    kind: Kind
    sizes: tuple[int, ...]  # choices of each head; of a Gaussian one: how many numbers
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    parts: tuple[slice, ...] = field(init=False, compare=False, repr=False)
    outputs: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ends = np.cumsum((0, *self.sizes)).tolist()
        object.__setattr__(self, "parts", tuple(slice(a, b) for a, b in pairwise(ends)))
        object.__setattr__(self, "outputs", ends[-1])

    @property
    def free(self) -> int:
        """The number of parameters without an input: the log deviations."""
        return self.outputs if self.kind == "gaussian" else 0

    def acted(self, raw: NDArray[Any]) -> NDArray[Any]:
        """The action in the environment's form; whole numbers are unchanged."""
        if self.kind == "categorical" or not self.low:
            return raw
        low, high = np.array(self.low), np.array(self.high)
        bounded = np.isfinite(low) & np.isfinite(high)
        middle, half = np.where(bounded, 0.5 * (low + high), 0.0), np.where(bounded, 0.5 * (high - low), 1.0)
        cut: NDArray[Any] = np.clip(middle + half * raw, low, high)
        return cut

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "sizes": list(self.sizes),
            "low": [_written(bound) for bound in self.low],
            "high": [_written(bound) for bound in self.high],
        }

    @classmethod
    def from_json(cls, data: Any) -> Actions:
        """What `to_json` wrote; anything else is `bad_header`."""
        try:
            if not isinstance(data, Mapping) or data["kind"] not in ("categorical", "gaussian"):
                raise ValueError("unknown kind")
            sizes = tuple(data["sizes"])
            whole = all(isinstance(size, int) and not isinstance(size, bool) and 0 < size <= _WIDEST for size in sizes)
            if not sizes or not whole or sum(sizes) > _WIDEST:
                raise ValueError(f"its sizes are {sizes!r:.60}")
            low, high = (tuple(float(bound) for bound in data[name]) for name in ("low", "high"))
            if low and not len(low) == len(high) == sum(sizes):
                raise ValueError("its bounds do not fit its sizes")
            return cls(data["kind"], sizes, low, high)
        except (KeyError, TypeError, ValueError) as error:
            raise errors.Damaged(
                f"The bundle's actions cannot be read: {error}.",
                code="bad_header",
                hint="The file was changed or cut short: restore it, or roll back.",
            ) from error


def _written(value: float) -> float | str:
    """JSON has no infinities: they are written as words that float() reads."""
    return value if np.isfinite(value) else str(value)


def sample(
    actions: Actions,
    outputs: NDArray[Any],
    free: NDArray[Any],
    draws: NDArray[Any],
    allowed: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """[row, head] choices by inverse distribution from `draws` in [0, 1), or [row, number] from normal `draws`."""
    if actions.kind == "gaussian":
        drawn: NDArray[Any] = outputs + np.exp(free) * draws
        return drawn.astype(outputs.dtype, copy=False)
    choices = np.empty((len(outputs), len(actions.sizes)), dtype=np.int64)
    for head, part in enumerate(actions.parts):
        logits = outputs[:, part]
        if allowed is not None:
            logits = np.where(allowed[:, part], logits, -np.inf)
        reached = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
        # The first choice whose cumulative weight exceeds the draw: never one with weight 0.
        target = draws[:, head, None] * reached[:, -1:]
        (target < reached).argmax(axis=1, out=choices[:, head])
    return choices


def greedy(actions: Actions, outputs: NDArray[Any], allowed: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """The most probable action, [row, head], or the mean."""
    if actions.kind == "gaussian":
        return np.array(outputs)
    choices = np.empty((len(outputs), len(actions.sizes)), dtype=np.int64)
    for head, part in enumerate(actions.parts):
        logits = outputs[:, part] if allowed is None else np.where(allowed[:, part], outputs[:, part], -np.inf)
        logits.argmax(axis=1, out=choices[:, head])
    return choices


def log_probability(
    actions: Actions,
    outputs: Floats,
    free: Floats,
    action: NDArray[Any],
    allowed: NDArray[np.bool_] | None = None,
) -> Floats:
    """[row]: the log-probability of each row's action, summed over heads; the log density of a Gaussian one."""
    if actions.kind == "gaussian":
        z = (action - outputs) * np.exp(-free)
        density: Floats = -0.5 * (z * z).sum(axis=1) - free.sum() - 0.5 * math.log(2.0 * math.pi) * outputs.shape[1]
        return density
    rows = np.arange(len(outputs))
    total = np.zeros(len(outputs))
    for head, part in enumerate(actions.parts):
        logits = outputs[:, part] if allowed is None else np.where(allowed[:, part], outputs[:, part], -np.inf)
        shifted = logits - logits.max(axis=1, keepdims=True)
        total += shifted[rows, action[:, head]] - np.log(np.exp(shifted).sum(axis=1))
    return total
