"""PPO's objective in numpy, with its gradient by hand: the twin of `headway.kits.practice.ppo`, which is torch.

    loss = surrogate + value_weight · value loss − Σ_head entropy_weight · entropy

    surrogate    −mean[ min(r·A, clip(r, 1 ± ε)·A) ],  r = exp(new − old)          (Schulman et al., 2017)
    dual clip    where A < 0: max(that, c·A), so that one stale row cannot dominate   (Ye et al., 2020)
    value loss   ½·mean[ max((v − R)², (v_old + clip(v − v_old, ±ε) − R)²) ]
    KL           mean[ (r − 1) − log r ]: its terms cannot be negative, unlike mean[−log r]       (Schulman, 2020)

Means are over rows, weighted by `weight` (a row of weight 0 does not exist). Shapes: log-probabilities may be [row],
[row, head] or [row, action]; a weight of the same shape weights its elements. `tests/learn/test_ppo.py` holds
both twins to the same loss and gradient at 1e-6, and this one to finite differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice.heads import Actions
from headway.kits.practice.mlp import Array, Network

_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The knobs of the loss. `entropy` is one weight for all heads, or one per head."""

    clip: float = 0.2
    dual_clip: float | None = None
    value_clip: float | None = None
    value: float = 0.5
    entropy: float | tuple[float, ...] = 0.01

    def entropy_of(self, head: int) -> float:
        return self.entropy[head] if isinstance(self.entropy, tuple) else self.entropy


class Minibatch(NamedTuple):
    """Rows to learn from. `action` is [row, head] of whole numbers, or [row, dimension] of a Gaussian head."""

    x: Array
    action: NDArray[Any]
    old: Array  # [row] log-probability under the policy that acted
    advantage: Array
    returns: Array
    values: Array  # [row] the critic's estimate when acting; used by the clipped value loss only
    weight: Array | None = None  # [row]
    allowed: NDArray[np.bool_] | None = None  # [row, action]


class Stats(NamedTuple):
    """Statistics of one step."""

    policy_loss: float
    value_loss: float
    entropy: float
    kl: float
    clip_fraction: float


class Surrogate(NamedTuple):
    loss: float
    d_new: Array  # its derivative by `new`
    ratio: Array


def surrogate(
    new: Array, old: Array, advantage: Array, weight: Array | None, clip: float, dual_clip: float | None = None
) -> Surrogate:
    """The clipped surrogate loss of log-probabilities of any shape, and its gradient."""
    ratio = np.exp(new - old)
    plain = ratio * advantage
    held = np.clip(ratio, 1.0 - clip, 1.0 + clip)
    held *= advantage
    flows = plain <= held  # if the clipped one is smaller, it is constant
    least = np.minimum(plain, held)
    if dual_clip is not None:
        floor = np.where(advantage < 0.0, dual_clip * advantage, -np.inf).astype(ratio.dtype)
        flows &= plain >= floor
        least = np.maximum(least, floor)
    if weight is None:
        scale = 1.0 / max(least.size, 1)
        d_new = plain * flows
        d_new *= -scale
        return Surrogate(-scale * float(least.sum()), d_new, ratio)
    scale = 1.0 / max(float(weight.sum()), 1e-12)
    d_new = plain * flows
    d_new *= weight
    d_new *= -scale
    return Surrogate(-scale * float((weight * least).sum()), d_new, ratio)


def value_loss(
    values: Array, returns: Array, old: Array, weight: Array | None, clip: float | None
) -> tuple[float, Array]:
    """½·(clipped) squared error, and its derivative by `values`."""
    error = values - returns
    if clip is not None:
        moved = values - old
        held = np.clip(moved, -clip, clip)
        held_error = old + held - returns
        worse = held_error * held_error > error * error
        # Where the clipped error is the worse one, it moves with the value only inside the clip range.
        gradient = np.where(worse, np.where(np.abs(moved) < clip, held_error, 0.0), error).astype(error.dtype)
        error = np.where(worse, held_error, error)
    else:
        gradient = error.copy()
    if weight is None:
        scale = 1.0 / max(error.size, 1)
        loss = 0.5 * scale * float(np.dot(error.ravel(), error.ravel()))
    else:
        scale = 1.0 / max(float(weight.sum()), 1e-12)
        loss = 0.5 * scale * float((weight * error * error).sum())
        gradient *= weight
    gradient *= scale
    return loss, gradient


def divergence(ratio: Array, weight: Array | None = None) -> float:
    """mean[(r − 1) − log r] ≥ 0, of KL(old ‖ new)."""
    terms = (ratio - 1.0) - np.log(np.maximum(ratio, 1e-30))
    if weight is None:
        return float(terms.mean()) if terms.size else 0.0
    return float((weight * terms).sum()) / max(float(weight.sum()), 1e-12)


