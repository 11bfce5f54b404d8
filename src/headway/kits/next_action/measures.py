"""How well rewards of described actions are predicted, always beside what a simple guess reaches.

Sign accuracy counts rows whose reward is not 0. Rank correlation (Kendall's tau) and the regret of the first choice
compare actions of one state, where two or more were tried. Coverage is the share of rewards inside their intervals.

How good predictions were, in order of time: accuracy of the sign, coverage of the 80% interval, mean error.

    windows(forecasts, 20)       # one CalibrationWindow per 20 forecasts
    window(forecasts, 1)         # all of them together

Accuracy is that of the sign, and stands beside what "always the more frequent sign" would have reached. Coverage is the
share of outcomes inside the interval that the policy gave.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from headway.nouns import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Of one model on some rows; None where the rows say nothing about it."""

    error: float
    sign_accuracy: float | None
    rank_correlation: float | None
    regret: float | None
    coverage: float | None = None

    def numbers(self) -> dict[str, float]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def sign_accuracy(predicted: Floats, reward: Floats) -> float | None:
    told = reward != 0.0
    return float(((predicted > 0.0) == (reward > 0.0))[told].mean()) if told.any() else None


def majority_accuracy(train: Floats, reward: Floats) -> float | None:
    """The accuracy of always saying the sign that most training rows have."""
    positive = float((train > 0.0).sum()) >= float((train < 0.0).sum())
    return sign_accuracy(np.full(len(reward), 1.0 if positive else -1.0), reward)


def measure(predicted: Floats, reward: Floats, states: Sequence[Hashable], half: Floats | None = None) -> Measures:
    """`half`: half the width of every interval."""
    taus: list[float] = []
    regrets: list[float] = []
    rows: dict[Hashable, list[int]] = {}
    for place, state in enumerate(states):
        rows.setdefault(state, []).append(place)
    for places in rows.values():
        if len(places) > 1:
            mine, theirs = predicted[places], reward[places]
            regrets.append(float(theirs.max() - theirs[int(mine.argmax())]))
            upper = np.triu_indices(len(places), 1)
            signs = np.sign(mine[:, None] - mine)[upper] * np.sign(theirs[:, None] - theirs)[upper]
            taus.append(float(signs.mean()))
    return Measures(
        error=float(((predicted - reward) ** 2).mean()) if len(reward) else 0.0,
        sign_accuracy=sign_accuracy(predicted, reward),
        rank_correlation=float(np.mean(taus)) if taus else None,
        regret=float(np.mean(regrets)) if regrets else None,
        coverage=None if half is None or not len(reward) else float((np.abs(predicted - reward) <= half).mean()),
    )


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
