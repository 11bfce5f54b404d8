"""The consensus of several raters: the quality of each item, and the bias, scale and noise of each rater.

    agreed = consensus([Rating("a", "ann", 4.0), Rating("a", "bob", 2.0), Rating("b", "ann", 5.0)])
    agreed.items["a"].mean, agreed.items["a"].variance
    agreed.raters["bob"].bias, agreed.raters["bob"].noise, agreed.raters["bob"].reversed

Rater j gives item i the rating

    y = μ + bias_j + scale_j·u_i + noise,     quality_i = μ + u_i
    u_i ~ N(0, τ²)    bias_j ~ N(0, s²)    scale_j ~ N(±1, a²)    noise ~ N(0, σ_j²)

(Dawid and Skene's idea for numbers; with bias and noise per rater it is Piech et al. 2013, PG1.) A negative
scale means that a rater understood the scale the wrong way round: the sign is decided by comparison with the other
raters, and such ratings count reversed.

Method: EM. The E step is exact: given scales and variances, (μ, bias, u) are jointly normal, and eliminating the items
leaves a system with one unknown per rater. The M step has closed forms, with weak priors towards the common variance.
The reported variances are those of the same normal distribution with the scales as further unknowns (Laplace), so they
include the uncertainty about the raters. There is no sampling: the same ratings, in any order, give the same numbers,
and a withdrawn rating leaves no trace.

With one rater there is nothing to compare: the ratings are used unchanged, with variance 0.
Not covered: raters who change over time; ordinal ratings (stars are treated as numbers).
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

Item = TypeVar("Item", bound=Hashable)
MOST_RATERS = 200  # raters beyond this number, with the fewest ratings, are treated as one
OTHERS = "(others)"
_EQUAL = 1e-24  # a variance below this, relative to the ratings' squares, is rounding


class Rating(NamedTuple, Generic[Item]):
    """One rater's number for one item."""

    item: Item
    rater: str
    value: float


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of one item."""

    mean: float
    variance: float
    ratings: int
    reliability: float  # the known share of its deviation from other items: 0 nothing, 1 all

    def interval(self, width: float = 1.2815515655446004) -> tuple[float, float]:
        """mean ± width standard deviations; 80% by default."""
        half = width * math.sqrt(self.variance)
        return self.mean - half, self.mean + half


@dataclass(frozen=True, slots=True)
class RaterFit:
    """The parameters of one rater."""

    ratings: int
    bias: float
    bias_std: float
    noise: float  # standard deviation
    scale: float
    scale_std: float
    reversed: float  # the probability that the scale is reversed

    @property
    def information(self) -> float:
        """The precision that one rating of this rater adds to an item."""
        return (self.scale / self.noise) ** 2 if self.noise > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class Agreed(Generic[Item]):
    """The consensus on all items. `spread` is the prior variance τ² of quality, `mean` its mean μ."""

    items: Mapping[Item, Quality]
    raters: Mapping[str, RaterFit]
    mean: float
    spread: float
    compared: bool  # False: fewer than two raters or no differences; ratings are used unchanged

    @property
    def typical(self) -> float:
        """The precision that a rating by a typical rater adds (the median over ratings)."""
        known = [rater for rater in self.raters.values() if math.isfinite(rater.information)]
        if not known:
            return math.inf
        order = sorted(known, key=lambda rater: rater.information)
        half, count = sum(rater.ratings for rater in known) / 2.0, 0
        for rater in order:
            count += rater.ratings
            if count >= half:
                return rater.information
        return order[-1].information


def consensus(ratings: Iterable[Rating[Item]]) -> Agreed[Item]:
    """The posterior mean and variance of every rated item, and the parameters of each rater."""
    rows = list(ratings)
    if not rows:
        return Agreed({}, {}, 0.0, 0.0, compared=False)
    rows.sort(
        key=lambda rating: (rating.rater, repr(rating.item), rating.value)
    )  # the order of arrival must not matter
    counts = Counter(row.rater for row in rows)
    items: dict[Item, int] = {}
    for row in rows:
        items.setdefault(row.item, len(items))
    place = np.array([items[row.item] for row in rows])
    values = np.array([row.value for row in rows], dtype=np.float64)
    variance = float(values.var())
    if len(counts) < 2 or variance <= _EQUAL * float((values * values).mean() + 1.0):
        return _unchanged(items, place, values, counts)
    raters = sorted(sorted(counts, key=lambda name: (-counts[name], name))[:MOST_RATERS])
    names = {name: index for index, name in enumerate(raters)}
    if len(counts) > len(raters):
        names |= dict.fromkeys((name for name in counts if name not in names), len(raters))
        raters = [*raters, OTHERS]
    who = np.array([names[row.rater] for row in rows])
    # In units of the ratings' own spread, so that priors and tolerances mean the same for stars and for dollars.
    middle, unit = float(values.mean()), math.sqrt(variance)
    return _in_original_units(
        fit(place, who, (values - middle) / unit, len(items), len(raters)), items, raters, place, who, middle, unit
    )


def _in_original_units(
    fitted: Fit,
    items: Mapping[Item, int],
    raters: list[str],
    place: NDArray[np.int64],
    who: NDArray[np.int64],
    middle: float,
    unit: float,
) -> Agreed[Item]:
    per_item = np.bincount(place, minlength=len(items)).tolist()
    per_rater = np.bincount(who, minlength=len(raters)).tolist()
    means = (middle + unit * fitted.quality).tolist()
    variances = (unit * unit * fitted.variance).tolist()
    known = fitted.reliability.tolist()
    return Agreed(
        {item: Quality(means[index], variances[index], per_item[index], known[index]) for item, index in items.items()},
        {
            name: RaterFit(
                ratings=per_rater[index],
                bias=unit * float(fitted.bias[index]),
                bias_std=unit * math.sqrt(float(fitted.bias_variance[index])),
                noise=unit * math.sqrt(float(fitted.noise[index])),
                scale=float(fitted.scale[index]),
                scale_std=math.sqrt(float(fitted.scale_variance[index])),
                reversed=float(fitted.reversed[index]),
            )
            for index, name in enumerate(raters)
        },
        middle + unit * fitted.mean,
        unit * unit * fitted.spread,
        compared=True,
    )


def _unchanged(
    items: Mapping[Item, int], place: NDArray[np.int64], values: NDArray[np.float64], counts: Mapping[str, int]
) -> Agreed[Item]:
    per_item = np.bincount(place)
    means = (np.bincount(place, weights=values) / per_item).tolist()
    raters = {name: RaterFit(counts[name], 0.0, 0.0, 0.0, 1.0, 0.0, 0.0) for name in sorted(counts)}
    qualities = {item: Quality(means[index], 0.0, int(per_item[index]), 1.0) for item, index in items.items()}
    return Agreed(qualities, raters, float(values.mean()), float(np.var(means)), compared=False)