def log_softmax(logits: Array, allowed: NDArray[np.bool_] | None) -> Array:
    """[row, action]; an action that is not allowed gets −1e9: practically impossible, and finite."""
    kept = logits if allowed is None else np.where(allowed, logits, logits.dtype.type(-1e9))
    shifted: Array = kept - kept.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def log_probabilities(
    actions: Actions, outputs: Array, free: Array, action: NDArray[Any], allowed: NDArray[np.bool_] | None = None
) -> Array:
    """[row]: the log-probability (or density) of each row's action under the policy tower's outputs."""
    if actions.kind == "gaussian":
        z = (action - outputs) * np.exp(-free)
        density: Array = -0.5 * np.einsum("bd,bd->b", z, z) - (free.sum() + 0.5 * _LOG_2PI * outputs.shape[1])
        return density.astype(outputs.dtype, copy=False)
    rows = np.arange(len(outputs))
    total: Array | None = None
    for head, part in enumerate(actions.parts):
        log = log_softmax(outputs[:, part], None if allowed is None else allowed[:, part])[rows, action[:, head]]
        total = log if total is None else total + log
    assert total is not None
    return total


def step(network: Network, actions: Actions, batch: Minibatch, objective: Objective) -> tuple[Stats, Array]:
    """Forward, loss and backward of one minibatch; the gradient is in `network.grad`. Also returns the ratios."""
    outputs, values = network.forward(batch.x)
    if actions.kind == "gaussian":
        new = log_probabilities(actions, outputs, network.free, batch.action)
        loss = surrogate(new, batch.old, batch.advantage, batch.weight, objective.clip, objective.dual_clip)
        d_outputs, entropy = _gaussian_gradient(network, outputs, batch, loss.d_new, objective)
    else:
        d_outputs, entropy, loss = _categorical_gradient(actions, outputs, batch, objective)
    v_loss, d_values = value_loss(values[:, 0], batch.returns, batch.values, batch.weight, objective.value_clip)
    d_values *= objective.value
    network.backward(batch.x, (d_outputs, d_values[:, None]))
    ratio = loss.ratio
    outside = np.abs(ratio - 1.0) > objective.clip
    share = outside.mean() if batch.weight is None else (outside * batch.weight).sum() / max(batch.weight.sum(), 1e-12)
    stats = Stats(loss.loss, v_loss, entropy, divergence(ratio, batch.weight), float(share))
    return stats, ratio


def _categorical_gradient(
    actions: Actions, outputs: Array, batch: Minibatch, objective: Objective
) -> tuple[Array, float, Surrogate]:
    rows = np.arange(len(outputs))
    scale = 1.0 / len(outputs) if batch.weight is None else 1.0 / max(float(batch.weight.sum()), 1e-12)
    logs: list[Array] = []
    new: Array | None = None
    for head, part in enumerate(actions.parts):
        log_p = log_softmax(outputs[:, part], None if batch.allowed is None else batch.allowed[:, part])
        logs.append(log_p)
        chosen = log_p[rows, batch.action[:, head]]
        new = chosen if new is None else new + chosen
    assert new is not None
    loss = surrogate(new, batch.old, batch.advantage, batch.weight, objective.clip, objective.dual_clip)
    d_outputs = np.empty_like(outputs)
    total = 0.0
    for head, (part, log) in enumerate(zip(actions.parts, logs, strict=True)):
        share = np.exp(log)
        product = share * log
        own = -product.sum(axis=1)  # [row] entropy of this head
        total += float(own.sum() if batch.weight is None else (own * batch.weight).sum()) * scale
        d = share * -loss.d_new[:, None]
        d[rows, batch.action[:, head]] += loss.d_new
        bonus = objective.entropy_of(head)
        if bonus:
            # −bonus·dH/dlogit = bonus·p·(log p + H)
            product += share * own[:, None]
            product *= bonus * scale if batch.weight is None else (bonus * scale * batch.weight)[:, None]
            d += product
        d_outputs[:, part] = d
    return d_outputs, total, loss


def _gaussian_gradient(
    network: Network, outputs: Array, batch: Minibatch, d_new: Array, objective: Objective
) -> tuple[Array, float]:
    free = network.free
    inverse = np.exp(-free)
    z = (batch.action - outputs) * inverse
    d_outputs = (z * inverse * d_new[:, None]).astype(outputs.dtype, copy=False)
    entropy = float(free.sum()) + 0.5 * (1.0 + _LOG_2PI) * len(free)
    weights: Sequence[float] = [objective.entropy_of(place) for place in range(len(free))]
    network.d_free[...] = ((z * z - 1.0) * d_new[:, None]).sum(axis=0) - np.array(weights, dtype=free.dtype)
    return d_outputs, entropy
