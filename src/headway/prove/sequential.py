"""Stopping rules that stay valid when people look before the end.

A normal 95% bound that is read every 50 rows promotes a useless policy a third of the time. These rules do not. The
first two are for scores without known bounds (guards, worlds that declare no returns); where bounds are known, the gate
bets (`headway.prove.betting`).

- registered horizon N: at any look n ≤ N, pass when Σ score − margin·n > z(1 − α/2)·√(N·v). By the reflection principle
  a random walk without drift ever crosses this line before N with probability about α.
- confidence sequence (no horizon): the one-sided asymptotic sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas
  (2024, "Time-uniform central limit theory and asymptotic confidence sequences"), tightest at 5,000 rows.
- e-process for wins and losses: E = 2^(n+1) ∫_{1/2}^{1} p^w (1−p)^l dp; under "no better than a coin" it exceeds 1/α
  with probability at most α, however often it is read (Ville). Exact, not asymptotic.

The tests of a task share one error budget by e-LOND (Xu and Ramdas, 2024, "Online multiple testing with e-values"): the
first test may spend .04, the k-th .04/(2k(k+1)) times one more than the promotions on evidence that still stand. The
shares without promotions add up to .05, so false promotions are at most 5% of all promotions, in expectation, however
many tests there are.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, sqrt
from statistics import NormalDist

ALPHA = 0.04
TUNED_AT = 5_000
CONFIDENCE_SEQUENCE = "confidence sequence"
E_PROCESS = "e-process"
_NORMAL = NormalDist()


@lru_cache(maxsize=1024)
def quantile(p: float) -> float:
    """Quantile of the standard normal distribution."""
    return _NORMAL.inv_cdf(p)


def challenger_alpha(alpha: float, challenger: int, promotions: int = 0) -> float:
    """The error that the k-th test of a task may spend after so many promotions that still stand.

    Without promotions, the shares of all k add up to 1.25 alpha.
    """
    return alpha * (promotions + 1) * (1.0 if challenger <= 1 else 1.0 / (2 * challenger * (challenger + 1)))


def horizon_threshold(variance: float, horizon: int, alpha: float) -> float:
    """The value that Σ score must exceed at any look up to the horizon."""
    return quantile(1.0 - alpha / 2.0) * sqrt(horizon * variance)


@lru_cache(maxsize=1024)
def _rho_squared(alpha: float, tuned_at: int) -> float:
    """The mixture's width that makes the one-sided boundary tightest at `tuned_at` rows (their proposition on ρ)."""
    spent = -2.0 * log(2.0 * alpha)
    return (spent + log(spent + 1.0)) / tuned_at


def sequence_threshold(variance: float, n: int, alpha: float, tuned_at: int = TUNED_AT) -> float:
    """The value that Σ score must exceed at n rows, valid at all n: σ √(2(nρ²+1)/ρ² · ln(1 + √(nρ²+1)/(2α)))."""
    rho = _rho_squared(alpha, tuned_at)
    grown = n * rho + 1.0
    return sqrt(variance * 2.0 * grown / rho * log1p(sqrt(grown) / (2.0 * alpha)))


def e_process(wins: int, losses: int) -> float:
    """ln E after these wins and losses (ties are dropped).

    ∫_{1/2}^{1} p^w (1−p)^l dp = B(w+1, l+1) · P(Binomial(n+1, 1/2) ≤ w), summed in logarithms: exact for any counts.
    """
    n = wins + losses
    beta = lgamma(wins + 1) + lgamma(losses + 1) - lgamma(n + 2)
    # ln P(Bin(n+1, ½) ≤ w) = −(n+1) ln 2 + ln Σ_{j≤w} C(n+1, j); the powers of two cancel with 2^(n+1).
    largest, total = -inf, 0.0
    whole = lgamma(n + 2)
    for j in range(wins, -1, -1):
        term = whole - lgamma(j + 1) - lgamma(n + 2 - j)
        if term > largest:
            total = total * exp(largest - term) + 1.0 if largest > -inf else 1.0
            largest = term
        else:
            add = exp(term - largest)
            total += add
            if add < 1e-18 * total and j < (n + 1) / 2:
                break
    return beta + largest + log(total)
