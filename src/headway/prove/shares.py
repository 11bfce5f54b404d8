"""Which share of the traffic decides a test with the fewest decisions: the planner of experiments.

    pilot = share_pilot(chunks, reward_range=(0.0, 1.0))
    pilot.needed(0.3, uplift=0.05, alpha=0.04)       # decisions to 80% power with 30% of the traffic
    cheapest(pilot, likely=0.02, within=5000, alpha=0.04)

While a candidate π gets a share s of the traffic of the current policy b, actions are drawn from μ = (1−s)·b + s·π,
and a score has the variance that μ gives it. s = 0 is the log alone. The test is the one without a horizon, so an
experiment may end at any look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import erfc, exp, inf, isfinite, pi, sqrt

import numpy as np

from headway.nouns import errors
from headway.prove.log import Floats, Log
from headway.prove.power import POWER, sequence_needed
from headway.prove.proof import LogProof

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
LEAST = 200  # no verdict before so many decisions
# A test that is read at every row passes by row n with this much less chance of failing than by its sum at n alone.
_READ_ALWAYS = 0.8
_ENOUGH = 1.05  # a smaller share is preferred if it needs at most so much more than the cheapest
_LOG_ENOUGH = 1.1  # the same for no share at all: an experiment is not worth a tenth


@dataclass(frozen=True, slots=True)
class _Mixed:
    """One score under μ = (1−share)·b + share·π."""

    variance: float
    lowest: float  # the lowest possible score


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePilot:
    """The scores of pilot rows, and what their variance would be with each share."""

    n: int
    difference: float  # the candidate's advantage on the pilot rows
    error: float  # its standard error
    logged: float  # the variance of a score as the rows were logged
    mixed: dict[float, _Mixed]

    @property
    def likely(self) -> float:
        """The advantage less its standard error, at least 0: the candidate was chosen because it looks good on them."""
        return max(0.0, self.difference - self.error)

    @property
    def shortfall(self) -> float:
        """By how much the candidate is expected to be worse per decision, E[max(0, −Δ)] with Δ ~ N(likely, error²)."""
        if self.error <= 0.0:
            return 0.0
        z = self.likely / self.error
        return self.error * (exp(-0.5 * z * z) / sqrt(2.0 * pi) - 0.5 * z * erfc(z / sqrt(2.0)))

    def needed(
        self, share: float, *, uplift: float, alpha: float, margin: float = 0.0, power: float = POWER, known: int = 0
    ) -> int | None:
        """Decisions until a verdict with this power; None if no number is enough.

        `known`: rows that the test has already, logged as the pilot was. They count by their variance.
        """
        mixed = self.mixed[share]
        at_end = 1.0 - (1.0 - power) / _READ_ALWAYS
        whole = sequence_needed(mixed.variance, uplift - margin, alpha, at_end, lowest=mixed.lowest)
        if whole is None:
            return None
        worth = known * min(1.0, mixed.variance / self.logged) if self.logged > 0.0 else 0.0
        return max(LEAST - known, whole - int(worth), 0)

    def smallest_uplift(self, share: float, *, within: int, alpha: float, margin: float = 0.0, known: int = 0) -> float:
        """The smallest uplift that is shown within so many decisions; infinite if there is none."""

        def shown(uplift: float) -> bool:
            needed = self.needed(share, uplift=uplift, alpha=alpha, margin=margin, known=known)
            return needed is not None and needed <= within

        low, high = margin, margin + 1e-3
        while not shown(high):
            low, high = high, margin + 2.0 * (high - margin)
            if high > 1e6:
                return inf
        for _ in range(20):
            middle = (low + high) / 2.0
            low, high = (low, middle) if shown(middle) else (middle, high)
        return high


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCost:
    """The decisions that a verdict needs with a share of the traffic."""

    share: float
    decisions: int | None  # None: no number is enough


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePlan:
    """The share to give a candidate, and what each one costs."""

    share: float  # 0: the log alone decides in time
    decisions: int | None  # with that share
    uplift: float  # that they show
    costs: tuple[ShareCost, ...]  # by share; the first is the log alone
    within: int

    @property
    def log_alone(self) -> int | None:
        """The decisions that a verdict needs without an experiment."""
        return self.costs[0].decisions

    @property
    def acting(self) -> ShareCost:
        """The cheapest share above 0, for an experiment that a person asks for."""
        return _smallest(self.costs[1:])


def cheapest(
    pilot: SharePilot,
    *,
    within: int,
    alpha: float,
    likely: float | None = None,
    margin: float = 0.0,
    most_share: float = 0.5,
    power: float = POWER,
    known: int = 0,
    running: bool = False,
) -> SharePlan:
    """The smallest share that decides with about the fewest decisions; 0 if the log alone is in time and as good.

    Plans for the likely uplift, but for none that is too small to be shown within `within` decisions by any share.
    `known`: rows that the test has already. They do not count for an experiment, unless it is `running`.
    """
    shares = [share for share in pilot.mixed if share <= most_share + 1e-12]
    has = {share: known if running or share == 0.0 else 0 for share in shares}
    shown = min(
        pilot.smallest_uplift(share, within=within, alpha=alpha, margin=margin, known=has[share]) for share in shares
    )
    uplift = max(pilot.likely if likely is None else likely, shown)
    if not isfinite(uplift):
        raise errors.InvalidInput(
            f"No uplift can be shown within {within:,} decisions.",
            code="bad_uplift",
            hint="Set decide_within to more decisions, or raise most_share.",
        )
    costs = tuple(
        ShareCost(
            share=share,
            decisions=pilot.needed(share, uplift=uplift, alpha=alpha, margin=margin, power=power, known=has[share]),
        )
        for share in shares
    )
    best, log = _smallest(costs), costs[0].decisions
    least = min(_count(cost) for cost in costs)
    if log is not None and log <= within and log <= _LOG_ENOUGH * least:
        best = costs[0]
    return SharePlan(share=best.share, decisions=best.decisions, uplift=uplift, costs=costs, within=within)


def _smallest(costs: tuple[ShareCost, ...]) -> ShareCost:
    least = min(map(_count, costs))
    return next(cost for cost in costs if _count(cost) <= _ENOUGH * least)


def _count(cost: ShareCost) -> float:
    return inf if cost.decisions is None else cost.decisions


def share_pilot(
    chunks: Iterable[Log],
    *,
    shares: tuple[float, ...] = SHARES,
    reward_range: tuple[float, float] | None = None,
) -> SharePilot:
    """The pilot from rows with both policies' probabilities. They are planned from, not judged: any rows will do."""
    proof = LogProof(hashing=False, reward_range=reward_range)
    moved: dict[float, Floats] = {}
    heaviest, heaviest_now = dict.fromkeys(shares, 0.0), 0.0
    for chunk in chunks:
        before = proof.tally.moved.copy() if proof.arms else 0.0
        proof.update(chunk)
        grown = proof.tally.moved - before  # [arm]; Σ (π−b)²/μ · shape(q) as the rows were logged
        squares_now, weight_now = _weights(chunk, chunk.logged)
        heaviest_now = max(heaviest_now, weight_now)
        for share in shares:
            squares, weight = _weights(chunk, (1.0 - share) * chunk.baseline + share * chunk.target)
            ratio = np.divide(squares, squares_now, out=np.ones_like(squares), where=squares_now > 0.0)
            moved[share] = moved.get(share, 0.0) + np.where(grown > 0.0, ratio * grown, 0.0)
            heaviest[share] = max(heaviest[share], weight)
    if not proof.arms or proof.tally.n < 2:
        raise errors.InvalidInput(
            "There is no settled decision to plan from.",
            code="no_pilot",
            hint="Collect a few dozen decisions with outcomes first.",
        )
    tally, lowest = proof.tally, proof.bets.better.lowest
    lighter = {share: weight / heaviest_now if heaviest_now > 0.0 else 1.0 for share, weight in heaviest.items()}
    return SharePilot(
        n=tally.n,
        difference=tally.scores.mean,
        error=float(np.sqrt(tally.variance / tally.n)),
        logged=tally.model_variance,
        mixed={
            share: _Mixed(tally.direct.variance + float(tally.noise_ratio @ total) / tally.n, lowest * lighter[share])
            for share, total in moved.items()
        },
    )


def _weights(chunk: Log, mixed: Floats) -> tuple[Floats, float]:
    """[arm] Σ (π−b)²/μ and the largest |π−b|/μ; infinite where μ is 0 and the policies differ."""
    difference = np.where(chunk.logged > 0.0, chunk.target - chunk.baseline, 0.0)
    weight = np.divide(
        difference, mixed, out=np.where(difference == 0.0, 0.0, np.copysign(inf, difference)), where=mixed > 0.0
    )
    return (difference * weight).sum(axis=0), float(np.abs(weight).max(initial=0.0))
