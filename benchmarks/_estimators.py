"""Six off-policy estimators, to compare with those that Headway shows and those of other libraries.

With w = π(A|x)/μ(A|x), m = Σ_a π(a|x) q(x, a) and e = r − q(x, A):

    IPS    mean(w r)                                  Horvitz and Thompson (1952)
    SNIPS  Σ w r / Σ w                                Swaminathan and Joachims (2015)
    DM     mean(m)                                    the reward model alone: biased where the model is wrong
    DR     mean(m + w e)                              Dudík, Langford and Li (2011)
    SNDR   mean(m) + Σ w e / Σ w                      Thomas and Brunskill (2016), bandit form
    DRos   mean(m + λw/(w²+λ) e)                      Su, Dimakopoulou, Krishnamurthy and Dudík (2020)

`rows` gives per-decision numbers whose mean is the estimate and whose variance is the estimate's (self-normalised ones
are linearised). So one interval method serves all, and a paired difference is the difference of rows.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Literal, get_args

import numpy as np

from headway.kits.heldout import bootstrap, normal
from headway.nouns import Estimate, Floats, errors
from headway.prove import Log
from headway.prove.display import ScoreSpread, cross_fitted, effective_size, terms

__all__ = ["LAMBDAS", "METHODS", "Method", "choose_lambda", "cross_fitted", "estimate", "estimate_rows", "paired"]
__all__ += ["rows", "shrunk", "terms"]

Method = Literal["ips", "snips", "dm", "dr", "sndr", "dros"]
METHODS: tuple[Method, ...] = get_args(Method)
Interval = Literal["bootstrap", "normal"]
LAMBDAS: tuple[float, ...] = tuple(float(weight) for weight in np.append(np.logspace(-2.0, 6.0, 17), np.inf))


def rows(
    method: Method,
    *,
    reward: Floats,  # [n]
    weight: Floats,  # [n]; π(A)/μ(A)
    direct: Floats | None = None,  # [n]; Σ_a π(a) q(a)
    fitted: Floats | None = None,  # [n]; q(A)
    shrinkage: float = np.inf,  # λ of DRos; infinite is DR
) -> Floats:
    """[n]; numbers whose mean is the estimate and whose variance/n is the estimate's."""
    if method == "ips":
        return weight * reward
    if method == "snips":
        mean = float(weight @ reward) / float(weight.sum())
        return mean + weight * (reward - mean) / float(weight.mean())
    if direct is None or fitted is None:
        raise errors.UnknownName(
            f"{method!r} needs a reward model's estimates.",
            code="estimates_missing",
            hint="Give direct and fitted, or use 'ips' or 'snips'.",
        )
    if method == "dm":
        return direct
    residual = reward - fitted
    if method == "dr":
        return direct + weight * residual
    if method == "dros":
        return direct + shrunk(weight, shrinkage) * residual
    if method == "sndr":
        mean = float(weight @ residual) / float(weight.sum())
        return direct + mean + weight * (residual - mean) / float(weight.mean())
    raise errors.UnknownName(
        f"There is no estimator {method!r}.", code="estimator_missing", hint=errors.did_you_mean(method, METHODS)
    )


def shrunk(weight: Floats, shrinkage: float) -> Floats:
    """λw/(w²+λ): optimistic shrinkage; 0 gives DM, infinity DR."""
    if shrinkage == np.inf:
        return weight
    if shrinkage == 0.0:
        return np.zeros_like(weight)
    out: Floats = shrinkage * weight / (weight * weight + shrinkage)
    return out


