"""How good predictions were, in order of time: accuracy of the sign, coverage of the 80% interval, mean error.

    windows(forecasts, 20)       # one CalibrationWindow per 20 forecasts
    window(forecasts, 1)         # all of them together

Accuracy is that of the sign, and stands beside what "always the more frequent sign" would have reached. Coverage is the
share of outcomes inside the interval that the policy gave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Forecast(Protocol):
    """A predicted reward with its 80% interval, and what came; None: not known."""

    @property
    def predicted(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def reward(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationWindow:
    """The quality of some predictions, in order of time; None: nothing to compare."""

    first: int
    last: int
    predicted: int  # with a prediction and a reward
    sign_accuracy: float | None  # where both are not 0
    majority: float | None  # the share of the more frequent sign: the baseline of sign_accuracy
    coverage: float | None  # of the 80% interval
    error: float | None  # mean absolute difference


def windows(forecasts: Sequence[Forecast], size: int) -> tuple[CalibrationWindow, ...]:
    """One window per `size` forecasts; the last may have fewer."""
    return tuple(window(forecasts[at : at + size], at + 1) for at in range(0, len(forecasts), size))


def window(forecasts: Sequence[Forecast], first: int = 1) -> CalibrationWindow:
    """The quality of these predictions; `first` is the number of the first."""
    told = [(row.predicted, row.reward, row) for row in forecasts]
    pairs = [(guess, reward, row) for guess, reward, row in told if guess is not None and reward is not None]
    signs = [(guess > 0.0, reward > 0.0) for guess, reward, _ in pairs if guess != 0.0 and reward != 0.0]
    inside = [row.low <= reward <= row.high for _, reward, row in pairs if row.low is not None and row.high is not None]
    positive = sum(reward for _, reward in signs)
    return CalibrationWindow(
        first=first,
        last=first + len(forecasts) - 1,
        predicted=len(pairs),
        sign_accuracy=_share([guess == reward for guess, reward in signs]),
        majority=max(positive, len(signs) - positive) / len(signs) if signs else None,
        coverage=_share(inside),
        error=sum(abs(reward - guess) for guess, reward, _ in pairs) / len(pairs) if pairs else None,
    )


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
