"""Doubly robust values of policies on the tune part, for the learner's report.

For a target π, logged with propensity μ, and a model q fitted on the train part only (Dudík et al., 2011):

    V(π) = mean[ Σ_a π(a)·q(a) + min(π(chosen)/μ, 50)·(r − q(chosen)) ]

These are for information only: `prove` judges on rows that no learner has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import Clusters, Linear
from headway.encode import Features
from headway.learn.posterior import pooled_mean
from headway.nouns import Encoder, Floats
from headway.observe import Batch

_MOST_WEIGHT = 50.0


def tune_values(
    rows: Iterable[Batch],
    *,
    features: Features,
    encoder: Encoder | None,
    arms: Sequence[str],
    chosen: Mapping[str, Any],
    tensors: Mapping[str, Mapping[str, Floats]],
    totals: Floats,
) -> tuple[dict[str, float], dict[str, float]]:
    """({"tune_value": …}, {"behaviour", "uniform", "constant_best", "linear": …}); costs are not subtracted.

    `tensors` are those of the best model of each kind, fitted on the train part; `totals` [arm, 3] the train part's.
    """
    models = _models(tensors)
    model = models[chosen["model"]]
    index = {name: place for place, name in enumerate(arms)}
    every = np.arange(len(arms) + 1)  # the last column is an unknown arm
    pooled = pooled_mean(totals)
    means = (totals[:, 1] + pooled) / (totals[:, 0] + 1.0)
    constant = int(means.argmax())
    sums: dict[str, float] = {"behaviour": 0.0, "uniform": 0.0, "constant_best": 0.0, "chosen": 0.0}
    if "linear" in models:
        sums["linear"] = 0.0
    count = 0
    masks: dict[tuple[str, ...], Floats] = {}
    for batch in rows:
        if not len(batch):
            continue
        x = features.vectors(batch.situations, encoder)
        offered = np.stack(
            [_mask(names, index, masks) for names in batch.offered]
        )  # [row, arm + 1]: the number of candidates in each column
        q = model.mean(x, every)
        targets = {
            "uniform": offered / offered.sum(axis=1, keepdims=True),
            "constant_best": _constant(offered, constant),
            "chosen": _best(q, offered),
        }
        if "linear" in models:
            own = q if model is models["linear"] else models["linear"].mean(x, every)
            targets["linear"] = _best(own, offered)
        _add(sums, batch, q, offered, targets, index)
        count += len(batch)
    if not count:
        return {}, {}
    values = {name: total / count for name, total in sums.items()}
    return {"tune_value": values.pop("chosen")}, values


def _models(tensors: Mapping[str, Mapping[str, Floats]]) -> dict[str, Linear | Clusters]:
    models: dict[str, Linear | Clusters] = {}
    if "linear" in tensors:
        best = tensors["linear"]
        models["linear"] = Linear(best["weights"], best["covariance"], best["noise"])
    if "clusters" in tensors:
        best = tensors["clusters"]
        models["clusters"] = Clusters(best["centroids"], best["means"], best["stds"])
    return models


def _add(
    sums: dict[str, float],
    batch: Batch,
    q: Floats,
    offered: Floats,
    targets: Mapping[str, Floats],
    index: Mapping[str, int],
) -> None:
    """Add the batch's doubly robust values of the targets, and its rewards."""
    reward = batch.reward
    # With an unknown propensity there is no correction: only the model counts.
    propensity = np.where(batch.propensity > 0.0, batch.propensity, np.inf)
    action = np.array([index.get(name, len(index)) for name in batch.actions])
    rows: NDArray[np.int64] = np.arange(len(batch))
    left = reward - q[rows, action]
    for name, target in targets.items():
        share = target[rows, action] / np.maximum(offered[rows, action], 1.0)
        weight = np.minimum(share / np.maximum(propensity, 1e-12), _MOST_WEIGHT)
        sums[name] += float((target * q).sum() + (weight * left).sum())
    sums["behaviour"] += float(reward.sum())


def _mask(names: tuple[str, ...], index: Mapping[str, int], known: dict[tuple[str, ...], Floats]) -> Floats:
    mask = known.get(names)
    if mask is None:
        mask = np.zeros(len(index) + 1)
        for name in names:
            mask[index.get(name, len(index))] += 1.0
        if len(known) > 4096:
            known.clear()
        known[names] = mask
    return mask


def _best(q: Floats, offered: Floats) -> Floats:
    target = np.zeros_like(q)
    best = np.where(offered > 0, q, -np.inf).argmax(axis=1)
    target[np.arange(len(q)), best] = 1.0
    return target


def _constant(offered: Floats, arm: int) -> Floats:
    """All weight on one arm if it is offered, else uniform."""
    target: Floats = offered / offered.sum(axis=1, keepdims=True)
    there = offered[:, arm] > 0
    target[there] = 0.0
    target[there, arm] = 1.0
    return target
