"""The numbers behind `raters`: EM for a rater's bias, scale and noise, with the items' quality integrated out exactly.

Unknowns, in units of the ratings' spread: μ and bias_j (together θ), u_i per item. Given scales α and variances the log
posterior is quadratic. Eliminating the items leaves S·θ = t with

    λ_i = 1/τ² + Σ_j α_j²/σ_j²        S = A − Σ_i c_i c_iᵀ/λ_i        Var(θ) = S⁻¹
    u_i = (d_i − c_iᵀθ)/λ_i            Var(u_i) = 1/λ_i + c_iᵀ S⁻¹ c_i/λ_i²

where c_i holds α_j/σ_j² for each rating of the item, on μ and on bias_j. An item touches few raters, so S is summed up
over pairs of ratings of the same item.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fit", "fit"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_ROUNDS = 200
_CLOSE = 1e-6
_SAMPLE = 20_000  # ratings that the raters' ways are first found on
_FEW_ROUNDS = 6  # on all of them, after that
_REVERSED = 0.05  # how likely a rater is to be one, before anything is known
_NOISE_ROWS = 4.0  # the common noise variance counts as so many ratings of each rater
_BIAS_RATERS, _BIAS_PRIOR = 1.0, 0.25  # one rater's worth of a bias of half the ratings' spread
_SCALE_RATERS, _SCALE_PRIOR = 4.0, 0.05
_SPREAD_ITEMS, _SPREAD_PRIOR = 2.0, 0.5
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Fit:
    """Per item and per rater, in the units that came in."""

    quality: Floats  # [item]
    variance: Floats
    reliability: Floats  # 1 − Var(u)/τ²: how much of what sets the item apart is known
    bias: Floats  # [rater]
    bias_variance: Floats
    scale: Floats
    scale_variance: Floats
    noise: Floats  # variance
    reversed: Floats  # probability
    mean: float
    spread: float  # τ²


@dataclass(slots=True)
class _Ratings:
    """Ratings with, per item, the pairs of ratings that it joins."""

    item: Places
    rater: Places
    value: Floats
    items: int
    raters: int
    left: Places  # pairs: places of two ratings of the same item, both orders and each with itself
    right: Places


@dataclass(slots=True)
class _Ways:
    """How raters rate: what the M step sets."""

    scale: Floats
    noise: Floats
    spread: float
    bias_spread: float
    scale_spread: float
    sign: Floats


@dataclass(slots=True)
class _Known:
    """What the E step gives."""

    mean: float
    bias: Floats
    u: Floats
    u_variance: Floats
    bias_second: Floats  # E[bias²]
    residual: Floats  # [rating] E[(y − μ − bias − α·u)²]
    cross: Floats  # [rating] E[u·(y − μ − bias)]


def fit(item: Places, rater: Places, value: Floats, items: int, raters: int) -> Fit:
    """The fit of ratings in units of their own spread; at least two raters."""
    ratings = _Ratings(item, rater, value, items, raters, *_pairs(item))
    if len(value) > 2 * _SAMPLE:
        ways = _settled(_some(ratings))
        found = _em(ratings, ways, _FEW_ROUNDS)
    else:
        ways = _settled(ratings)
        found = _expect(ratings, ways)
    odds = _turned(ratings, ways, found)
    variance, own, bias_variance, scale_variance = _laplace(ratings, ways, found)
    return Fit(
        quality=found.mean + found.u,
        variance=variance,
        reliability=np.clip(1.0 - own / ways.spread, 0.0, 1.0),
        bias=found.bias,
        bias_variance=bias_variance,
        scale=ways.scale,
        scale_variance=scale_variance,
        noise=ways.noise,
        reversed=1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0))),
        mean=found.mean,
        spread=ways.spread,
    )


def _settled(ratings: _Ratings) -> _Ways:
    """The raters' ways, signs included: a sign is decided by what the others say, which depends on their signs."""
    ways = _start(ratings)
    found = _em(ratings, ways)
    for _ in range(4):
        signs = np.where(_turned(ratings, ways, found) > 0.0, -1.0, 1.0)
        if (signs == ways.sign).all():
            break
        ways = _start(ratings, signs)
        found = _em(ratings, ways)
    return ways


