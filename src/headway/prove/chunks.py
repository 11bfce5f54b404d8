"""From decisions as columns and the probabilities of two policies to a chunk of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns import SOURCES, Candidate, Floats, is_own
from headway.observe import STATUSES, DrawnRows
from headway.prove.log import DELETED, STATUS, Log, RowOrigin

_CODES = np.array([STATUS.index(name) for name in STATUSES])
_SOURCES = np.array(SOURCES)

Without = Callable[[Sequence[int]], Iterable[tuple[int, Mapping[str, float]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckColumns:
    """Columns that only the checks read."""

    origin: RowOrigin
    replayed: Sequence[Sequence[float] | None]  # by row, of its candidates; None: it was not asked again
    decided_at: Sequence[float]
    settled_at: Sequence[float]


def chunk(
    drawn: DrawnRows,
    *,
    arms: Sequence[str],
    offered: Mapping[int, Sequence[Candidate]],
    candidate: Floats,
    other: Floats,
    features: Floats,
    guards: Mapping[str, Sequence[float | None]],
    at_random: bool,
    without: Without,
    first_row: int,
    checked: CheckColumns | None,
) -> Log:
    """Columns are in the order of `arms`; both policies' probabilities are of the candidates `offered` from each set.

    `without`: by decision, the rewards without each of its raters. `at_random`: a missing outcome is left out instead
    of counting at its worst.
    """
    column, rows = {name: index for index, name in enumerate(arms)}, drawn.rows
    places, asked = _places(drawn, drawn.sets, column), _places(drawn, offered, column)
    status = np.where(drawn.gone, DELETED, _CODES[rows.status])
    raters, rewards_without = _rated(drawn, without)
    roles = [situation.role for situation in drawn.situations]
    return Log.of(
        reward=rows.reward,
        action=places[np.arange(len(rows)), rows.action],
        logged=_spread(drawn.logged, places, len(column)),
        target=_spread(candidate, asked, len(column)),
        baseline=_spread(other, asked, len(column)),
        features=features,
        status=status,
        worst=np.isnan(rows.reward) & ((rows.status == 0) | (not at_random)),
        arms=tuple(column),
        segments={"role": np.array([role or "none" for role in roles], dtype=np.str_)} if any(roles) else {},
        keys=np.array([key or "local" for key in drawn.keys], dtype=np.str_),
        guards={name: np.where(drawn.gone, np.nan, np.array(values, float)) for name, values in guards.items()},
        sources=_SOURCES[rows.source],
        raters=raters,
        without=rewards_without,
        first_row=first_row,
        replayed=None if checked is None else _spread(_again(checked.replayed, places.shape[1]), places, len(column)),
        decided_at=None if checked is None else np.array(checked.decided_at),
        settled_at=None if checked is None else np.array(checked.settled_at),
        origin=None if checked is None else checked.origin,
    )


class DrawnPolicy:
    """A policy as an action, with the probabilities of a pipeline: 1 for itself."""

    def __init__(self, place: int) -> None:
        self._place = place

    def distributions(self, situations: Sequence[object], *_: object) -> Floats:
        """[row, policy]"""
        drawn = np.zeros((len(situations), 2))
        drawn[:, self._place] = 1.0
        return drawn


def _places(drawn: DrawnRows, sets: Mapping[int, Sequence[Candidate]], column: Mapping[str, int]) -> NDArray[np.int64]:
    """Where the candidates of a row stand among all arms: [row, candidate], −1 past the end of a shorter set."""
    numbers, of = np.unique(drawn.rows.candidates, return_inverse=True)
    known = [[column[candidate.name] for candidate in sets[number]] for number in numbers.tolist()]
    table = np.full((len(known), max(map(len, known), default=0)), -1)
    for row, own in enumerate(known):
        table[row, : len(own)] = own
    return table[of]


def put(probabilities: Floats, stood: Sequence[Sequence[float] | None]) -> None:
    """Replace the rows of [row, candidate] for which there is something else."""
    for row, instead in enumerate(stood):
        if instead is not None:
            probabilities[row, : len(instead)] = instead


def _rated(drawn: DrawnRows, rewards_of: Without) -> tuple[dict[str, NDArray[np.bool_]], dict[str, Floats]]:
    """Which rows every rater had a part in, and for raters other than the project itself: the rewards without them."""
    who = np.array(list(map(id, drawn.said)), dtype=np.int64)  # many rows share one mapping
    _, firsts = np.unique(who, return_index=True)
    groups = [(drawn.said[first], np.flatnonzero(who == who[first])) for first in np.sort(firsts).tolist()]
    raters: dict[str, NDArray[np.bool_]] = {}
    for said, places in groups:
        for name in said:
            raters.setdefault(name, np.zeros(len(drawn), dtype=np.bool_))[places] = True
    without = {name: np.where(rated, np.nan, drawn.rows.reward) for name, rated in raters.items() if not is_own(name)}
    several = [place for said, places in groups if len(said) > 1 for place in places.tolist()]
    found = dict(rewards_of(drawn.rows.seq[several].tolist())) if several and without else {}
    for place in several:
        rewards = found.get(int(drawn.rows.seq[place]), {})
        for name in drawn.said[place]:
            if name in without:
                without[name][place] = rewards.get(name, np.nan)
    return raters, without


def _spread(values: Floats, places: NDArray[np.int64], width: int) -> Floats:
    """[row, candidate] → [row, arm]."""
    spread = np.zeros((len(values), width + 1))
    np.put_along_axis(spread, np.where(places < 0, width, places), values[:, : places.shape[1]], axis=1)
    return spread[:, :width]


def _again(replayed: Sequence[Sequence[float] | None], width: int) -> Floats:
    """[row, candidate]; NaN where nothing was asked."""
    asked = np.full((len(replayed), width), np.nan)
    for row, chances in enumerate(replayed):
        if chances is not None:
            asked[row] = 0.0
            asked[row, : len(chances)] = chances
    return asked
