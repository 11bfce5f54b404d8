"""From settled decisions and the probabilities of two policies to a chunk of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Candidate, Decision, Floats, Settled, is_own
from headway.prove.log import CENSORED, DELETED, FAILED, PENDING, REWARDED, Log, RowOrigin

GONE = -1  # instead of its number in the outcome log: this row stands in for one that was deleted
_CODES = {"rewarded": REWARDED, "failed": FAILED, "censored": CENSORED, "pending": PENDING}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckColumns:
    """Columns that only the checks read."""

    origin: RowOrigin
    replayed: Sequence[Sequence[float] | None]  # by row, of its candidates; None: it was not asked again
    decided_at: Sequence[float]
    settled_at: Sequence[float]


def chunk(
    batch: Sequence[Settled],
    *,
    arms: Sequence[str],
    offered: Sequence[Sequence[Candidate]],
    candidate: Floats,
    other: Floats,
    features: Floats,
    guards: Sequence[str],
    at_random: bool,
    without: Callable[[Settled, str], float] | None,
    first_row: int,
    checked: CheckColumns | None,
) -> Log:
    """Columns are in the order of `arms`; both policies' probabilities are of the candidates `offered` in each row.

    `without`: the reward of a row without one of its raters. `at_random`: a missing outcome is left out instead of
    counting at its worst.
    """
    column = {name: index for index, name in enumerate(arms)}
    decisions = [row.decision for row in batch]
    places, asked = _places([decision.candidates for decision in decisions], column), _places(offered, column)
    raters, rewards_without = _rated(batch, without)
    roles = [decision.situation.role for decision in decisions]
    return Log.of(
        reward=_rewards(batch),
        action=[column[decision.action] for decision in decisions],
        logged=_spread(_logged(decisions, places.shape[1]), places, len(column)),
        target=_spread(candidate, asked, len(column)),
        baseline=_spread(other, asked, len(column)),
        features=features,
        status=[DELETED if row.seq == GONE else _CODES[row.status] for row in batch],
        worst=[row.reward is None and (row.status == "pending" or not at_random) for row in batch],
        arms=tuple(column),
        segments={"role": np.array([role or "none" for role in roles], dtype=np.str_)} if any(roles) else {},
        keys=np.array([decision.key or "local" for decision in decisions], dtype=np.str_),
        guards={name: [row.signals.get(name, np.nan) for row in batch] for name in guards},
        sources=np.array([decision.source for decision in decisions], dtype=np.str_),
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


def _places(sets: Sequence[Sequence[Candidate]], column: Mapping[str, int]) -> NDArray[np.int64]:
    """Where the candidates of a row stand among all arms: [row, candidate], −1 past the end of a shorter set."""
    places = np.full((len(sets), max(map(len, sets))), -1)
    for row, candidates in enumerate(sets):
        places[row, : len(candidates)] = [column[candidate.name] for candidate in candidates]
    return places


def _logged(decisions: Sequence[Decision], width: int) -> Floats:
    """The probabilities that were acted from: [row, candidate]."""
    logged = np.zeros((len(decisions), width))
    for row, decision in enumerate(decisions):
        logged[row, : len(decision.probabilities)] = decision.probabilities
    return logged


def put(probabilities: Floats, stood: Sequence[Sequence[float] | None]) -> None:
    """Replace the rows of [row, candidate] for which there is something else."""
    for row, instead in enumerate(stood):
        if instead is not None:
            probabilities[row, : len(instead)] = instead


def _rewards(batch: Sequence[Settled]) -> Floats:
    return np.array([np.nan if row.reward is None else row.reward for row in batch])


def _rated(
    batch: Sequence[Settled], reward_without: Callable[[Settled, str], float] | None
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, Floats]]:
    """Which rows every rater had a part in, and for raters other than the project itself: the rewards without them."""
    raters: dict[str, NDArray[np.bool_]] = {}
    for place, row in enumerate(batch):
        for name in row.said:
            if name not in raters:
                raters[name] = np.zeros(len(batch), dtype=np.bool_)
            raters[name][place] = True
    reward = _rewards(batch)
    without: dict[str, Floats] = {}
    for name, rated in raters.items():
        if is_own(name):
            continue
        left = without[name] = np.where(rated, np.nan, reward)
        for place in np.flatnonzero(rated).tolist():
            if len(batch[place].said) > 1 and reward_without is not None:
                left[place] = reward_without(batch[place], name)
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
