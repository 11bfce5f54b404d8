"""How many decisions a proof needs, and what more exploration or a canary would save.

The variance is the model-based one over known propensities (`ScoreTally.model_variance`), never the empirical variance
of a pilot, which misses the rare heavy weights that have not been drawn yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isfinite, sqrt

import numpy as np

from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Plan
from headway.prove import sequential
from headway.prove.log import Log
from headway.prove.proof import LogProof
from headway.prove.tally import ScoreTally

__all__ = ["POWER", "Planned", "Saving", "decisions_needed", "drift_needed", "plan", "sequence_needed", "still_needed"]

POWER = 0.80


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The decisions that another way of logging needs for the same power."""

    name: str
    horizon: int
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan to register, with its variance and the decisions that other ways of logging need."""

    plan: Plan
    variance: float
    pilot: int  # rows used to estimate the variance
    savings: tuple[Saving, ...] = ()

    def __str__(self) -> str:
        lines = [
            (
                f"{self.plan.horizon:,} decisions for {self.plan.power:.0%} power to detect an uplift of "
                f"{self.plan.uplift:+.3f} (α = {self.plan.alpha:.3g}, from {self.pilot:,} pilot decisions)"
            )
        ]
        lines += [f"  with {saving.name}: {saving.horizon:,}" for saving in self.savings]
        return "\n".join(lines)


@lru_cache(maxsize=256)
def drift_needed(alpha: float, power: float = POWER) -> float:
    """θ = uplift·√(N/v) at which the registered test passes with this power."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        if sequential.horizon_power(middle, alpha) < power:
            low = middle
        else:
            high = middle
    return high


def decisions_needed(variance: float, uplift: float, alpha: float, power: float = POWER) -> int | None:
    """The horizon N that gives this power; None if the uplift is not above 0."""
    if uplift <= 0.0 or not isfinite(variance):
        return None
    needed = variance * (drift_needed(alpha, power) / uplift) ** 2
    return max(1, ceil(needed)) if needed < 1e15 else None


def plan(
    chunks: Iterable[Log],
    *,
    uplift: float,
    margin: float = 0.0,
    power: float = POWER,
    alpha: float = sequential.ALPHA,
    challenger: int = 1,
    from_seq: int = 0,
    least: int = 200,
    canaries: tuple[float, ...] = (0.1, 0.2, 0.5),
    exploration: tuple[float, ...] = (0.1, 0.3),
) -> Planned:
    """A horizon from pilot rows (the candidate's and the current policy's probabilities on them).

    `canaries`: shares s of traffic given to the candidate, μ' = (1−s)·μ + s·π. `exploration`: uniform shares e over the
    candidates of each decision, μ' = (1−e)·μ + e/m. `from_seq` is the last settled row that the test does not count.
    """
    if uplift <= margin:
        raise InvalidInput(
            f"An uplift of {uplift!r} is not above the margin {margin!r}.",
            code="bad_uplift",
            hint="Plan for the smallest improvement that is worth a promotion.",
        )
    share = sequential.challenger_alpha(alpha, challenger)
    tally, other = _pilot(chunks, canaries, exploration)
    variance = tally.model_variance
    gain = uplift - margin
    needed = decisions_needed(variance, gain, share, power)
    if needed is None:
        raise InvalidInput(
            f"No number of decisions can show an uplift of {uplift!r} here.",
            code="bad_uplift",
            hint="Plan for a larger uplift, or give the candidate canary traffic.",
        )
    savings = []
    noisy = variance - tally.direct.variance
    for name, total in other.items():
        there = tally.direct.variance + min(noisy, total / tally.n)
        horizon = decisions_needed(there, gain, share, power)
        savings.append(Saving(name=name, horizon=max(horizon or 0, least), variance=there))
    registered = Plan(
        horizon=max(needed, least), uplift=uplift, power=power, alpha=share, margin=margin, from_seq=from_seq
    )
    return Planned(plan=registered, variance=variance, pilot=tally.n, savings=tuple(savings))


def _pilot(
    chunks: Iterable[Log], canaries: tuple[float, ...], exploration: tuple[float, ...]
) -> tuple[ScoreTally, dict[str, float]]:
    """The scores of the pilot rows, and by name the noise that each other way of logging would leave."""
    proof = LogProof(hashing=False)
    other = {f"a {canary:.0%} canary": 0.0 for canary in canaries}
    other |= {f"{share:.0%} more exploration": 0.0 for share in exploration}
    for chunk in chunks:
        before = proof.tally.moved.copy() if proof.arms else None
        proof.update(chunk)
        grown = proof.tally.moved - (0.0 if before is None else before)
        ratios = _ratios(chunk, canaries, exploration)
        for name, ratio in zip(other, ratios, strict=True):
            other[name] += float(ratio @ (proof.tally.noise_ratio * grown))
    if not proof.arms or proof.tally.n < 2:
        raise InvalidInput(
            "There is no settled decision to plan from.",
            code="no_pilot",
            hint="Collect a few dozen decisions with outcomes first.",
        )
    return proof.tally, other


def _ratios(
    chunk: Log, canaries: tuple[float, ...], exploration: tuple[float, ...]
) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """[arm] for each other way of logging: the factor by which it shrinks Σ (π−b)²/μ of this chunk."""
    possible = chunk.logged > 0.0
    squared = (chunk.target - chunk.baseline) ** 2
    now = np.where(possible, squared / np.where(possible, chunk.logged, 1.0), 0.0).sum(axis=0)
    uniform = possible / possible.sum(axis=1, keepdims=True)
    ratios = []
    for share, mixed in [(canary, chunk.target) for canary in canaries] + [(share, uniform) for share in exploration]:
        logged = (1.0 - share) * chunk.logged + share * mixed
        there = np.where(possible, squared / np.where(possible, logged, 1.0), 0.0).sum(axis=0)
        ratios.append(np.where(now > 0.0, there / np.where(now > 0.0, now, 1.0), 1.0))
    return ratios


def still_needed(variance: float, n: int, uplift: float, alpha: float, *, registered: bool) -> int | None:
    """Decisions still needed for 80% power at this uplift, given n already scored.

    With a registered horizon: N − n. Without one: the rows at which the confidence sequence passes with that power.
    """
    needed = decisions_needed(variance, uplift, alpha) if registered else sequence_needed(variance, uplift, alpha)
    return None if needed is None else max(0, needed - n)


def sequence_needed(variance: float, uplift: float, alpha: float, power: float = POWER) -> int | None:
    """The rows at which a test without horizon reaches this power: uplift·n − z·√(n·v) > the sequence's threshold."""
    if uplift <= 0.0 or not isfinite(variance):
        return None

    def short(n: int) -> bool:
        spare = sequential.quantile(power) * sqrt(n * variance)
        return uplift * n - spare < sequential.sequence_threshold(variance, n, alpha)

    high = 1
    while short(high):
        high *= 2
        if high > 10**12:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if short(middle) else (low, middle)
    return high
