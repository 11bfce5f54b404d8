"""The test of one guard: bets that the candidate is not worse on a metric by more than its tolerance, and that it is.

No value of the metric lies outside of the range that its guard declares. That is what makes the test hold when a
bad value is rare and huge: no variance stands for what has not happened yet. A value that is missing counts at the end
of the range that speaks against the side that bets, because a slow call may be the one that reports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headway.prove.betting import Bets
from headway.prove.log import PENDING, Floats, Log
from headway.prove.tally import MetricTally

ALPHA = 0.05  # that a guard outside its tolerance is ever shown to be within
_STEP = 10  # pairs that are bet on with the same stakes


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRule:
    """`GuardRule(name="cost_usd", tolerance=0.001, range=(0.0, 0.1))`: at most that much more per decision.

    `range`: no value can be outside; without it nothing can be shown. `at_random`: missing values are left out.
    """

    name: str
    tolerance: float = 0.0
    better: Literal["lower", "higher"] = "lower"
    range: tuple[float, float] | None = None
    at_random: bool = False

    @property
    def sign(self) -> float:
        """Turns "candidate minus current" into "worse by"."""
        return 1.0 if self.better == "lower" else -1.0


class GuardTally(MetricTally):
    """The metric's sums, and both bets on them where its range is known."""

    def __init__(self, rule: GuardRule, arms: int = 1) -> None:
        super().__init__(arms)
        self.rule = rule
        self.within, self.outside = Bets(ALPHA), Bets(ALPHA)
        self.variance = 0.0  # that the stakes of the next rows go by; 0: not known yet
        self.asked = self.missing = 0  # rows, and those without a value

    @property
    def n(self) -> int:
        return self.within.n

    @property
    def width(self) -> float:
        return inf if self.rule.range is None else self.rule.range[1] - self.rule.range[0]

    def kept(self) -> bool:
        """Whether the candidate is shown to be worse by less than the tolerance, at every look."""
        return self.within.log_wealth() > log(1.0 / ALPHA)

    def broken(self) -> bool:
        """Whether it is shown to be worse by more."""
        return self.outside.log_wealth() > log(1.0 / ALPHA)

    def bet(self, piece: Log, difference: Floats, weight: Floats, inside: NDArray[np.bool_]) -> None:
        """Rows of a log in their order; `difference` [n, arm] is π − b, `weight` [n] its share of the propensity."""
        value = piece.guards[self.rule.name]
        missing = np.isnan(value)
        self.asked += int(inside.sum())
        self.missing += int((missing & inside).sum())
        if self.rule.range is not None:
            self._bet(piece, np.clip(value, *self.rule.range), difference, inside)
        self.add(value, piece.action, difference, weight, inside)

    def _bet(self, piece: Log, value: Floats, difference: Floats, inside: NDArray[np.bool_]) -> None:
        assert self.rule.range is not None
        low, high = self.rule.range
        sign, places = self.rule.sign, np.arange(len(piece))
        possible = piece.logged > 0.0
        weights = np.where(possible, sign * difference / np.where(possible, piece.logged, 1.0), 0.0)
        mean = np.clip(self.mean, low, high)
        direct = sign * (difference @ mean)
        ends = weights * (low - mean), weights * (high - mean)
        most, least = direct[:, None] + np.maximum(*ends), direct[:, None] + np.minimum(*ends)
        worse = direct + weights[places, piece.action] * (value - mean[piece.action])
        missing = np.isnan(worse)
        worst = np.where(missing, most[places, piece.action], worse)
        best = np.where(missing, least[places, piece.action], worse)
        used = inside & ~missing if self.rule.at_random else inside
        if self.rule.at_random:
            used = used | (inside & (piece.status == PENDING))
        guess = float(np.einsum("ij,ij->", weights, sign * difference)) / max(1, len(piece)) * (0.5 * self.width) ** 2
        self._both(worst[used], best[used], most.max(axis=1)[used], least.min(axis=1)[used], guess)

    def bet_pairs(self, candidate: Floats, current: Floats) -> None:
        """Values of episodes that both policies played on the same seeds."""
        values = np.stack([candidate, current])
        difference = candidate - current
        self.scores.add(difference)
        self.low, self.high = float(values.min()), float(values.max())
        if self.rule.range is None or self.low < self.rule.range[0] or self.high > self.rule.range[1]:
            return
        worse = self.rule.sign * difference
        limit = np.full(worse.size, self.width)
        for start in range(0, worse.size, _STEP):
            cut = slice(start, start + _STEP)
            self._both(worse[cut], worse[cut], limit[cut], -limit[cut], self.width**2 / 2.0)
            self.variance = float(worse[: start + _STEP].var())

    def _both(self, worst: Floats, best: Floats, most: Floats, least: Floats, guess: float) -> None:
        """Bet on how much worse each row is, at least `best` and at most `worst`; no score is out of `least`, `most`.

        Stakes are never larger than the range of the metric allows, so that rows on which both policies agree, which
        cannot be lost, are worth no more than others.
        """
        tolerance, variance = self.rule.tolerance, max(self.variance or guess, 1e-24)
        self.within.add(tolerance - worst, tolerance - np.maximum(most, self.width), variance)
        self.outside.add(best - tolerance, np.minimum(least, -self.width) - tolerance, variance)

    def refit(self) -> None:
        super().refit()
        self.variance = self.scores.variance
