"""Against forgetting, for training that continues from the current adapter; and the order of a first epoch.

replayed          old replies beside new ones, evenly by sign and by age
fisher, Ewc       a penalty that holds the weights that mattered to the old replies
averaged          the mean of the last adapters
ordered           a curriculum: clear and short cases first
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headway.kits.reply.learn.data import Sample
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.reply.learn.lora import Adapter
    from headway.kits.reply.learn.objective import TrainingState


_AGES = 4  # quarters of the history that replay draws from evenly
_CLIP = 10.0  # importance of a weight, as a multiple of the mean


def replayed(old: Sequence[Sample], count: int, *, seed: int) -> list[Sample]:
    """Old samples, drawn evenly from both signs and from four ages."""
    by_age = sorted(old, key=lambda sample: (sample.at, sample.id))
    strata: dict[tuple[bool, int], list[Sample]] = defaultdict(list)
    for place, sample in enumerate(by_age):
        strata[sample.desirable, place * _AGES // max(1, len(by_age))].append(sample)
    draws = random.Random(f"{seed}/replay")
    for stratum in strata.values():
        draws.shuffle(stratum)
    chosen: list[Sample] = []
    while len(chosen) < count and any(strata.values()):
        for key in sorted(strata):
            if strata[key] and len(chosen) < count:
                chosen.append(strata[key].pop())
    return chosen


def fisher(trainer: TrainingState, places: Sequence[int]) -> list[Tensor]:
    """The diagonal Fisher information of the adapter's matrices on samples: mean squared gradient of log π.

    Clipped at ten times the mean, so that a few weights do not freeze all.
    """
    parameters = trainer.tuned.adapter.parameters()
    total = [torch.zeros_like(matrix) for matrix in parameters]
    for place in places:
        scored = trainer.score([place])
        gradients = torch.autograd.grad((scored.logprobs * scored.mask).sum(), parameters)
        for sum_, gradient in zip(total, gradients, strict=True):
            sum_ += gradient.detach().square() / len(places)
    mean = sum(float(sum_.sum()) for sum_ in total) / sum(sum_.numel() for sum_ in total)
    return [sum_.clamp(max=_CLIP * mean) for sum_ in total]


class Ewc:
    """½·strength·Σ F·(θ − θ*)²: holds the adapter at θ* where the old replies depend on it."""

    def __init__(self, importance: Sequence[Tensor], adapter: Adapter, strength: float) -> None:
        self._importance = list(importance)
        self._start = [matrix.detach().clone() for matrix in adapter.parameters()]
        self._strength = strength

    def __call__(self, adapter: Adapter) -> Tensor:
        terms = [
            (weight * (matrix - start).square()).sum()
            for weight, matrix, start in zip(self._importance, adapter.parameters(), self._start, strict=True)
        ]
        return 0.5 * self._strength * torch.stack(terms).sum()


def averaged(adapters: Sequence[Mapping[str, Any]], *, rank: int) -> dict[str, Any]:
    """The adapter whose change of every layer is nearest to the mean of B·A of the given ones, at the same rank."""
    names = set(adapters[0])
    if any(set(adapter) != names for adapter in adapters):
        raise errors.Conflict(
            "These adapters are of different bases or shapes.", code="adapter_of_another_base", hint="Learn again."
        )
    mean: dict[str, Any] = {}
    for name in sorted(names):
        if not name.endswith("lora_A.weight"):
            continue
        partner = name.replace("lora_A", "lora_B")
        a = np.concatenate([np.asarray(adapter[name], np.float64) for adapter in adapters], 0)
        b = np.concatenate([np.asarray(adapter[partner], np.float64) for adapter in adapters], 1) / len(adapters)
        left, corner = np.linalg.qr(b)  # B·A = left · (corner · A): its SVD needs only small matrices
        u, s, v = np.linalg.svd(corner @ a, full_matrices=False)
        root = np.sqrt(s[:rank])
        mean[name] = (root[:, None] * v[:rank]).astype(np.float32)
        mean[partner] = (left @ u[:, :rank] * root).astype(np.float32)
    return mean
