"""The knobs of the family ranker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.nouns import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerKnobs:
    """The knobs of the family `ranker` (`headway learn --set`)."""

    architecture: str = knob(
        "auto", '"linear", "small", "full", "larger", or "auto": the best on the tuning rows.',
        choices=("auto", "linear", "small", "full", "larger"),
    )  # fmt: skip
    least: int = knob(200, "Labelled rows below which nothing is learned; see `force`.", low=1, high=10**9)
    force: bool = knob(False, "Learn from fewer rows, too; what the result is worth is said.")
    role: str = knob("", "Learn from the rows of this role (agent) alone.")
    held_back: float = knob(
        0.3, "Of history without probabilities, the latest share that is not read: held-out rows come after it.",
        low=0.0, high=0.9,
    )  # fmt: skip
    mined_weight: float = knob(0.25, "The weight of a row with a mined label, if they are read.", low=0.0, high=1.0)
    epochs: int = knob(12, "How often a transformer reads the rows, at most.", low=1, high=10**4)
    batch: int = knob(16, "States of an update.", low=1, high=10**5)
    rate: float = knob(3e-4, "The learning rate of a transformer.", low=1e-8, high=1.0)
    decay: float = knob(0.05, "The weight decay of a transformer.", low=0.0, high=1.0)
    dropout: float = knob(0.1, "The dropout of a transformer.", low=0.0, high=0.9)
    pairs: float = knob(0.5, "The weight of the order of two actions in one state.", low=0.0, high=100.0)
    device: str = knob("auto", '"cpu", "cuda", "mps", or "auto": the fastest that this machine has.')
    bits: int = knob(
        32, "Bits of a stored weight of a transformer: 32, or 8 if the order stays the same.", low=8, high=32
    )
    explore: str = knob("greedy", "Not used: the task's `explore` decides.")
    cost_weight: float = knob(0.0, "Not used: candidates are described, not priced.")
    costs: Mapping[str, float] = knob({}, "Not used: candidates are described, not priced.")
