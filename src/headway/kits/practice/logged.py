"""Logged decisions of a `choice` task as matrices, and doubly robust estimates of every arm's reward in every row.

    log = gather(experience.part("train"), features, encoder, arms, most=50_000, rng=rng)
    q = crossfit(log)                            # [row, arm]: predicted by a reward model not fitted on the row
    rewards = doubly_robust(log, q)              # [row, arm]: unbiased for each row's expected reward of each arm

For arm a of a row logged with action A, propensity μ and reward r (Dudík et al., 2011):

    r̂(a) = q(x, a) + [a = A]·(r − q(x, A)) / max(μ, 1/cap)

Whatever q is, Σ_a π(a)·r̂(a) has the mean reward of π as its mean where μ ≥ 1/cap, as long as q does not depend on the
row's own reward: q is fitted on one half of the rows for the other half. The cap (50) trades bias for variance.

A row with unknown propensity trains q but adds no correction: its r̂ is q alone, with q's bias. Rows count by their
`weight` (below 1 if raters disagree).

Not covered: rewards that come later than their decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode import Features
from headway.learn import RowCounts
from headway.nouns import Encoder, Floats, Settled, errors

_CAP = 50.0
_RIDGE = 10.0
_WIDEST = 1024  # features; with more, an arm's model is its mean


@dataclass(frozen=True, slots=True)
class LoggedRows:
    """Rows of a log. `offered`: which arms were candidates."""

    x: NDArray[np.floating[Any]]  # [row, width]; features are exact in either precision
    action: NDArray[np.int64]
    reward: Floats
    propensity: Floats  # 0 if unknown
    offered: NDArray[np.bool_]  # [row, arm]
    weight: Floats  # [row]

    def __len__(self) -> int:
        return len(self.x)


def gather(
    rows: Iterable[Settled],
    features: Features,
    encoder: Encoder | None,
    arms: Sequence[str],
    *,
    most: int,
    rng: np.random.Generator,
    price: Callable[[str], float] = lambda _: 0.0,
    counts: RowCounts | None = None,
) -> LoggedRows:
    """At most `most` rows with a reward (a uniform sample); `price(arm)` is subtracted from the reward."""
    index = {name: place for place, name in enumerate(arms)}
    sampled = _sample(rows, most, rng, counts)
    kept = [row for row in sampled if row.decision.action in index and row.weight > 0.0]
    offered = np.zeros((len(kept), len(arms)), dtype=np.bool_)
    for place, row in enumerate(kept):
        for candidate in row.decision.candidates:
            if candidate.name in index:
                offered[place, index[candidate.name]] = True
    return LoggedRows(
        x=_vectors(kept, features, encoder),
        action=np.array([index[row.decision.action] for row in kept], dtype=np.int64),
        reward=np.array([float(row.reward or 0.0) - price(row.decision.action) for row in kept]),
        propensity=np.array([row.decision.propensity for row in kept]),
        offered=offered,
        weight=np.array([row.weight for row in kept], dtype=np.float64),
    )


def _sample(rows: Iterable[Settled], most: int, rng: np.random.Generator, counts: RowCounts | None) -> list[Settled]:
    """At most `most` rows with a reward, each equally likely."""
    kept: list[Settled] = []
    seen = 0
    for row in rows:
        if counts is not None:
            counts.row(row)
        if row.reward is None:
            continue
        if not np.isfinite(row.reward):
            raise errors.InvalidInput(
                f"The reward of row {row.seq} is {row.reward!r}.", code="not_finite", hint="Rescore it."
            )
        if len(kept) < most:
            kept.append(row)
        elif (place := int(rng.integers(seen + 1))) < most:
            kept[place] = row
        seen += 1
    return kept


def _vectors(rows: Sequence[Settled], features: Features, encoder: Encoder | None) -> Floats:
    parts = [
        features.vectors([row.decision.situation for row in rows[begin : begin + 2048]], encoder)
        for begin in range(0, len(rows), 2048)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, features.width))


@dataclass(frozen=True, slots=True)
class ArmMeans:
    """A ridge regression per arm around the arm's (shrunk) mean."""

    means: Floats  # [arm]
    weights: Floats | None  # [width, arm]

    def predict(self, x: NDArray[np.floating[Any]]) -> Floats:
        """[row, arm]"""
        if self.weights is None:
            return np.tile(self.means, (len(x), 1))
        predicted: Floats = x @ self.weights
        predicted += self.means
        return predicted


def fitted(log: LoggedRows, part: NDArray[np.bool_] | None = None) -> ArmMeans:
    """The model of these rows."""
    x, action, reward, weight = log.x, log.action, log.reward, log.weight
    if part is not None:
        x, action, reward, weight = x[part], action[part], reward[part], weight[part]
    count, width = log.offered.shape[1], log.x.shape[1]
    pooled = float(np.average(reward, weights=weight)) if weight.sum() > 0.0 else 0.0
    means = np.full(count, pooled)
    weights = np.zeros((width, count)) if width <= _WIDEST else None
    for arm in range(count):
        mine = action == arm
        counts = weight[mine]
        means[arm] = (float((counts * reward[mine]).sum()) + pooled) / (float(counts.sum()) + 1.0)
        if weights is not None and mine.any():
            own = x[mine].astype(np.float64)
            weighted = own * counts[:, None]
            moments = own.T @ weighted
            moments[np.diag_indices(width)] += _RIDGE
            weights[:, arm] = np.linalg.solve(moments, weighted.T @ (reward[mine] - means[arm]))
    return ArmMeans(means, weights)


def crossfit(log: LoggedRows) -> Floats:
    """[row, arm]: each half of the rows predicted by the model of the other half."""
    q = np.empty(log.offered.shape)
    half = np.arange(len(log)) % 2 == 0
    for part in (half, ~half):
        q[part] = fitted(log, ~part).predict(log.x[part])
    return q


def doubly_robust(log: LoggedRows, q: Floats) -> Floats:
    """[row, arm]: r̂ of every arm."""
    rows = np.arange(len(log))
    rewards = q.copy()
    known = log.propensity > 0.0
    rewards[rows, log.action] += known * (log.reward - q[rows, log.action]) / np.maximum(log.propensity, 1.0 / _CAP)
    return rewards


def value_of(target: Floats, rewards: Floats, weight: Floats | None = None) -> float:
    """The mean reward of a policy [row, arm], given doubly robust rewards."""
    return float(np.average((target * rewards).sum(axis=1), weights=weight)) if len(target) else 0.0


def baselines_of(log: LoggedRows, rewards: Floats, model: ArmMeans) -> Mapping[str, float]:
    """The mean rewards of simple baselines on these rows."""
    if not len(log):
        return {}
    uniform = log.offered / np.maximum(log.offered.sum(axis=1, keepdims=True), 1)
    best = int(model.means.argmax())
    constant = uniform.copy()
    there = log.offered[:, best]
    constant[there] = 0.0
    constant[there, best] = 1.0
    return {
        "behaviour": float(np.average(log.reward, weights=log.weight)),
        "uniform": value_of(uniform, rewards, log.weight),
        "constant_best": value_of(constant, rewards, log.weight),
    }
