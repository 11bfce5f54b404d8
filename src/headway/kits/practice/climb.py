"""An actor-critic from a log: PPO's trust region on doubly robust rewards, one step deep.

The logging policy is not the one being learned, so its log-probabilities cannot be PPO's "old" ones beyond
the first step. Instead, PPO's trust region maximises the doubly robust estimate of the policy's value on the train
part, one step deep: with r̂(a) of `logged` (unbiased for every arm, from the logged propensity), and π_k the
policy at the start of pass k,

    max_π  mean_rows Σ_a π_k(a|x) · min( ρ·A, clip(ρ, 1 ± ε)·A ),   ρ = π/π_k,  A(a) = r̂(a) − Σ_b π_k(b|x)·r̂(b)

At π = π_k its gradient is that of the estimated value; the clip keeps each pass near the last. No action is sampled, so
the sum over arms adds no variance. The pass with the greatest estimate on the tune part is kept.

The critic learns Σ_b π_k(b|x)·r̂(b). The entropy bonus keeps rarely logged arms alive.

References: Dudík et al., "Doubly robust policy evaluation and learning", 2011; Schulman et al., 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.practice import logged
from headway.kits.practice.engine import Adam, shape_of
from headway.kits.practice.heads import Actions
from headway.kits.practice.mlp import Network
from headway.kits.practice.objective import log_softmax, surrogate, value_loss
from headway.nouns import Floats, Progress


def climb(
    train: logged.LoggedRows,
    held: logged.LoggedRows,
    held_rewards: Floats,
    wanted: Mapping[str, Any],
    seed: int,
    progress: Progress | None,
) -> tuple[Network, int, float]:
    """The network of the best pass, the number of that pass, and its value on the tune part."""
    actions = Actions("categorical", (train.offered.shape[1],))
    shape = shape_of(actions, train.x.shape[1], tuple(wanted["hidden"]), wanted["activation"], bool(wanted["norm"]))
    network = Network(shape, seed=seed, start=wanted["start"], gains=(0.01, 1.0))
    adam = Adam(network, rate=wanted["rate"], most_norm=wanted["most_norm"], decay=wanted["decay"])
    rng = np.random.default_rng([seed, 0x106])
    rewards = logged.doubly_robust(train, logged.crossfit(train))
    scale = 1.0 / max(float(rewards[train.offered].std()), 1e-6)
    x, size = train.x.astype(np.float32), int(wanted["minibatch"])
    offered, rewards32 = train.offered, (rewards * scale).astype(np.float32)
    counts = train.weight.astype(np.float32)
    value, best, kept = -np.inf, 0, network.theta.copy()
    for turn in range(int(wanted["epochs"])):
        order = rng.permutation(len(x))
        before = [
            _shares(network, x[order[b : b + size]], offered[order[b : b + size]]) for b in range(0, len(x), size)
        ]
        for number, begin in enumerate(range(0, len(x), size)):
            mine = order[begin : begin + size]
            _descend(network, x[mine], offered[mine], rewards32[mine], before[number], counts[mine], wanted)
            adam.step()
        estimate = logged.value_of(_acting(network, held, wanted), held_rewards, held.weight)
        if estimate > value:
            value, best, kept = estimate, turn + 1, network.theta.copy()
        if progress is not None:
            progress("passes", turn + 1, int(wanted["epochs"]))
    network.theta[...] = kept
    return network, best, float(value)


def _shares(network: Network, x: NDArray[Any], offered: NDArray[np.bool_]) -> NDArray[Any]:
    """[row, arm] log-probabilities."""
    return log_softmax(network.forward(x)[0], offered)


def _acting(network: Network, held: logged.LoggedRows, wanted: Mapping[str, Any]) -> Floats:
    log = _shares(network, held.x.astype(np.float32), held.offered).astype(np.float64)
    if wanted["explore"] == "greedy":
        first: Floats = (np.arange(log.shape[1]) == log.argmax(axis=1)[:, None]).astype(np.float64)
        return first
    shares: Floats = np.exp(log)
    return shares


def _descend(
    network: Network,
    x: NDArray[Any],
    offered: NDArray[np.bool_],
    rewards: NDArray[Any],
    before: NDArray[Any],
    counts: NDArray[Any],
    wanted: Mapping[str, Any],
) -> None:
    """The gradient of one minibatch, summed over all arms of each row."""
    logits, values = network.forward(x)
    log = log_softmax(logits, offered)
    share, acting = np.exp(log), np.exp(before)
    worth = (acting * rewards).sum(axis=1)
    weight = acting * offered * counts[:, None]
    loss = surrogate(log, before, rewards - worth[:, None], weight, wanted["clip"])
    # `surrogate` divides by the weights' sum, which is that of the rows' own weights.
    d = loss.d_new - share * loss.d_new.sum(axis=1, keepdims=True)
    own = -(share * log).sum(axis=1, keepdims=True)
    d += (float(wanted["entropy"]) / len(x)) * share * (log + own)
    _, d_values = value_loss(values[:, 0], worth, worth, counts, None)
    d_values *= wanted["value"]
    network.backward(x, (d.astype(logits.dtype), d_values[:, None].astype(logits.dtype)))
