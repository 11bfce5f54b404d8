"""Gradient steps of conservative Q-learning and of cloning, on arrays, for `cql` and `clone`.

    train_q(network, log, Steps(steps=3000, batch=256, gamma=0.0, alpha=0.1), rng)
    train_clone(network, x, action, offered, weight, Steps(steps=3000), rng)

Conservative Q-learning (Kumar et al., 2020, "CQL(H)" for discrete actions), for each member of an ensemble:

    loss = ½·Huber(Q(x,a) − y) + α·(log Σ_b exp Q(x,b) − Q(x,a))
    y = r + γ·Q̄(x', argmax_b Q(x',b))          Q̄: the frozen copy of `target_every` steps ago (double Q-learning,
                                                van Hasselt et al., 2016); y = r if nothing follows

Sums over b run over the offered arms. Members share the minibatches, but each has its own row weights (Poisson(1), a
bootstrap) and its own targets: independent targets make their disagreement meaningful (Ghasemipour et al., 2022).

Cloning: loss = −log softmax(logits)(a) over the offered arms.

Deviation: the frozen copy's values of all rows are computed once per `target_every` steps if that is cheaper than
computing them for every minibatch; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.kits.offline.transitions import Singles, Transitions
from headway.kits.practice import Adam, Network

Looked = Callable[[int], bool]  # called with the number of steps; True stops
_CHUNK = 4096
_PATIENCE = 6  # evaluations without a better error
_NOTHING = np.float32(-1e30)  # the logit of an arm that is not offered


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How to take gradient steps."""

    steps: int = 3000
    batch: int = 256
    rate: float = 1e-3
    decay: float = 0.0
    gamma: float = 0.0
    alpha: float = 1.0
    target_every: int = 500
    look_every: int = 250
    settle: float = 0.0  # over this last share of the steps the rate falls to 0


class BestSteps:
    """Keeps the network's weights of the least error on held-out rows, and says when no better one has come for long.

    best = BestSteps(network, error)         # math.inf: nothing is known of the start
    best.ends(step, error)                   # after some steps; True: stop
    best.take()                              # the network has the best weights again; their number of steps
    """

    def __init__(self, network: Network, error: float) -> None:
        self._network, self._theta = network, network.theta.copy()
        self.error, self.steps, self._late = error, 0, 0

    def ends(self, step: int, error: float) -> bool:
        if error < self.error:
            self.error, self.steps, self._late, self._theta = error, step, 0, self._network.theta.copy()
        else:
            self._late += 1
        return self._late >= _PATIENCE

    def take(self) -> int:
        self._network.theta[...] = self._theta
        return self.steps


