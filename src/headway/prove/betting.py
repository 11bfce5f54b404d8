"""The gate's test: a bet on every row that the candidate is better, which only a better candidate can win for long.

A gambler starts with 1 and stakes λ of its wealth on each score: E = Π (1 + λ (score − m)). If the mean of the scores
is at most m, the wealth is a nonnegative supermartingale: it ever reaches 1/α with probability at most α, however often
it is read (Ville). This is exact for any bounded rewards, rare disasters included; no variance is estimated for it
(Waudby-Smith and Ramdas, 2024, "Estimating means of bounded random variables by betting").

λ is chosen before the rows that it is used on, and is the same for all of them: a stake that depended on the row would
test a weighted mean. It never exceeds what the lowest possible score can cost. Several gamblers with different λ share
the starting money; E is their sum. Their spread suits any effect that 5,000 rows can show, or the registered horizon.

A policy that is good for 3,000 rows and bad afterwards has won the bets against it so much that they never recover. So
a guard's gamblers start again after 256, 512, 1,024, … rows, with a share of the starting money that was set aside for
them: E stays a sum of bets, and the bound holds for all of them together (an e-detector with a fixed budget; Shin,
Ramdas and Rinaldo, 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf, log, sqrt

import numpy as np

from headway.prove.log import Floats
from headway.prove.sequential import TUNED_AT, quantile

__all__ = ["BETTING", "GAMBLERS", "MOST", "RESTARTS", "TUNED_FOR_HARM", "Bets", "stakes"]

BETTING = "betting"
GAMBLERS = 16
MOST = 0.8  # the largest share of the wealth that one row may take
_AROUND = (0.7, 1.0, 1.4)  # a registered test stakes the best λ for its horizon, and two neighbours
_AROUND_SHARES = (0.2, 0.6, 0.2)
RESTARTS = (0, *(256 * 2**k for k in range(10)))  # rows after which a guard's gamblers start
LATE_SHARE = 0.2  # of the starting money: for those that start later
TUNED_FOR_HARM = 200  # a guard looks for harm that this many rows can show


@lru_cache(maxsize=256)
def stakes(alpha: float, horizon: int | None, tuned_at: int = TUNED_AT) -> tuple[Floats, Floats]:
    """λ·√variance of the gamblers and ln of their starting shares."""
    if horizon is not None:
        best = sqrt(2.0 * log(1.0 / alpha) / horizon)
        return best * np.array(_AROUND), np.log(_AROUND_SHARES)
    spent = -2.0 * log(2.0 * min(alpha, 0.4))
    width = sqrt((spent + log(spent + 1.0)) / tuned_at)
    places = (np.arange(GAMBLERS) + 0.5) / GAMBLERS
    half_normal = np.array([quantile(0.5 + 0.5 * place) for place in places])
    return width * half_normal, np.full(GAMBLERS, -log(GAMBLERS))


class Bets:
    """The wealth of the gamblers, from sums in constant memory; any m can be asked about afterwards.

    `guard`: the gamblers look for harm that may begin late (`RESTARTS`).
    """

    def __init__(self, alpha: float, horizon: int | None = None, *, guard: bool = False) -> None:
        self.alpha = alpha
        self.stakes, self.shares = stakes(alpha, horizon, TUNED_FOR_HARM if guard else TUNED_AT)
        self.starts = np.zeros(self.stakes.size)  # rows before a gambler's first bet
        if guard:
            self.starts = np.repeat(np.array(RESTARTS, dtype=np.float64), self.stakes.size)
            late = [LATE_SHARE / (k * (k + 1)) for k in range(1, len(RESTARTS))]  # Σ 1/(k(k+1)) < 1
            self.shares = np.concatenate([self.shares + log(share) for share in (1.0 - LATE_SHARE, *late)])
            self.stakes = np.tile(self.stakes, len(RESTARTS))
        self.n, self.total = 0, 0.0
        self.wealth = np.zeros(self.stakes.size)  # Σ ln(1 + λ x)
        self.slope = np.zeros(self.stakes.size)  # Σ y with y = λ / (1 + λ x): −d wealth / dm at m = 0
        self.square = np.zeros(self.stakes.size)  # Σ y²
        self.steepest = np.zeros(self.stakes.size)  # the largest y
        self.lowest = 0.0  # the lowest score that was possible so far

    def add(self, scores: Floats, lowest: Floats, variance: Floats | float) -> Floats:
        """Bet on rows in their order; returns what each gambler won on each row, [gambler, n] in logarithms.

        `lowest` [n]: no score of the row can be below it. `variance`: an estimate of the scores' variance. Both may
        depend on everything that was known before the row's action was drawn; a wrong variance costs power, never
        validity.
        """
        if scores.size == 0:
            return np.zeros((self.stakes.size, 0))
        waits = self.starts[:, None] > np.arange(self.n, self.n + scores.size) if self.starts[-1] > self.n else None
        self.n += scores.size
        self.total += float(scores.sum())
        lowest = np.minimum(np.minimum.accumulate(lowest), self.lowest)
        self.lowest = float(lowest[-1])
        rate = np.multiply.outer(self.stakes, 1.0 / np.sqrt(np.maximum(variance, 1e-24)) * np.ones(scores.size))
        np.minimum(rate, MOST / np.maximum(-lowest, 1e-12), out=rate)
        if waits is not None:
            rate[waits] = 0.0
        factor = 1.0 + rate * scores
        won: Floats = np.log(factor)
        self.wealth += won.sum(axis=1)
        y = np.divide(rate, factor, out=rate)
        self.slope += y.sum(axis=1)
        self.square += np.einsum("ij,ij->i", y, y)
        self.steepest = np.maximum(self.steepest, y.max(axis=1))
        return won

    def log_wealth(self, mean: float = 0.0, *, less: Floats | float = 0.0) -> float:
        """ln E against "the mean is at most `mean`"; exact at 0, elsewhere at most the exact value.

        ln(1 + λ(x − m)) = ln(1 + λx) + ln(1 − m·y), and ln(1 − u) ≥ −u − c·u² for all |u| up to the largest u. `less`
        [gambler] is what some rows won, to leave them out.
        """
        if self.n == 0:
            return 0.0
        largest = abs(mean) * self.steepest
        safe = np.minimum(largest, 0.9)
        small = safe < 1e-3
        bend = np.where(small, 0.5 + safe / 2.0, (-np.log1p(-safe) - safe) / np.where(small, 1.0, safe**2))
        wealth = self.shares + self.wealth - less - mean * self.slope - bend * mean**2 * self.square
        wealth = np.where(largest > 0.9, -inf, wealth)
        top = float(wealth.max())
        return top + log(float(np.exp(wealth - top).sum())) if top > -inf else -inf

    def lower_bound(self) -> float:
        """All means below this one are excluded, at all times at once; −inf before the first row."""
        if self.n == 0:
            return -inf
        limit, high = log(1.0 / self.alpha), self.total / self.n
        step = max(1e-3 * abs(high), self._width())
        low = high - step
        while self.log_wealth(low) < limit:
            step *= 2.0
            low = high - step
            if step > 1e9:
                return -inf
        return _crossing(lambda mean: self.log_wealth(mean) - limit, low, high)

    def _width(self) -> float:
        """About how far below the mean the bound is."""
        best = int(self.slope.argmax())
        return sqrt(2.0 * log(1.0 / self.alpha) / max(float(self.square[best]), 1e-24)) if self.n else 1.0


def _crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    """A point where a falling function is at most a thousandth above 0: regula falsi that halves an end (Illinois)."""
    at_low, at_high = excess(low), excess(high)
    for _ in range(40):
        middle = low + (high - low) * at_low / (at_low - at_high)
        value = excess(middle)
        if 0.0 <= value < 1e-3:
            return middle
        if value >= 0.0:
            low, at_low, at_high = middle, value, at_high / 2.0
        else:
            high, at_high, at_low = middle, value, at_low / 2.0
    return low
