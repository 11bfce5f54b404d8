"""How many decisions a proof needs, and what more exploration or a canary would save.

The variance is the model-based one over known propensities (`ScoreTally.model_variance`), never the empirical variance
of a pilot, which misses the rare heavy weights that have not been drawn yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, isfinite, log, sqrt
from statistics import NormalDist, median

import numpy as np

from headway.nouns import Evidence, Plan, errors
from headway.prove import sequential
from headway.prove.betting import MOST, stakes
from headway.prove.log import Floats, Log
from headway.prove.proof import LogProof
from headway.prove.tally import ScoreTally

_WIDTH = 3.92  # of a 95% interval, in standard errors
POWER = 0.80
_NORMAL = NormalDist()


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
    unit: str = "decisions"  # what the horizon counts

    def __str__(self) -> str:
        lines = [
            (
                f"{self.plan.horizon:,} {self.unit} for {self.plan.power:.0%} power to detect an uplift of "
                f"{self.plan.uplift:+.3f} (α = {self.plan.alpha:.3g}, from {self.pilot:,} pilot {self.unit})"
            )
        ]
        lines += [f"  with {saving.name}: {saving.horizon:,}" for saving in self.savings]
        return "\n".join(lines)


def registered_power(n: int, variance: float, uplift: float, alpha: float, lowest: float = 0.0) -> float:
    """P(a test registered for n decisions ever passes) at this uplift; `lowest` is the lowest possible score.

    Where `lowest` limits the stakes, they cannot follow what is missing; then ln E with the stake λ is nearly a
    Brownian motion with drift λ·uplift − λ²v/2 and variance λ²v per decision. The probability that it reaches b
    standard deviations within n, drifting by θ of them, is Φ(θ−b) + e^{2θb} Φ(−θ−b).
    """
    limit, most = log(1.0 / alpha), MOST / max(-lowest, 1e-12)
    at_first = sqrt(2.0 * limit / (n * variance))
    follows = float(np.interp(uplift * sqrt(n / variance), *_ending_test(alpha)))
    if 2.0 * at_first <= most:
        return follows
    stake = min(at_first, most)
    spread = stake * sqrt(n * variance)
    drift, barrier = stake * uplift * n / spread - spread / 2.0, limit / spread
    late = _NORMAL.cdf(-drift - barrier)
    reflected = exp(min(2.0 * drift * barrier + log(late), 0.0)) if late > 0.0 else 0.0
    return min(follows, _NORMAL.cdf(drift - barrier) + reflected)


@lru_cache(maxsize=64)
def _ending_test(alpha: float) -> tuple[Floats, Floats]:
    """Drifts, and the power at each of a test at this alpha."""
    z, drifts, chances = _ending_tests()
    at = sqrt(2.0 * log(1.0 / alpha))
    return drifts, np.array([np.interp(at, z, powers) for powers in chances])


@lru_cache(maxsize=1)
def _ending_tests() -> tuple[Floats, Floats, Floats]:
    """z [point], drifts, and the power at each [drift, point] of a test that always stakes by what is missing and left.

    With m missing of ln E, r of n decisions left and λ = √(2m/(r·v)), z = √(2m·r/n) follows dz = −(θ + 1/(2z)) dt + dB
    in t = decisions / n, with θ = uplift·√(n/v): a Bessel process of dimension 0 for θ = 0, which reaches 0, where the
    test passes, by t = 1 with probability e^(−z²/2) = α exactly. The equation for θ > 0 is solved by Crank-Nicolson.
    """
    step, steps = 0.08, 64
    drifts: Floats = np.linspace(0.0, 9.0, 25)
    z: Floats = step * np.arange(1.0, 101.0)
    toward = drifts[:, None] + 0.5 / z
    system = np.zeros((drifts.size, z.size, z.size))
    rows = np.arange(z.size)
    system[:, rows, rows] = -1.0 / step**2
    system[:, rows[1:], rows[:-1]] = (0.5 / step**2 + toward / (2.0 * step))[:, 1:]
    system[:, rows[:-1], rows[1:]] = (0.5 / step**2 - toward / (2.0 * step))[:, :-1]
    passed = np.zeros((drifts.size, z.size, 1))
    passed[:, 0, 0] = 0.5 / step**2 + toward[:, 0] / (2.0 * step)  # at z = 0 the chance is 1
    half, one = system / (2.0 * steps), np.eye(z.size)
    inverse = np.linalg.inv(one - half)
    forward, gain = inverse @ (one + half), inverse @ passed / steps
    chance = np.zeros_like(passed)
    for _ in range(steps):
        chance = forward @ chance + gain
    return z, drifts, chance[:, :, 0]


def decisions_needed(
    variance: float, uplift: float, alpha: float, power: float = POWER, *, lowest: float = 0.0
) -> int | None:
    """The horizon N that gives this power; None if the uplift is not above 0."""
    if uplift <= 0.0 or not isfinite(variance):
        return None
    floor = max(variance, 1e-12)
    return _first(lambda n: registered_power(n, floor, uplift, alpha, lowest) >= power)


def plan(
    chunks: Iterable[Log],
    *,
    uplift: float,
    margin: float = 0.0,
    power: float = POWER,
    alpha: float = sequential.ALPHA,
    challenger: int = 1,
    promotions: int = 0,
    from_decision: int | None = None,
    reward_range: tuple[float, float] | None = None,
    least: int = 200,
    canaries: tuple[float, ...] = (0.1, 0.2, 0.5),
    exploration: tuple[float, ...] = (0.1, 0.3),
) -> Planned:
    """A horizon from pilot rows (the candidate's and the current policy's probabilities on them).

    `canaries`: shares s of traffic given to the candidate, μ' = (1−s)·μ + s·π. `exploration`: uniform shares e over the
    candidates of each decision, μ' = (1−e)·μ + e/m. `from_decision` is the last decision that the test does not count.
    """
    if uplift <= margin:
        raise errors.InvalidInput(
            f"An uplift of {uplift!r} is not above the margin {margin!r}.",
            code="bad_uplift",
            hint="Plan for the smallest improvement that is worth a promotion.",
        )
    share = sequential.challenger_alpha(alpha, challenger, promotions)
    pilot = _pilot(chunks, canaries, exploration, reward_range)
    tally, variance = pilot.tally, pilot.tally.model_variance
    gain = uplift - margin
    needed = decisions_needed(variance, gain, share, power, lowest=pilot.lowest)
    if needed is None:
        raise errors.InvalidInput(
            f"No number of decisions can show an uplift of {uplift!r} here.",
            code="bad_uplift",
            hint="Plan for a larger uplift, or give the candidate canary traffic.",
        )
    savings = []
    noisy = variance - tally.direct.variance
    for name, total in pilot.noise.items():
        there = tally.direct.variance + min(noisy, total / tally.n)
        horizon = decisions_needed(there, gain, share, power, lowest=pilot.lowest * pilot.lighter[name])
        savings.append(Saving(name=name, horizon=max(horizon or 0, least), variance=there))
    registered = Plan(
        horizon=max(needed, least), uplift=uplift, power=power, alpha=share, margin=margin, from_decision=from_decision
    )
    return Planned(plan=registered, variance=variance, pilot=tally.n, savings=tuple(savings))


@dataclass(frozen=True, slots=True)
class _Pilot:
    """The scores of the pilot rows, and by name what each other way of logging would leave of their noise."""

    tally: ScoreTally
    lowest: float  # the lowest score that was possible
    noise: dict[str, float]
    lighter: dict[str, float]  # the heaviest weight, as a share of the present one


def _pilot(
    chunks: Iterable[Log],
    canaries: tuple[float, ...],
    exploration: tuple[float, ...],
    reward_range: tuple[float, float] | None,
) -> _Pilot:
    proof = LogProof(hashing=False, reward_range=reward_range)
    noise = {f"a {canary:.0%} canary": 0.0 for canary in canaries}
    noise |= {f"{share:.0%} more exploration": 0.0 for share in exploration}
    heaviest, heaviest_now = dict.fromkeys(noise, 0.0), 0.0
    for chunk in chunks:
        before = proof.tally.moved.copy() if proof.arms else None
        proof.update(chunk)
        grown = proof.tally.moved - (0.0 if before is None else before)
        now, others = _weights(chunk, canaries, exploration)
        heaviest_now = max(heaviest_now, now.heaviest)
        for name, weights in zip(noise, others, strict=True):
            ratio = np.where(now.squares > 0.0, weights.squares / np.where(now.squares > 0.0, now.squares, 1.0), 1.0)
            noise[name] += float(ratio @ (proof.tally.noise_ratio * grown))
            heaviest[name] = max(heaviest[name], weights.heaviest)
    if not proof.arms or proof.tally.n < 2:
        raise errors.InvalidInput(
            "There is no settled decision to plan from.",
            code="no_pilot",
            hint="Collect a few dozen decisions with outcomes first.",
        )
    lighter = {name: weight / heaviest_now if heaviest_now > 0.0 else 1.0 for name, weight in heaviest.items()}
    return _Pilot(proof.tally, proof.bets.better.lowest, noise, lighter)


@dataclass(frozen=True, slots=True)
class _Weights:
    """What a way of logging gives: [arm] Σ (π−b)²/μ, and the largest |π−b|/μ."""

    squares: Floats
    heaviest: float


def _weights(
    chunk: Log, canaries: tuple[float, ...], exploration: tuple[float, ...]
) -> tuple[_Weights, list[_Weights]]:
    """The weights of the present way of logging, and of each other one."""
    possible = chunk.logged > 0.0
    difference = np.where(possible, chunk.target - chunk.baseline, 0.0)
    uniform = possible / possible.sum(axis=1, keepdims=True)

    def of(logged: Floats) -> _Weights:
        weight = difference / np.where(possible, logged, 1.0)
        return _Weights((difference * weight).sum(axis=0), float(np.abs(weight).max(initial=0.0)))

    mixes = [(canary, chunk.target) for canary in canaries] + [(share, uniform) for share in exploration]
    return of(chunk.logged), [of((1.0 - share) * chunk.logged + share * mixed) for share, mixed in mixes]


def still_needed(
    variance: float, n: int, uplift: float, alpha: float, *, registered: bool, lowest: float = 0.0
) -> int | None:
    """Decisions still needed for 80% power at this uplift, given n already scored.

    With a registered horizon: N − n. Without one: the rows at which the gamblers' money suffices with that power.
    """
    size = decisions_needed if registered else sequence_needed
    needed = size(variance, uplift, alpha, lowest=lowest)
    return None if needed is None else max(0, needed - n)


def sequence_needed(
    variance: float, uplift: float, alpha: float, power: float = POWER, *, lowest: float = 0.0
) -> int | None:
    """The rows at which a test without horizon passes with this power."""
    if uplift <= 0.0 or not isfinite(variance):
        return None
    floor = max(variance, 1e-12)
    each, shares = stakes(alpha, None)
    rate = np.minimum(each / sqrt(floor), MOST / max(-lowest, 1e-12))

    def enough(n: int) -> bool:
        total = uplift * n - sequential.quantile(power) * sqrt(n * floor)
        wealth = shares + rate * total - 0.5 * rate**2 * (n * floor + uplift**2 * n)
        top = float(wealth.max())
        return top + log(float(np.exp(wealth - top).sum())) >= log(1.0 / alpha)

    return _first(enough)


def likely_range(evidence: Evidence) -> tuple[int, int, int | None] | None:
    """The rows still to come until a test without horizon passes, fewest, middle and most; None if that is unknown.

    Six of seven tests pass within the range. It follows the median of the estimates since half of the rows, half a
    standard error around it, and the luck of the bet between 20% and 80% power. The latest estimate alone moves twice
    as much from look to look. The most is None while the end is not in sight.
    """
    shown, n = evidence.difference, evidence.n
    error = (shown.high - shown.low) / _WIDTH
    gains = [mean for rows, mean, *_ in evidence.curve if 2 * rows >= n] + [shown.value]
    gain, variance = median(gains) - evidence.margin, n * error**2
    counted = 0 if evidence.waiting is None else evidence.waiting.counting  # made, and not counted yet
    left = None if evidence.prospect is None else max(1, evidence.prospect.most - n)  # the test ends then

    def still(by: float, power: float) -> int | None:
        rows = sequence_needed(variance, by, evidence.alpha, power)
        more = None if rows is None else max(1, rows - n - counted)
        return left if more is None else more if left is None else min(more, left)

    fewest, middle = still(gain + error / 2, 0.2), still(gain, 0.5)
    return None if fewest is None or middle is None else (fewest, middle, still(gain - error / 2, 0.8))


def _first(enough: Callable[[int], bool]) -> int | None:
    """The smallest number that is enough, for a condition that holds from some number on; None beyond 10^12."""
    high = 1
    while not enough(high):
        high *= 2
        if high > 10**12:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
