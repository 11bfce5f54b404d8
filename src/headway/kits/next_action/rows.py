"""Settled rows as arrays for the ranker's models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.kits.next_action.layout import ActionInputs, Layout, StateInputs, type_of
from headway.kits.next_action.linear import LinearRows
from headway.nouns import Encoder, Floats, Settled, Situation
from headway.observe import dumps


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRows:
    """One row per tuple. `centre` and `scale`: of the training rows' rewards."""

    situations: Sequence[Situation]  # one per state
    owner: NDArray[np.int64]  # [row] → state
    states: Floats  # [state, …]
    actions: Floats  # [row, …]
    types: Sequence[str]
    reward: Floats
    weight: Floats
    centre: float
    scale: float
    layout: Layout

    @property
    def units(self) -> Floats:
        """Rewards in units of their deviation."""
        scaled: Floats = (self.reward - self.centre) / self.scale
        return scaled

    def linear(self, places: NDArray[np.int64] | None = None) -> LinearRows:
        """Some rows for the linear model; all of them by default."""
        keep = np.arange(len(self.reward)) if places is None else places
        text = (self.layout.state.text_width, self.layout.action.text_width)
        return LinearRows(self.states[self.owner[keep]], self.actions[keep], self.units[keep], self.weight[keep], text)

    def inputs(self) -> tuple[StateInputs, ActionInputs]:
        return StateInputs.of(self.layout, self.states, self.situations), ActionInputs.of(self.layout, self.actions)

    def type_means(self) -> dict[str, float]:
        """The mean reward of every type, shrunk a little to the mean of all."""
        means: dict[str, float] = {}
        for name in sorted(set(self.types)):
            mine = np.array([kind == name for kind in self.types])
            total = float(self.weight[mine].sum())
            means[name] = (float((self.weight * self.reward)[mine].sum()) + self.centre) / (total + 1.0)
        return means


def state_key(situation: Situation) -> str:
    """What two tuples of the same state share."""
    return dumps([situation.episode or "", situation.text, dict(situation.state), situation.role])


def rows_of(
    rows: Sequence[Settled], layout: Layout, encoder: Encoder | None, mined: float, *, units: RankedRows | None = None
) -> RankedRows:
    """`mined`: the weight of a row with a mined label. `units`: rows whose centre and scale are used."""
    places: dict[str, int] = {}
    situations: list[Situation] = []
    owner: list[int] = []
    for row in rows:
        key = state_key(row.decision.situation)
        if key not in places:
            places[key] = len(situations)
            situations.append(row.decision.situation)
        owner.append(places[key])
    taken = [row.decision.candidates[row.decision.index] for row in rows]
    reward = np.array([float(row.reward or 0.0) for row in rows])
    weight = np.array([row.weight * (mined if row.decision.source == "mined" else 1.0) for row in rows])
    weight = np.maximum(weight, 1e-6)
    if units is None:
        centre = float(np.average(reward, weights=weight))
        scale = float(np.sqrt(np.average((reward - centre) ** 2, weights=weight)))
    else:
        centre, scale = units.centre, units.scale
    return RankedRows(
        situations=situations,
        owner=np.array(owner, dtype=np.int64),
        states=layout.states(situations, encoder),
        actions=layout.actions(taken, encoder),
        types=[type_of(candidate) for candidate in taken],
        reward=reward,
        weight=weight,
        centre=centre,
        scale=scale if scale > 1e-12 else 1.0,
        layout=layout,
    )
