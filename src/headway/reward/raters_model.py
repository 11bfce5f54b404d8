"""The model behind `raters`: EM for the bias, scale and noise of raters; item quality is integrated out exactly.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_ROUNDS = 200
_CLOSE = 1e-6
_SAMPLE = 20_000  # ratings for the first fit of the raters
_FEW_ROUNDS = 6  # then, on all ratings
_REVERSED = 0.05  # prior probability that a rater is reversed
_NOISE_ROWS = 4.0  # the common noise variance counts as this many ratings of each rater
_BIAS_RATERS, _BIAS_PRIOR = 1.0, 0.25  # one rater's worth of a bias of half the ratings' spread
_SCALE_RATERS, _SCALE_PRIOR = 4.0, 0.05
_SPREAD_ITEMS, _SPREAD_PRIOR = 2.0, 0.5
_LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Fit:
    """Results per item and per rater, in the units of the input."""

    quality: Floats  # [item]
    variance: Floats
    reliability: Floats  # 1 − Var(u)/τ²: the known share of the deviation of the item
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
    """Ratings, and the pairs of ratings of the same item."""

    item: Places
    rater: Places
    value: Floats
    items: int
    raters: int
    left: Places  # pairs: indices of two ratings of the same item, in both orders and with themselves
    right: Places


@dataclass(slots=True)
class _Parameters:
    """Parameters of the raters, set by the M step."""

    scale: Floats
    noise: Floats
    spread: float
    bias_spread: float
    scale_spread: float
    sign: Floats


@dataclass(slots=True)
class _Posterior:
    """The result of the E step."""

    mean: float
    bias: Floats
    u: Floats
    u_variance: Floats
    bias_second: Floats  # E[bias²]
    residual: Floats  # [rating] E[(y − μ − bias − α·u)²]
    cross: Floats  # [rating] E[u·(y − μ − bias)]


def fit(item: Places, rater: Places, value: Floats, items: int, raters: int) -> Fit:
    """Fit ratings in units of their standard deviation, from at least two raters."""
    ratings = _Ratings(item, rater, value, items, raters, *_pairs(item))
    if len(value) > 2 * _SAMPLE:
        parameters = _fit_signs(_sample(ratings))
        posterior = _em(ratings, parameters, _FEW_ROUNDS)
    else:
        parameters = _fit_signs(ratings)
        posterior = _expect(ratings, parameters)
    odds = _reversed_odds(ratings, parameters, posterior)
    variance, own, bias_variance, scale_variance = _laplace(ratings, parameters, posterior)
    return Fit(
        quality=posterior.mean + posterior.u,
        variance=variance,
        reliability=np.clip(1.0 - own / parameters.spread, 0.0, 1.0),
        bias=posterior.bias,
        bias_variance=bias_variance,
        scale=parameters.scale,
        scale_variance=scale_variance,
        noise=parameters.noise,
        reversed=1.0 / (1.0 + np.exp(-np.clip(odds, -700.0, 700.0))),
        mean=posterior.mean,
        spread=parameters.spread,
    )


def _fit_signs(ratings: _Ratings) -> _Parameters:
    """The parameters including signs: the sign of a rater depends on the other raters, whose signs it affects."""
    parameters = _start(ratings)
    posterior = _em(ratings, parameters)
    for _ in range(4):
        signs = _majority(np.where(_reversed_odds(ratings, parameters, posterior) > 0.0, -1.0, 1.0))
        if (signs == parameters.sign).all():
            break
        parameters = _start(ratings, signs)
        posterior = _em(ratings, parameters)
    return parameters


def _sample(ratings: _Ratings) -> _Ratings:
    """Every k-th item with all its ratings: about `_SAMPLE` ratings."""
    step = -(-len(ratings.value) // _SAMPLE)
    rows = np.flatnonzero(ratings.item % step == 0)
    item = ratings.item[rows] // step
    return _Ratings(item, ratings.rater[rows], ratings.value[rows], int(item.max()) + 1, ratings.raters, *_pairs(item))


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


def _start(ratings: _Ratings, signs: Floats | None = None) -> _Parameters:
    if signs is None:
        signs = _first_signs(ratings)
    return _Parameters(
        scale=signs.copy(),
        noise=np.full(ratings.raters, 0.5),
        spread=0.5,
        bias_spread=_BIAS_PRIOR,
        scale_spread=_SCALE_PRIOR,
        sign=signs,
    )


def _majority(signs: Floats) -> Floats:
    """Signs under which most raters are not reversed: to turn all of them changes nothing that can be seen."""
    return -signs if signs.sum() < 0.0 else signs


def _first_signs(ratings: _Ratings) -> Floats:
    """−1 for raters who disagree with the mean of the others on shared items."""
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
        new_signs = _majority(np.where(product < 0.0, -1.0, 1.0))
        if (new_signs == signs).all():
            break
        signs = new_signs
    return signs


def _mean_by(place: Places, value: Floats, count: int) -> Floats:
    return np.bincount(place, value, count) / np.maximum(np.bincount(place, minlength=count), 1)


def _em(ratings: _Ratings, parameters: _Parameters, rounds: int = _ROUNDS) -> _Posterior:
    posterior = _expect(ratings, parameters)
    before = np.inf
    for _ in range(rounds):
        _maximise(ratings, parameters, posterior)
        posterior = _expect(ratings, parameters)
        now = float(np.abs(posterior.u).sum() + np.abs(posterior.bias).sum()) + float(np.log(parameters.noise).sum())
        if abs(now - before) < _CLOSE * (1.0 + abs(now)):
            break
        before = now
    return posterior


def _expect(ratings: _Ratings, parameters: _Parameters) -> _Posterior:
    """The exact posterior of μ, bias and u, given scales and variances."""
    rater, item, value = ratings.rater, ratings.item, ratings.value
    precision = 1.0 / parameters.noise[rater]
    alpha = parameters.scale[rater]
    load = alpha * precision  # cross term of u with μ and with bias
    weight = np.bincount(item, alpha * load, ratings.items) + 1.0 / parameters.spread  # λ
    aim = np.bincount(item, load * value, ratings.items)  # d
    system, side = _system(ratings, precision, load, weight, aim, parameters.bias_spread)
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
    return _Posterior(
        mean=mean,
        bias=bias,
        u=u,
        u_variance=u_variance,
        bias_second=bias**2 + np.diag(inner),
        residual=residual,
        cross=u[item] * left - to_level,
    )


def _system(
    ratings: _Ratings, precision: Floats, load: Floats, weight: NDArray[Any], aim: NDArray[Any], bias_spread: float
) -> tuple[Floats, Floats]:
    """S and t, with μ first: A and its right side, minus the contribution of the items."""
    rater, item, value, count = ratings.rater, ratings.item, ratings.value, ratings.raters
    system = np.zeros((count + 1, count + 1))
    per = np.bincount(rater, precision, count)
    system[1:, 1:] = np.diag(per + 1.0 / bias_spread)
    system[0, 1:] = system[1:, 0] = per
    system[0, 0] = per.sum() + _LEAST
    side = np.concatenate([[float((precision * value).sum())], np.bincount(rater, precision * value, count)])
    scaled = load / weight[item]
    pairs = np.bincount(
        rater[ratings.left] * count + rater[ratings.right], load[ratings.left] * scaled[ratings.right], count * count
    ).reshape(count, count)
    system[1:, 1:] -= pairs
    system[0, 1:] -= pairs.sum(axis=0)
    system[1:, 0] -= pairs.sum(axis=1)
    system[0, 0] -= pairs.sum()
    carried = np.bincount(rater, scaled * aim[item], count)
    side[1:] -= carried
    side[0] -= carried.sum()
    return system, side


def _maximise(ratings: _Ratings, parameters: _Parameters, posterior: _Posterior) -> None:
    rater, count = ratings.rater, ratings.raters
    second = posterior.u_variance + posterior.u**2
    rows = np.bincount(rater, minlength=count)
    per_noise = 1.0 / parameters.noise
    across = np.bincount(rater, posterior.cross, count) * per_noise
    along = np.bincount(rater, second[ratings.item], count) * per_noise
    parameters.scale = (across + parameters.sign / parameters.scale_spread) / (along + 1.0 / parameters.scale_spread)
    residual = np.bincount(rater, posterior.residual, count)
    common = float(residual.sum() / rows.sum())
    parameters.noise = np.maximum((residual + _NOISE_ROWS * common) / (rows + _NOISE_ROWS), _LEAST)
    parameters.spread = float((second.sum() + _SPREAD_ITEMS * _SPREAD_PRIOR) / (len(second) + _SPREAD_ITEMS))
    parameters.bias_spread = float((posterior.bias_second.sum() + _BIAS_RATERS * _BIAS_PRIOR) / (count + _BIAS_RATERS))
    off = (parameters.scale * parameters.sign - 1.0) ** 2 + 1.0 / (along + 1.0 / parameters.scale_spread)
    parameters.scale_spread = float((off.sum() + _SCALE_RATERS * _SCALE_PRIOR) / (count + _SCALE_RATERS))


def _reversed_odds(ratings: _Ratings, parameters: _Parameters, posterior: _Posterior) -> Floats:
    """Log odds that the scale of each rater is reversed, by the ratings of the others on the same items.

    The quality of each item without this rater's own ratings, N(m, v), predicts y − level ~ N(±m, v + σ²).
    """
    rater, item = ratings.rater, ratings.item
    alpha, noise = parameters.scale[rater], parameters.noise[rater]
    weight = np.bincount(item, alpha**2 / noise, ratings.items) + 1.0 / parameters.spread
    left = ratings.value - posterior.mean - posterior.bias[rater]
    aim = np.bincount(item, alpha * left / noise, ratings.items)
    # remove all ratings of this rater on this item together
    same = rater[ratings.left] == rater[ratings.right]
    left_same, right_same = ratings.left[same], ratings.right[same]
    own_weight = np.bincount(left_same, (alpha**2 / noise)[right_same], len(rater))
    own_aim = np.bincount(left_same, (alpha * left / noise)[right_same], len(rater))
    others = np.maximum(weight[item] - own_weight, 1.0 / parameters.spread)
    m, v = (aim[item] - own_aim) / others, 1.0 / others
    # The level under each sign: without it, a bias that was fitted with the wrong sign would favour that sign.
    odds: Floats = np.full(ratings.raters, math.log(_REVERSED / (1.0 - _REVERSED)))
    spread = v + noise
    for sign, factor in ((-1.0, 1.0), (1.0, -1.0)):
        gap = ratings.value - posterior.mean - sign * m
        share = np.bincount(rater, 1.0 / spread, ratings.raters) + 1.0 / parameters.bias_spread
        level = np.bincount(rater, gap / spread, ratings.raters) / share
        odds += factor * 0.5 * level**2 * share
        odds -= factor * 0.5 * np.bincount(rater, gap**2 / spread, ratings.raters)
    return odds


def _laplace(
    ratings: _Ratings, parameters: _Parameters, posterior: _Posterior
) -> tuple[Floats, Floats, Floats, Floats]:
    """Variances of quality, u, bias and scale, with the scales among the unknowns."""
    rater, item, count = ratings.rater, ratings.item, ratings.raters
    precision = 1.0 / parameters.noise[rater]
    alpha, u = parameters.scale[rater], posterior.u[item]
    second = (posterior.u_variance + posterior.u**2)[item]
    weight = np.bincount(item, alpha**2 * precision, ratings.items) + 1.0 / parameters.spread
    size = 2 * count + 1  # μ, biases, scales
    biases, scales = 1 + rater, 1 + count + rater
    system = np.zeros((size, size))
    system[0, 0] = _LEAST
    for one, other, value in (
        (np.zeros_like(rater), np.zeros_like(rater), precision),
        (np.zeros_like(rater), biases, precision),
        (np.zeros_like(rater), scales, precision * u),
        (biases, biases, precision),
        (biases, scales, precision * u),
        (scales, scales, precision * second),
    ):
        block = np.bincount(one * size + other, value, size * size).reshape(size, size)
        system += block if (one == other).all() else block + block.T
    index = np.arange(count)
    system[1 + index, 1 + index] += 1.0 / parameters.bias_spread
    system[1 + count + index, 1 + count + index] += 1.0 / parameters.scale_spread
    # cross terms of u_i: α·p on μ and bias, α·p·u on the scale
    plain, tilted = alpha * precision, alpha * precision * u
    loads: Sequence[tuple[Places, Floats]] = ((np.zeros_like(rater), plain), (biases, plain), (scales, tilted))
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
