"""What several raters agree on: the quality of each item, and how each rater rates.

    agreed = consensus([Rating("a", "ann", 4.0), Rating("a", "bob", 2.0), Rating("b", "ann", 5.0)])
    agreed.items["a"].mean, agreed.items["a"].variance
    agreed.raters["bob"].bias, agreed.raters["bob"].noise, agreed.raters["bob"].reversed

Rater j gives item i the rating

    y = μ + bias_j + scale_j·u_i + noise,     quality_i = μ + u_i
    u_i ~ N(0, τ²)    bias_j ~ N(0, s²)    scale_j ~ N(±1, a²)    noise ~ N(0, σ_j²)

(Dawid and Skene's idea for numbers; with bias and noise per rater it is Piech et al. 2013, PG1.) A scale below 0 is a
rater who reads the question the wrong way round: the sign is decided against what the others say, and such ratings
count reversed.

How: EM. The E step is exact: given scales and variances, (μ, bias, u) are jointly normal, and with the items eliminated
only a system of one unknown per rater is left. The M step has closed forms, with weak priors towards the raters'
common variance. The variances that are given out are those of the same normal with the scales as further unknowns
(Laplace), so they include not knowing the raters. No sampling: the same ratings, in any order, give the same numbers,
and a withdrawn rating leaves nothing behind.

With one rater there is nothing to compare: their ratings are taken as they are, with variance 0.
Not covered: raters who change over time; ratings that are ordinal more than numbers (stars are taken as numbers).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from headway.reward.raters_model import Fit, fit

__all__ = ["Agreed", "Quality", "Rater", "Rating", "consensus"]

Item = TypeVar("Item", bound=Hashable)
MOST_RATERS = 200  # those with the fewest ratings beyond that are taken as one
OTHERS = "(others)"
_EQUAL = 1e-24  # a variance below this, relative to the ratings' squares, is rounding


class Rating(NamedTuple, Generic[Item]):
    """One rater's number for one item."""

    item: Item
    rater: str
    value: float


@dataclass(frozen=True, slots=True)
class Quality:
    """What is known of one item."""

    mean: float
    variance: float
    ratings: int
    reliability: float  # how much of what sets it apart from other items is known: 0 nothing, 1 all

    def interval(self, width: float = 1.2815515655446004) -> tuple[float, float]:
        """mean ± width standard deviations; 80% by default."""
        half = width * math.sqrt(self.variance)
        return self.mean - half, self.mean + half


@dataclass(frozen=True, slots=True)
class Rater:
    """How one rater rates."""

    ratings: int
    bias: float
    bias_std: float
    noise: float  # standard deviation
    scale: float
    scale_std: float
    reversed: float  # the probability that the scale is turned round

    @property
    def information(self) -> float:
        """What one rating of theirs says about an item: the precision it adds."""
        return (self.scale / self.noise) ** 2 if self.noise > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class Agreed(Generic[Item]):
    """The consensus on all items. `spread` is the prior variance τ² of quality, `mean` its mean μ."""

    items: Mapping[Item, Quality]
    raters: Mapping[str, Rater]
    mean: float
    spread: float
    compared: bool  # False: fewer than two raters, or nothing that differs; ratings are taken as they are

    @property
    def typical(self) -> float:
        """The precision that a rating by a typical rater adds (the median over ratings)."""
        known = [each for each in self.raters.values() if math.isfinite(each.information)]
        if not known:
            return math.inf
        order = sorted(known, key=lambda each: each.information)
        half, seen = sum(each.ratings for each in known) / 2.0, 0
        for each in order:
            seen += each.ratings
            if seen >= half:
                return each.information
        return order[-1].information


def consensus(ratings: Iterable[Rating[Item]]) -> Agreed[Item]:
    """The posterior mean and variance of every item that was rated, and each rater's ways."""
    rows = list(ratings)
    if not rows:
        return Agreed({}, {}, 0.0, 0.0, compared=False)
    rows.sort(key=lambda each: (each.rater, repr(each.item), each.value))  # the order of arrival must not matter
    counts = Counter(each.rater for each in rows)
    items: dict[Item, int] = {}
    for each in rows:
        items.setdefault(each.item, len(items))
    place = np.array([items[each.item] for each in rows])
    values = np.array([each.value for each in rows], dtype=np.float64)
    variance = float(values.var())
    if len(counts) < 2 or variance <= _EQUAL * float((values * values).mean() + 1.0):
        return _as_they_are(items, place, values, counts)
    kept = sorted(sorted(counts, key=lambda name: (-counts[name], name))[:MOST_RATERS])
    names = {name: index for index, name in enumerate(kept)}
    if len(counts) > len(kept):
        names |= dict.fromkeys((name for name in counts if name not in names), len(kept))
        kept = [*kept, OTHERS]
    who = np.array([names[each.rater] for each in rows])
    # In units of the ratings' own spread, so that priors and tolerances mean the same for stars and for dollars.
    middle, unit = float(values.mean()), math.sqrt(variance)
    return _told(
        fit(place, who, (values - middle) / unit, len(items), len(kept)), items, kept, place, who, middle, unit
    )


def _told(
    found: Fit,
    items: Mapping[Item, int],
    kept: list[str],
    place: NDArray[np.int64],
    who: NDArray[np.int64],
    middle: float,
    unit: float,
) -> Agreed[Item]:
    per_item = np.bincount(place, minlength=len(items)).tolist()
    per_rater = np.bincount(who, minlength=len(kept)).tolist()
    means = (middle + unit * found.quality).tolist()
    variances = (unit * unit * found.variance).tolist()
    known = found.reliability.tolist()
    return Agreed(
        {item: Quality(means[index], variances[index], per_item[index], known[index]) for item, index in items.items()},
        {
            name: Rater(
                ratings=per_rater[index],
                bias=unit * float(found.bias[index]),
                bias_std=unit * math.sqrt(float(found.bias_variance[index])),
                noise=unit * math.sqrt(float(found.noise[index])),
                scale=float(found.scale[index]),
                scale_std=math.sqrt(float(found.scale_variance[index])),
                reversed=float(found.reversed[index]),
            )
            for index, name in enumerate(kept)
        },
        middle + unit * found.mean,
        unit * unit * found.spread,
        compared=True,
    )


def _as_they_are(
    items: Mapping[Item, int], place: NDArray[np.int64], values: NDArray[np.float64], counts: Mapping[str, int]
) -> Agreed[Item]:
    per_item = np.bincount(place)
    means = (np.bincount(place, weights=values) / per_item).tolist()
    raters = {name: Rater(counts[name], 0.0, 0.0, 0.0, 1.0, 0.0, 0.0) for name in sorted(counts)}
    found = {item: Quality(means[index], 0.0, int(per_item[index]), 1.0) for item, index in items.items()}
    return Agreed(found, raters, float(values.mean()), float(np.var(means)), compared=False)