def _some(ratings: _Ratings) -> _Ratings:
    """Every k-th item with all its ratings, so that about `_SAMPLE` ratings are left."""
    step = -(-len(ratings.value) // _SAMPLE)
    kept = np.flatnonzero(ratings.item % step == 0)
    item = ratings.item[kept] // step
    return _Ratings(item, ratings.rater[kept], ratings.value[kept], int(item.max()) + 1, ratings.raters, *_pairs(item))


def _pairs(item: Places) -> tuple[Places, Places]:
    order = np.argsort(item, kind="stable")
    ordered = item[order]
    left, right = [order], [order]
    step = 1
    while step < len(item):
        same = np.flatnonzero(ordered[step:] == ordered[:-step])
        if not len(same):
            break
        a, b = order[same], order[same + step]
        left += [a, b]
        right += [b, a]
        step += 1
    return np.concatenate(left), np.concatenate(right)


def _start(ratings: _Ratings, signs: Floats | None = None) -> _Ways:
    if signs is None:
        signs = _first_signs(ratings)
    return _Ways(
        scale=signs.copy(),
        noise=np.full(ratings.raters, 0.5),
        spread=0.5,
        bias_spread=_BIAS_PRIOR,
        scale_spread=_SCALE_PRIOR,
        sign=signs,
    )


def _first_signs(ratings: _Ratings) -> Floats:
    """−1 for raters who run against the mean of the others on the items they share."""
    centred = ratings.value - _mean_by(ratings.rater, ratings.value, ratings.raters)[ratings.rater]
    signs = np.ones(ratings.raters)
    for _ in range(3):
        turned = centred * signs[ratings.rater]
        total = np.bincount(ratings.item, turned, ratings.items)
        count = np.bincount(ratings.item, minlength=ratings.items)
        others = total[ratings.item] - turned
        shared = count[ratings.item] > 1
        others = np.where(shared, others / np.maximum(count[ratings.item] - 1, 1), 0.0)
        product = np.bincount(ratings.rater, centred * others, ratings.raters)
        found = np.where(product < 0.0, -1.0, 1.0)
        if found.sum() < 0.0:  # most raters are right, by definition
            found = -found
        if (found == signs).all():
            break
        signs = found
    return signs


def _mean_by(place: Places, value: Floats, count: int) -> Floats:
    return np.bincount(place, value, count) / np.maximum(np.bincount(place, minlength=count), 1)


def _em(ratings: _Ratings, ways: _Ways, rounds: int = _ROUNDS) -> _Known:
    found = _expect(ratings, ways)
    before = np.inf
    for _ in range(rounds):
        _maximise(ratings, ways, found)
        found = _expect(ratings, ways)
        now = float(np.abs(found.u).sum() + np.abs(found.bias).sum()) + float(np.log(ways.noise).sum())
        if abs(now - before) < _CLOSE * (1.0 + abs(now)):
            break
        before = now
    return found


def _expect(ratings: _Ratings, ways: _Ways) -> _Known:
    """The exact posterior of μ, bias and u, given scales and variances."""
    rater, item, value = ratings.rater, ratings.item, ratings.value
    precision = 1.0 / ways.noise[rater]
    alpha = ways.scale[rater]
    load = alpha * precision  # cross term of u with μ and with bias
    weight = np.bincount(item, alpha * load, ratings.items) + 1.0 / ways.spread  # λ
    count = ratings.raters
    # A and its right side, μ first
    system = np.zeros((count + 1, count + 1))
    per = np.bincount(rater, precision, count)
    system[1:, 1:] = np.diag(per + 1.0 / ways.bias_spread)
    system[0, 1:] = system[1:, 0] = per
    system[0, 0] = per.sum() + _LEAST
    side = np.concatenate([[float((precision * value).sum())], np.bincount(rater, precision * value, count)])
    # less what the items carry
    scaled = load / weight[item]
    pairs = np.bincount(
        rater[ratings.left] * count + rater[ratings.right], load[ratings.left] * scaled[ratings.right], count * count
    ).reshape(count, count)
    system[1:, 1:] -= pairs
    system[0, 1:] -= pairs.sum(axis=0)
    system[1:, 0] -= pairs.sum(axis=1)
    system[0, 0] -= pairs.sum()
    aim = np.bincount(item, load * value, ratings.items)  # d
    carried = np.bincount(rater, scaled * aim[item], count)
    side[1:] -= carried
    side[0] -= carried.sum()
    covariance = np.linalg.inv(0.5 * (system + system.T))
    theta = covariance @ side
    mean, bias = float(theta[0]), theta[1:]
    u = (aim - np.bincount(item, load * (mean + bias[rater]), ratings.items)) / weight
    # Cov(θ, u_i) = −S⁻¹c_i/λ_i; its rows for μ, and for the rater of each rating
    to_mean = covariance[0, 0] * np.bincount(item, load, ratings.items)
    to_mean = -(to_mean + np.bincount(item, load * covariance[0, 1:][rater], ratings.items)) / weight
    inner = covariance[1:, 1:]
    own = covariance[1:, 0][rater] * np.bincount(item, load, ratings.items)[item] + np.bincount(
        ratings.left, inner[rater[ratings.left], rater[ratings.right]] * load[ratings.right], len(rater)
    )
    own = -own / weight[item]  # [rating]
    u_variance = 1.0 / weight - (to_mean * np.bincount(item, load, ratings.items)
                                 + np.bincount(item, load * own, ratings.items)) / weight  # fmt: skip
    level = covariance[0, 0] + 2.0 * covariance[0, 1:] + np.diag(inner)  # Var(μ + bias)
    to_level = to_mean[item] + own  # Cov(u_i, μ + bias_j)
    left = value - mean - bias[rater]
    residual = (left - alpha * u[item]) ** 2
    residual += alpha**2 * u_variance[item] + level[rater] + 2.0 * alpha * to_level
    return _Known(
        mean=mean,
        bias=bias,
        u=u,
        u_variance=u_variance,
        bias_second=bias**2 + np.diag(inner),
        residual=residual,
        cross=u[item] * left - to_level,
    )


def _maximise(ratings: _Ratings, ways: _Ways, found: _Known) -> None:
    rater, count = ratings.rater, ratings.raters
    second = found.u_variance + found.u**2
    rows = np.bincount(rater, minlength=count)
    per_noise = 1.0 / ways.noise
    across = np.bincount(rater, found.cross, count) * per_noise
    along = np.bincount(rater, second[ratings.item], count) * per_noise
    ways.scale = (across + ways.sign / ways.scale_spread) / (along + 1.0 / ways.scale_spread)
    residual = np.bincount(rater, found.residual, count)
    common = float(residual.sum() / rows.sum())
    ways.noise = np.maximum((residual + _NOISE_ROWS * common) / (rows + _NOISE_ROWS), _LEAST)
    ways.spread = float((second.sum() + _SPREAD_ITEMS * _SPREAD_PRIOR) / (len(second) + _SPREAD_ITEMS))
    ways.bias_spread = float((found.bias_second.sum() + _BIAS_RATERS * _BIAS_PRIOR) / (count + _BIAS_RATERS))
    off = (ways.scale * ways.sign - 1.0) ** 2 + 1.0 / (along + 1.0 / ways.scale_spread)
    ways.scale_spread = float((off.sum() + _SCALE_RATERS * _SCALE_PRIOR) / (count + _SCALE_RATERS))


def _turned(ratings: _Ratings, ways: _Ways, found: _Known) -> Floats:
    """Log odds that each rater's scale is turned round, by what the others say of the same items.

    The quality of each item without this rater's own ratings, N(m, v), predicts y − level ~ N(±m, v + σ²).
    """
    rater, item = ratings.rater, ratings.item
    alpha, noise = ways.scale[rater], ways.noise[rater]
    weight = np.bincount(item, alpha**2 / noise, ratings.items) + 1.0 / ways.spread
    left = ratings.value - found.mean - found.bias[rater]
    aim = np.bincount(item, alpha * left / noise, ratings.items)
    # all ratings of this rater on this item leave together
    same = rater[ratings.left] == rater[ratings.right]
    mine, yours = ratings.left[same], ratings.right[same]
    own_weight = np.bincount(mine, (alpha**2 / noise)[yours], len(rater))
    own_aim = np.bincount(mine, (alpha * left / noise)[yours], len(rater))
    others = np.maximum(weight[item] - own_weight, 1.0 / ways.spread)
    m, v = (aim[item] - own_aim) / others, 1.0 / others
    # The level under each sign: without it, a bias that was fitted with the wrong sign would speak for that sign.
    odds: Floats = np.full(ratings.raters, math.log(_REVERSED / (1.0 - _REVERSED)))
    spread = v + noise
    for sign, factor in ((-1.0, 1.0), (1.0, -1.0)):
        gap = ratings.value - found.mean - sign * m
        share = np.bincount(rater, 1.0 / spread, ratings.raters) + 1.0 / ways.bias_spread
        level = np.bincount(rater, gap / spread, ratings.raters) / share
        odds += factor * 0.5 * level**2 * share
        odds -= factor * 0.5 * np.bincount(rater, gap**2 / spread, ratings.raters)
    return odds


def _laplace(ratings: _Ratings, ways: _Ways, found: _Known) -> tuple[Floats, Floats, Floats, Floats]:
    """Variances of quality, u, bias and scale, with the scales among the unknowns."""
    rater, item, count = ratings.rater, ratings.item, ratings.raters
    precision = 1.0 / ways.noise[rater]
    alpha, u = ways.scale[rater], found.u[item]
    second = (found.u_variance + found.u**2)[item]
    weight = np.bincount(item, alpha**2 * precision, ratings.items) + 1.0 / ways.spread
    size = 2 * count + 1  # μ, biases, scales
    mine, scales = 1 + rater, 1 + count + rater
    system = np.zeros((size, size))
    system[0, 0] = _LEAST
    for one, other, value in (
        (np.zeros_like(rater), np.zeros_like(rater), precision),
        (np.zeros_like(rater), mine, precision),
        (np.zeros_like(rater), scales, precision * u),
        (mine, mine, precision),
        (mine, scales, precision * u),
        (scales, scales, precision * second),
    ):
        block = np.bincount(one * size + other, value, size * size).reshape(size, size)
        system += block if (one == other).all() else block + block.T
    index = np.arange(count)
    system[1 + index, 1 + index] += 1.0 / ways.bias_spread
    system[1 + count + index, 1 + count + index] += 1.0 / ways.scale_spread
    # cross terms of u_i: α·p on μ and bias, α·p·u on the scale
    plain, tilted = alpha * precision, alpha * precision * u
    loads: Sequence[tuple[Places, Floats]] = ((np.zeros_like(rater), plain), (mine, plain), (scales, tilted))
    for one, left in loads:
        for other, right in loads:
            where = one[ratings.left] * size + other[ratings.right]
            amount = left[ratings.left] * right[ratings.right] / weight[item[ratings.left]]
            system -= np.bincount(where, amount, size * size).reshape(size, size)
    covariance = np.linalg.inv(0.5 * (system + system.T))
    # c_iᵀ Σ c_i, and Cov(u_i, μ)
    quadratic = np.zeros(ratings.items)
    to_mean = np.zeros(ratings.items)
    for one, left in loads:
        to_mean -= np.bincount(item, left * covariance[0, one], ratings.items) / weight
        for other, right in loads:
            amount = left[ratings.left] * covariance[one[ratings.left], other[ratings.right]] * right[ratings.right]
            quadratic += np.bincount(item[ratings.left], amount, ratings.items)
    own = np.asarray(1.0 / weight + quadratic / weight**2, dtype=np.float64)
    whole: Floats = np.maximum(own + covariance[0, 0] + 2.0 * to_mean, 0.0)
    spread: Floats = np.diag(covariance)
    return whole, own, spread[1 : 1 + count], spread[1 + count :]
