"""The governor: finds hosts that fail, puts back their last good state, and ends their episodes with a penalty."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.kits.grow.morph.lifecycle import Slots
from headway.kits.grow.morph.state import History, mixed_rows

EVERY = 5  # epochs between snapshots
_COLLAPSED = 0.12  # accuracy about that of a guess …
_ONCE = 0.4  # … of a host that was once better than this
_DIVERGED = 20.0  # validation loss; a guess among ten has 2.3


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
