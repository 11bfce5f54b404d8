"""How well rewards of described actions are predicted, always beside what a simple guess reaches.

Sign accuracy counts rows whose reward is not 0. Rank correlation (Kendall's tau) and the regret of the first choice
compare actions of one state, where two or more were tried. Coverage is the share of rewards inside their intervals.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

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
