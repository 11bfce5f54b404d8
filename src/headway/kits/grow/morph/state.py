"""The state of many hosts: tensors whose first dimension is the host, so that all are reset and restored alike.

The governor: finds hosts that fail, puts back their last good state, and ends their episodes with a penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.kits.grow.morph.blueprints import SLOTS
from headway.kits.grow.morph.kernels import ROW
from headway.kits.grow.morph.lifecycle import Slots

WINDOW = 5  # epochs that trends look back
Rows = TypeVar("Rows")
SNAPSHOT_EVERY = 5  # epochs between snapshots
_COLLAPSED = 0.12  # accuracy about that of a guess …
_ONCE = 0.4  # … of a host that was once better than this
_DIVERGED = 20.0  # validation loss; a guess among ten has 2.3


@dataclass(slots=True)
class HostRows:
    """Parameters and Adam's memory: of trunks [host, number] and of seeds [host, slot, number]."""

    tasks: Tensor
    trunk: Tensor
    trunk_mean: Tensor
    trunk_square: Tensor
    trunk_updates: Tensor
    seeds: Tensor
    seeds_mean: Tensor
    seeds_square: Tensor
    seeds_updates: Tensor

    @classmethod
    def of(cls, trunk: Tensor, tasks: Tensor) -> HostRows:
        """Hosts without seeds."""
        count, device = len(trunk), trunk.device
        return cls(
            tasks=tasks,
            trunk=trunk,
            trunk_mean=torch.zeros_like(trunk),
            trunk_square=torch.zeros_like(trunk),
            trunk_updates=torch.zeros(count, device=device),
            seeds=torch.zeros(count, SLOTS, ROW, device=device),
            seeds_mean=torch.zeros(count, SLOTS, ROW, device=device),
            seeds_square=torch.zeros(count, SLOTS, ROW, device=device),
            seeds_updates=torch.zeros(count, SLOTS, device=device),
        )


@dataclass(slots=True)
class History:
    """What an episode has shown so far, [host] or [host, …] each."""

    epoch: Tensor
    train_loss: Tensor
    train_accuracy: Tensor
    train_change: Tensor  # of the loss
    losses: Tensor  # [host, WINDOW]: validation, newest last
    accuracies: Tensor  # [host, WINDOW]
    first_accuracy: Tensor
    best_accuracy: Tensor
    plateau: Tensor  # epochs since the best accuracy
    last_op: Tensor
    last_success: Tensor
    next_seed: Tensor
    helped: Tensor  # [host, helper, helped]: positive interactions so far
    rent: Tensor  # so far
    costs: Tensor  # of actions, so far
    waits: Tensor  # how often the operation was WAIT

    @classmethod
    def empty(cls, count: int, device: torch.device) -> History:
        whole = {"epoch", "plateau", "last_op", "next_seed", "waits"}
        shapes = {"losses": (WINDOW,), "accuracies": (WINDOW,), "helped": (SLOTS, SLOTS)}
        made = {}
        for one in fields(cls):
            kind = torch.int64 if one.name in whole else torch.float32
            made[one.name] = torch.zeros(count, *shapes.get(one.name, ()), dtype=kind, device=device)
        made["last_success"] += 1
        made["next_seed"] += 1
        return cls(**made)


def mixed_rows(where: Tensor, new: Rows, old: Rows) -> Rows:
    """A record of tensors with the rows of `new` where `where` [host] is true, those of `old` elsewhere."""
    made = {}
    for one in fields(old):  # type: ignore[arg-type]  # every caller gives a dataclass
        before = getattr(old, one.name)
        made[one.name] = torch.where(where.view(-1, *[1] * (before.dim() - 1)), getattr(new, one.name), before)
    return type(old)(**made)


def to_arrays(prefix: str, record: Any) -> dict[str, NDArray[Any]]:
    """A record of tensors as arrays by name."""
    return {f"{prefix}.{one.name}": getattr(record, one.name).cpu().numpy().copy() for one in fields(record)}


def from_arrays(prefix: str, kind: type[Rows], state: Mapping[str, Any], device: torch.device) -> Rows:
    """The record that `to_arrays` wrote."""
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: torch.from_numpy(np.array(state[f"{prefix}.{name}"])).to(device) for name in names})


@dataclass(slots=True)
class Snapshot:
    """The last good state of every host: what its outputs depend on, and its validation accuracy."""

    trunk: Tensor
    seeds: Tensor
    accuracy: Tensor
    slots: Slots

    def take(self, where: Tensor, trunk: Tensor, seeds: Tensor, accuracy: Tensor, slots: Slots) -> Snapshot:
        """Replaced by the present state where `where` [host] is true."""
        return Snapshot(
            torch.where(where[:, None], trunk, self.trunk),
            torch.where(where[:, None, None], seeds, self.seeds),
            torch.where(where, accuracy, self.accuracy),
            mixed_rows(where, slots, self.slots),
        )


def failed(history: History, loss: Tensor, accuracy: Tensor, trunk: Tensor) -> Tensor:
    """[host]: NaN or infinity, collapse to a guess, or divergence."""
    broken = ~(loss.isfinite() & history.train_loss.isfinite() & trunk.isfinite().all(dim=1))
    collapsed = (history.best_accuracy > _ONCE) & (accuracy < _COLLAPSED)
    return broken | collapsed | (loss > _DIVERGED)
