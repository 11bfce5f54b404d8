"""Quality against cost: the curve of policies between the best answer and the cheapest, from one log.

For each weight w, the policy that takes argmax over arms of quality(x, arm) − w · cost(x, arm), with both predicted by
models not fitted on the row (cross-fitted ridges), gets a doubly robust value on the same rows. A constraint ("at least
95% of the quality of always large") becomes the weight of the cheapest policy that still meets it, which goes into the
task's reward.

Not covered: proof. The weight is chosen on the same rows that value it, so a policy learned with it must still be
proven; and a curve of linear models is a lower bound for a better family.

Reads a task's decisions for the curve of quality against cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.kits.heldout import normal
from headway.kits.practice import one_thread
from headway.nouns import Estimate, Floats, errors
from headway.prove import held_out_predictions

if TYPE_CHECKING:
    from headway.nouns import Decision, Settled
    from headway.project import Project
    from headway.reward import Rewards

LEAST = 100  # rows needed for a curve
FOLDS = 5
WEIGHTS = 24  # of the curve, between both ends
_SURE = 1.2816  # one-sided 90% confidence that a constraint is met
NEWEST = 5_000  # decisions that a curve is drawn from, unless more are wanted
QUALITY = "quality"  # what the reward without its cost terms is called


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffPoint:
    """One policy of the curve; `weight` is what a unit of cost is worth in units of quality."""

    weight: float
    quality: Estimate
    cost: Estimate
    shares: Mapping[str, float]  # of the rows, per arm
    keeps: float | None = None  # lower confidence bound of the margin above the required quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Tradeoff:
    n: int
    points: tuple[TradeoffPoint, ...]  # from quality alone to the cheapest
    constants: Mapping[str, TradeoffPoint]  # always one arm
    of: str = ""
    at_least: float | None = None
    chosen: TradeoffPoint | None = None  # the cheapest that meets the constraint


def tradeoff(
    *,
    features: Floats,
    action: NDArray[np.int64],
    logged: Floats,
    quality: Floats,
    cost: Floats,
    arms: Sequence[str],
    at_least: float | None = None,
    of: str | None = None,
    seed: int = 0,
) -> Tradeoff:
    """The curve over these rows (no NaN). `of`: the reference arm; the best one by default."""
    n = len(action)
    if n < LEAST:
        raise errors.InvalidInput(
            f"{n} decisions have both signals; a curve needs {LEAST}.",
            code="too_few_rows",
            hint="Send the quality and the cost of every decision as signals.",
        )
    if of is not None and of not in arms:
        raise errors.UnknownName(f"There is no arm {of!r}.", code="unknown_arm", hint=errors.did_you_mean(of, arms))
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    scores, guesses = {}, {}
    for name, values in (("quality", quality), ("cost", cost)):
        guesses[name] = held_out_predictions(features, action, values, fold, arms=len(arms))
        scores[name] = _robust(guesses[name], action, logged, values)
    offered = logged > 0.0
    constants = {
        name: _point(0.0, np.full(n, column), scores, arms, None)
        for column, name in enumerate(arms)
        if offered[:, column].all()
    }
    wanted: Floats | None = None
    measure = of or ""
    if at_least is not None:
        measure = _reference(of, constants)
        wanted = at_least * scores["quality"][:, list(arms).index(measure)]
    points = []
    for weight in _weights(guesses["quality"], guesses["cost"], offered):
        worth = -guesses["cost"] if weight == inf else guesses["quality"] - weight * guesses["cost"]
        points.append(_point(weight, np.where(offered, worth, -inf).argmax(axis=1), scores, arms, wanted))
    kept = [point for point in points if point.keeps is not None and point.keeps >= 0.0]
    return Tradeoff(
        n=n,
        points=tuple(points),
        constants=constants,
        of=measure,
        at_least=at_least,
        chosen=min(kept, key=lambda candidate: candidate.cost.value) if kept else None,
    )


def _point(
    weight: float, chosen: NDArray[np.int64], scores: Mapping[str, Floats], arms: Sequence[str], wanted: Floats | None
) -> TradeoffPoint:
    """The policy that makes these choices; `wanted` [n] is the required quality."""
    rows, n = np.arange(len(chosen)), len(chosen)
    good, price = scores["quality"][rows, chosen], scores["cost"][rows, chosen]
    keeps = None
    if wanted is not None:
        gap = good - wanted
        keeps = float(gap.mean() - _SURE * gap.std(ddof=1) / sqrt(n))
    counts = np.bincount(chosen, minlength=len(arms)) / n
    return TradeoffPoint(
        weight=weight,
        quality=_estimate(good),
        cost=_estimate(price),
        shares={name: float(share) for name, share in zip(arms, counts, strict=True) if share > 0.0},
        keeps=keeps,
    )


def _reference(of: str | None, constants: Mapping[str, TradeoffPoint]) -> str:
    if not constants or (of is not None and of not in constants):
        raise errors.InvalidInput(
            "The reference arm was not offered in every decision.",
            code="arm_missing",
            hint="Name another --of.",
        )
    return of or max(constants, key=lambda name: constants[name].quality.value)


def _robust(guessed: Floats, action: NDArray[np.int64], logged: Floats, values: Floats) -> Floats:
    """[n, arm]; the doubly robust score of having chosen each arm."""
    rows = np.arange(len(action))
    scores = guessed.copy()
    scores[rows, action] += (values - guessed[rows, action]) / logged[rows, action]
    return scores


def _weights(quality: Floats, cost: Floats, offered: NDArray[np.bool_]) -> list[float]:
    """Weights at which decisions change: quantiles of quality gained per unit of cost, from 0 to the cheapest."""
    rates = []
    for left in range(quality.shape[1]):
        for right in range(left):
            both = offered[:, left] & offered[:, right]
            more = cost[both, left] - cost[both, right]
            gain = quality[both, left] - quality[both, right]
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = gain / more
            rates.append(rate[np.isfinite(rate) & (rate > 0.0)])
    every = np.concatenate(rates) if rates else np.zeros(0)
    if every.size == 0:
        return [0.0, inf]
    spread = np.quantile(every, np.linspace(0.01, 0.99, WEIGHTS))
    return [0.0, *(float(weight) for weight in np.unique(spread)), inf]


def _estimate(rows: Floats) -> Estimate:
    low, high = normal(rows)
    return Estimate(value=float(rows.mean()), low=low, high=high, n=rows.size, ess=float(rows.size), method="dr")


@dataclass(frozen=True, slots=True, kw_only=True)
class TradedSignals:
    """What is traded against what: a signal, or the reward without its cost terms, against a cost signal."""

    quality: str
    cost: str
    unit: str = ""  # the sign of the cost's currency
    rewards: Rewards | None = None  # what gives the quality; None: the signal of that name

    def value(self, row: Settled) -> float | None:
        """The quality of a decision. Failed decisions have the quality that a failure is worth, or 0 for a signal."""
        if self.rewards is None:
            return row.signals.get(self.quality, 0.0 if row.status == "failed" else None)
        return self.rewards.outcome(row.signals, age_s=0.0, decision=row.decision).reward


def traded_signals(project: Project, task: str, quality: str | None = None, cost: str | None = None) -> TradedSignals:
    """The signals that are named, or else the task's reward without cost and the signal that counts its money."""
    from headway.reward import Costs

    rewards = project.rewards(task)
    costs = Costs.of(rewards, project.query.signal_names(task), cost)
    if not costs.signal:
        raise errors.InvalidInput(
            f"No signal of {task!r} counts money.",
            code="cost_missing",
            hint="Send cost_usd with each outcome, or name another signal: --cost latency_s",
        )
    if quality is not None:
        return TradedSignals(quality=quality, cost=costs.signal, unit=costs.unit)
    without = rewards.without({*costs.terms, costs.signal})
    if rewards.signals and not without.signals:
        raise errors.InvalidInput(
            f"The reward of {task!r} has no term but cost.",
            code="quality_missing",
            hint="Name the signal to have more of: --quality solved",
        )
    return TradedSignals(quality=QUALITY, cost=costs.signal, unit=costs.unit, rewards=without)


