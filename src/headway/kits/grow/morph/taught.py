"""The world `morph`, whose teachers are the baselines that play it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from headway.kits.grow.morph.baselines import baseline
from headway.kits.grow.morph.world import MorphWorld


class TaughtMorph(MorphWorld):
    """The world, with teachers to imitate."""

    def teacher(self, name: str) -> Callable[[], Tensor]:
        """What the baseline of this name does now, to be imitated."""
        return partial(baseline(name, self._streams["seeds"].initial_seed()), self)


def morph(*, count: int, **settings: Any) -> TaughtMorph:
    """The world `morph`."""
    return TaughtMorph(count, **settings)


morph.family = "recurrent"  # type: ignore[attr-defined]  # what practises in it, if nobody says otherwise