def minibatches(rows: NDArray[np.int64], batch: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Endless minibatches: every row once per pass, in a new order; the last few rows of a pass are omitted."""
    size = min(batch, len(rows))
    while True:
        order = rng.permutation(rows)
        for begin in range(0, len(order) - size + 1, size):
            yield order[begin : begin + size]


def values(network: Network, x: Singles) -> list[Singles]:
    """[row, output] of every tower for any number of rows, in new memory."""
    outputs = [np.empty((len(x), width), np.float32) for _, width in network.shape.towers]
    for begin in range(0, len(x), _CHUNK):
        for mine, part in zip(outputs, network.forward(x[begin : begin + _CHUNK]), strict=True):
            mine[begin : begin + _CHUNK] = part
    return outputs


def train_q(
    network: Network, log: Transitions, take: Steps, rng: np.random.Generator, looked: Looked | None = None
) -> None:
    """Changes the network's weights in place."""
    members = len(network.shape.towers)
    rows, adam = log.usable, Adam(network, rate=take.rate, decay=take.decay, epsilon=1e-8, most_norm=None)
    all_offered = bool(log.offered.all())
    weights = [log.weight] if members == 1 else [
        log.weight * rng.poisson(1.0, len(log.weight)).astype(np.float32) for _ in range(members)
    ]  # fmt: skip
    weighted = members > 1 or bool((log.weight != 1.0).any())
    followed = take.gamma > 0.0 and bool((log.next[rows] >= 0).any())
    ahead = _Ahead(network, log, take) if followed else None
    feed = minibatches(rows, take.batch, rng)
    size = min(take.batch, len(rows))
    x = np.empty((size, log.x.shape[1]), np.float32)
    line, share = np.arange(size), np.float32(1.0 / size)
    slowing = take.steps * (1.0 - take.settle)
    for step in range(take.steps):
        if step > slowing:
            adam.rate = take.rate * (take.steps - step) / (take.steps - slowing)
        index = next(feed)
        reward, action = log.reward[index], log.action[index]
        aims = [reward] * members if ahead is None else ahead.aims(step, index, reward)
        np.take(log.x, index, axis=0, out=x)
        slopes = []
        for member, q in enumerate(network.forward(x)):
            gap = q[line, action] - aims[member]
            np.clip(gap, -1.0, 1.0, out=gap)
            if take.alpha:
                slope = _softmax(q, None if all_offered else log.offered[index])
                slope[line, action] -= 1.0
                slope *= np.float32(take.alpha)
                slope[line, action] += gap
            else:
                slope = np.zeros_like(q)
                slope[line, action] = gap
            slope *= weights[member][index, None] * share if weighted else share
            slopes.append(slope)
        network.backward(x, slopes)
        adam.step()
        if looked is not None and (step + 1) % take.look_every == 0 and looked(step + 1):
            return


class _Ahead:
    """The future value of a row: γ·Q̄(x', argmax Q(x')), with the copy renewed every `target_every` steps."""

    def __init__(self, network: Network, log: Transitions, take: Steps) -> None:
        self._network, self._log, self._take = network, log, take
        self._frozen = Network(network.shape)
        # All rows at once cost as much as this many minibatches.
        self._whole = len(log.x) <= take.batch * take.target_every
        self._known: list[Singles] = []
        self._all_offered = bool(log.offered.all())

    def aims(self, step: int, index: NDArray[np.int64], reward: Singles) -> list[Singles]:
        log, take = self._log, self._take
        if step % take.target_every == 0:
            self._frozen.theta[...] = self._network.theta
            if self._whole:
                self._known = values(self._frozen, log.x)
        after = log.next[index]
        follows = np.where(after >= 0, np.float32(take.gamma), np.float32(0.0))
        x = log.x[after]  # row −1 is a placeholder if nothing follows, and counts 0
        line = np.arange(len(index))
        then = None if self._whole else [output.copy() for output in self._frozen.forward(x)]
        targets = []
        for member, q in enumerate(self._network.forward(x)):
            if not self._all_offered:
                q = np.where(log.offered[after], q, _NOTHING)
            best = q.argmax(axis=1)
            held = self._known[member][after, best] if then is None else then[member][line, best]
            targets.append(reward + follows * held)
        return targets


def train_clone(
    network: Network,
    x: Singles,
    action: NDArray[np.int64],
    offered: NDArray[np.bool_],
    weight: Singles,
    take: Steps,
    rng: np.random.Generator,
    looked: Looked | None = None,
) -> None:
    """Changes the weights of the network's only tower in place."""
    adam = Adam(network, rate=take.rate, decay=take.decay, epsilon=1e-8, most_norm=None)
    all_offered, weighted = bool(offered.all()), bool((weight != 1.0).any())
    size = min(take.batch, len(x))
    buffer = np.empty((size, x.shape[1]), np.float32)
    line, share = np.arange(size), np.float32(1.0 / size)
    for step, index in zip(range(take.steps), minibatches(np.arange(len(x)), take.batch, rng), strict=False):
        np.take(x, index, axis=0, out=buffer)
        (logits,) = network.forward(buffer)
        slope = _softmax(logits, None if all_offered else offered[index])
        slope[line, action[index]] -= 1.0
        slope *= weight[index, None] * share if weighted else share
        network.backward(buffer, [slope])
        adam.step()
        if looked is not None and (step + 1) % take.look_every == 0 and looked(step + 1):
            return


def _softmax(logits: Singles, offered: NDArray[np.bool_] | None) -> Singles:
    """[row, arm], in new memory; 0 for an arm that is not offered."""
    if offered is not None:
        logits = np.where(offered, logits, _NOTHING)
    shares: Singles = logits - logits.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