def traded(
    project: Project,
    task: str,
    *,
    quality: str | None = None,
    cost: str | None = None,
    at_least: float | None = None,
    of: str | None = None,
    newest: int = NEWEST,
) -> Tradeoff:
    """The curve of quality against cost over the newest decisions; see `traded_signals` for the defaults."""
    from headway.encode import Tracker

    settings = project.settings.task(task)
    signals = traded_signals(project, task, quality, cost)
    left: Counter[str] = Counter()
    rows = []
    for row in project.newest_rows(task, newest, left):
        good, price = signals.value(row), row.signals.get(signals.cost)
        if good is not None and price is not None:
            rows.append((row.decision, good, price))
    if not rows:
        raise errors.InvalidInput(
            f"No settled decision of {task!r} has both {signals.quality!r} and {signals.cost!r}.",
            code="too_few_rows",
            hint="Send both as signals, or name others with --quality and --cost.",
        )
    if not any(price for _, _, price in rows):
        raise errors.InvalidInput(
            f"{signals.cost} is 0 on every decision of {task!r}, so there is nothing to save.",
            code="cost_missing",
            hint="Set price_in and price_out of the upstreams, or name another signal: --cost latency_s",
        )
    decisions = [decision for decision, _, _ in rows]
    arms = sorted({candidate.name for decision in decisions for candidate in decision.candidates})
    column = {name: place for place, name in enumerate(arms)}
    situations = [decision.situation for decision in decisions]
    encoder = project.servings.encoder_of(settings)
    with one_thread():  # the ridges are small: threads would wait for one another
        return tradeoff(
            features=Tracker(situations[:2000]).features(encoder).vectors(situations, encoder),
            action=np.array([column[decision.action] for decision in decisions]),
            logged=_logged(decisions, column),
            quality=np.array([good for _, good, _ in rows], dtype=np.float64),
            cost=np.array([price for _, _, price in rows], dtype=np.float64),
            arms=arms,
            at_least=at_least,
            of=of,
            seed=settings.seed,
        )


def _logged(decisions: Sequence[Decision], column: Mapping[str, int]) -> Floats:
    """[row, arm]: the probabilities with which the arms were chosen."""
    logged = np.zeros((len(decisions), len(column)))
    for place, decision in enumerate(decisions):
        for candidate, share in zip(decision.candidates, decision.probabilities, strict=True):
            logged[place, column[candidate.name]] = share
    return logged