def choose_lambda(
    weight: Floats, residual: Floats, direct: Floats, lambdas: tuple[float, ...] = LAMBDAS, delta: float = 0.1
) -> float:
    """λ with the least estimated squared error: variance/n + (a high-probability bound of the bias)² (Su et al., 2020).

    The bias of shrinking is mean((w − ŵ_λ) e); its bound adds the Bernstein deviation of the weights at 1 − delta
    (0.1, as obp's tuning has it).
    """
    n = weight.size
    spent = log(2.0 / delta)
    deviation = sqrt(2.0 * float(weight @ weight) / n * spent / n) + 2.0 * float(weight.max()) * spent / (3.0 * n)
    best, least = np.inf, np.inf
    for lam in lambdas:
        small = shrunk(weight, lam)
        variance = float((direct + small * residual).var()) / n
        bias = abs(float(((weight - small) * residual).mean())) + deviation
        if variance + bias**2 < least:
            best, least = lam, variance + bias**2
    return best


def estimate_rows(
    values: Floats, *, method: str, ess: float, interval: Interval = "bootstrap", level: float = 0.95, seed: int = 0
) -> Estimate:
    """The mean of per-decision numbers with its interval."""
    bounds = normal(values, level) if interval == "normal" else bootstrap(values, level=level, seed=seed)
    return _with_bounds(values, bounds, method=method, ess=ess, level=level)


def _with_bounds(values: Floats, bounds: tuple[float, float], *, method: str, ess: float, level: float) -> Estimate:
    mean = float(values.mean()) if values.size else 0.0
    return Estimate(value=mean, low=bounds[0], high=bounds[1], n=values.size, ess=ess, method=method, level=level)


def estimate(
    log_: Log,
    policy: Floats | None = None,
    *,
    method: Method = "dr",
    q: Floats | None = None,
    interval: Interval | None = None,
    level: float = 0.95,
    seed: int = 0,
    spread: ScoreSpread | None = None,
) -> Estimate:
    """The value of a policy [n, arm], the log's target unless given; rows without a reward are omitted.

    The interval of DR comes from the known probabilities (`ScoreSpread`), the others' from a bootstrap, unless one is
    named.
    """
    policy = log_.target if policy is None else policy
    if q is None and method not in ("ips", "snips"):
        q = cross_fitted(log_)
    values, ess = _policy_rows(log_, policy, method, q)
    if interval is None and method == "dr" and q is not None:
        bounds = (spread or ScoreSpread(log_, q)).interval(values, policy, level=level)
        return _with_bounds(values, bounds, method=method, ess=ess, level=level)
    return estimate_rows(values, method=method, ess=ess, interval=interval or "bootstrap", level=level, seed=seed)


def paired(
    log_: Log,
    *,
    method: Method = "dr",
    q: Floats | None = None,
    interval: Interval | None = None,
    level: float = 0.95,
    seed: int = 0,
    spread: ScoreSpread | None = None,
) -> Estimate:
    """Target minus baseline on the same rows: their common noise cancels."""
    if q is None and method not in ("ips", "snips"):
        q = cross_fitted(log_)
    ours, ess = _policy_rows(log_, log_.target, method, q)
    theirs, _ = _policy_rows(log_, log_.baseline, method, q)
    values = ours - theirs
    if interval is None and method == "dr" and q is not None:
        difference = log_.target - log_.baseline
        bounds = (spread or ScoreSpread(log_, q)).interval(values, difference, paired=True, level=level)
        return _with_bounds(values, bounds, method=method, ess=ess, level=level)
    return estimate_rows(values, method=method, ess=ess, interval=interval or "bootstrap", level=level, seed=seed)


def _policy_rows(log_: Log, policy: Floats, method: Method, q: Floats | None) -> tuple[Floats, float]:
    weight, direct, fitted = terms(log_, policy, q)
    seen = ~np.isnan(log_.reward)
    reward = log_.reward
    if not seen.all():
        reward, weight, direct, fitted = reward[seen], weight[seen], direct[seen], fitted[seen]
    shrinkage = choose_lambda(weight, reward - fitted, direct) if method == "dros" else np.inf
    values = rows(method, reward=reward, weight=weight, direct=direct, fitted=fitted, shrinkage=shrinkage)
    return values, effective_size(weight)
