"""The knobs of the family actor_critic, where it learns from logged decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.nouns import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCriticKnobs:
    """The knobs of the family `actor_critic` (`headway learn --set`)."""

    hidden: tuple[int, ...] = knob((256, 256, 128), "The widths of the hidden layers.")
    activation: str = knob("relu", '"relu" or "tanh".')
    norm: bool = knob(True, "Whether layers are normalised.")
    start: str = knob("xavier", "How weights start.")
    epochs: int = knob(30, "How often the rows are gone through.")
    minibatch: int = knob(64, "Rows of an update.")
    rate: float = knob(3e-4, "The learning rate.")
    clip: float = knob(0.2, "How far the ratio of probabilities may move.")
    entropy: float = knob(0.01, "The weight of the entropy bonus.")
    value: float = knob(0.5, "The weight of the value loss.")
    decay: float = knob(0.01, "The weight decay.")
    most_norm: float = knob(0.5, "The largest norm of a gradient.")
    explore: str = knob("policy", '"policy", or "greedy": act on the first choice.', choices=("policy", "greedy"))
    cost_weight: float = knob(0.0, "How much a unit of cost takes off the reward.")
    costs: Mapping[str, float] = knob({}, "The cost of each action.")
    fit_rows: int = knob(50_000, "How many rows are read to find features.", low=1, high=10**9)
