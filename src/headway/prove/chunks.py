"""From decisions as columns and the probabilities of two policies to a chunk of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headway.nouns import SOURCES, Candidate, Floats, is_own
from headway.observe import STATUSES, DrawnRows, Flags
from headway.prove.log import DELETED, STATUS, Integers, Log

_CODES = np.array([STATUS.index(name) for name in STATUSES])
_SOURCES = np.array(SOURCES)

_Without = Callable[[Sequence[int]], Iterable[tuple[int, Mapping[str, float]]]]


def chunk(
    drawn: DrawnRows,
    offered: Mapping[int, Sequence[Candidate]],
    asked: Sequence[Floats],
    *,
    arms: Sequence[str],
    guards: Mapping[str, Sequence[float | None]],
    at_random: bool,
    without: _Without,
    replayed: Sequence[Sequence[float] | None] = (),
    **columns: Any,
) -> Log:
    """Columns are in the order of `arms`; both policies were `asked` about the candidates `offered` from each set.

    `without`: by decision, the rewards without each of its raters. `at_random`: a missing outcome is left out instead
    of counting at its worst. `replayed`: by row, of its candidates; None where nothing was asked again.
    """
    column, rows = {name: index for index, name in enumerate(arms)}, drawn.rows
    places, today = _places(drawn, drawn.sets, column), _places(drawn, offered, column)
    raters, rewards_without = _rated(drawn, without)
    roles = [situation.role for situation in drawn.situations]
    if replayed:
        again = np.full((len(drawn), places.shape[1]), np.nan)
        put(again, [None if chances is None else [*chances, *[0.0] * again.shape[1]] for chances in replayed])
        columns["replayed"] = _spread(again, places, len(column))
    return Log.of(
        reward=rows.reward,
        action=places[np.arange(len(rows)), rows.action],
        logged=_spread(drawn.logged, places, len(column)),
        target=_spread(asked[0], today, len(column)),
        baseline=_spread(asked[1], today, len(column)),
        status=np.where(drawn.gone, DELETED, _CODES[rows.status]),
        worst=np.isnan(rows.reward) & ((rows.status == 0) | (not at_random)),
        arms=tuple(column),
        segments={"role": np.array([role or "none" for role in roles], dtype=np.str_)} if any(roles) else {},
        keys=np.array([key or "local" for key in drawn.keys], dtype=np.str_),
        guards={name: np.where(drawn.gone, np.nan, np.array(values, float)) for name, values in guards.items()},
        sources=_SOURCES[rows.source],
        raters=raters,
        without=rewards_without,
        **columns,
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


def put(probabilities: Floats, stood: Sequence[Sequence[float] | None]) -> None:
    """Replace the rows of [row, candidate] for which there is something else."""
    for row, instead in enumerate(stood):
        if instead is not None:
            probabilities[row, : len(instead)] = instead[: probabilities.shape[1]]


def _places(drawn: DrawnRows, sets: Mapping[int, Sequence[Candidate]], column: Mapping[str, int]) -> Integers:
    """Where the candidates of a row stand among all arms: [row, candidate], −1 past the end of a shorter set."""
    numbers, of = np.unique(drawn.rows.candidates, return_inverse=True)
    known = [[column[candidate.name] for candidate in sets[number]] for number in numbers.tolist()]
    table = np.full((len(known), max(map(len, known), default=0)), -1)
    for row, own in enumerate(known):
        table[row, : len(own)] = own
    return table[of]


def _rated(drawn: DrawnRows, rewards_of: _Without) -> tuple[dict[str, Flags], dict[str, Floats]]:
    """Which rows every rater had a part in, and for raters other than the project itself: the rewards without them."""
    who = np.array(list(map(id, drawn.said)), dtype=np.int64)  # many rows share one mapping
    _, firsts = np.unique(who, return_index=True)
    groups = [(drawn.said[first], np.flatnonzero(who == who[first])) for first in np.sort(firsts).tolist()]
    raters: dict[str, Flags] = {}
    for said, places in groups:
        for name in said:
            raters.setdefault(name, np.zeros(len(drawn), dtype=np.bool_))[places] = True
    without = {name: np.where(rated, np.nan, drawn.rows.reward) for name, rated in raters.items() if not is_own(name)}
    several = {int(drawn.rows.seq[place]): place for said, of in groups if len(said) > 1 for place in of.tolist()}
    for seq, rewards in rewards_of(list(several)) if several and without else ():
        for name in rewards.keys() & without.keys():
            without[name][several[seq]] = rewards[name]
    return raters, without


def _spread(values: Floats, places: Integers, width: int) -> Floats:
    """[row, candidate] → [row, arm]."""
    spread = np.zeros((len(values), width + 1))
    np.put_along_axis(spread, np.where(places < 0, width, places), values[:, : places.shape[1]], axis=1)
    return spread[:, :width]
