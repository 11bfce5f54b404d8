"""The rows that may speak: from settled decisions to the arrays that evidence is made of.

Both policies are asked again, as whole pipelines, about every row: what is proven is what would be served. The one
exception is a policy that learns online: on its own decisions it counts with the probabilities of that time. Which rows
may speak is in `unread`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from headway.decide.acting import Pipeline
from headway.nouns.protocols import Floats
from headway.nouns.records import Candidate, Decision, Settled, is_own
from headway.prove.log import CENSORED, DELETED, FAILED, PENDING, REWARDED, Log
from headway.reward.without import reward_without

if TYPE_CHECKING:
    from headway.encode.state import Features
    from headway.nouns.protocols import Encoder
    from headway.project.prove.actions_today import ActionsToday
    from headway.project.prove.checks import RowChecks
    from headway.project.prove.unread import Unread
    from headway.prove.log import RowOrigin
    from headway.reward.compose import Rewards


GONE = -1  # instead of its number in the outcome log: this row stands in for one that was deleted
_CHUNK = 2000
_CODES = {"rewarded": REWARDED, "failed": FAILED, "censored": CENSORED, "pending": PENDING}


def speaking(rows: Iterable[Settled], left: Counter[str], today: ActionsToday | None = None) -> Iterator[Settled]:
    """Rows that evidence can rest on, also about the actions of `today`; `left` counts the others by what they lack."""
    for row in rows:
        lacking = today.lacking(row.decision) if today is not None else ""
        if lacking:
            left[lacking] += 1
        elif row.decision.source == "mined":
            left["with a mined label"] += 1
        elif not row.decision.propensity_known:
            left["with unknown propensity"] += 1
        else:
            yield row


class _CheckColumns(TypedDict, total=False):
    origin: RowOrigin
    replayed: Floats
    decided_at: Floats
    settled_at: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRows:
    """Two policies and everything that their rows are read with; columns are in the order of `arms`.

    `rewards` says what a decision that several rated comes to without one of them; `unread`, what a policy that learns
    online did at the time of the decision. `at_random`: a missing outcome is left out instead of counting at its worst.
    """

    arms: Sequence[str]
    target: Pipeline
    baseline: Pipeline
    features: Features
    encoder: Encoder | None
    guards: Sequence[str] = ()
    rewards: Rewards | None = None
    unread: Unread | None = None
    today: ActionsToday
    at_random: bool = False
    checks: RowChecks | None = None

    def chunks(self, rows: Iterable[Settled]) -> Iterator[Log]:
        """`Log` chunks with both policies' probabilities."""
        stream = iter(rows)
        first = 0
        while batch := list(islice(stream, _CHUNK)):
            yield self._chunk(batch, first)
            first += len(batch)

    def _chunk(self, batch: Sequence[Settled], first_row: int) -> Log:
        column = {name: index for index, name in enumerate(self.arms)}
        decisions = [row.decision for row in batch]
        situations = [decision.situation for decision in decisions]
        places = _places([decision.candidates for decision in decisions], column)
        offered = [self.today.of(decision) for decision in decisions]
        candidate, other = self._distributions(decisions, offered)
        asked = _places(offered, column)
        raters, without = _rated(batch, self.rewards)
        checked = {} if self.checks is None else self._checked(self.checks, batch, places)
        roles = np.array([situation.role or "none" for situation in situations], dtype=np.str_)
        return Log.of(
            reward=_rewards(batch),
            action=[column[decision.action] for decision in decisions],
            logged=_spread(_logged(decisions, places.shape[1]), places, len(column)),
            target=_spread(candidate, asked, len(column)),
            baseline=_spread(other, asked, len(column)),
            features=self.features.vectors(situations, self.encoder),
            status=[DELETED if row.seq == GONE else _CODES[row.status] for row in batch],
            worst=[row.reward is None and (row.status == "pending" or not self.at_random) for row in batch],
            arms=tuple(column),
            segments={"role": roles} if any(situation.role for situation in situations) else {},
            keys=np.array([decision.key or "local" for decision in decisions], dtype=np.str_),
            guards={name: [row.signals.get(name, np.nan) for row in batch] for name in self.guards},
            sources=np.array([decision.source for decision in decisions], dtype=np.str_),
            raters=raters,
            without=without,
            first_row=first_row,
            **checked,
        )

    def _checked(self, checks: RowChecks, batch: Sequence[Settled], places: NDArray[np.int64]) -> _CheckColumns:
        """Columns that only the checks read."""
        decisions = [row.decision for row in batch]
        decided_at, settled_at = checks.times(decisions)
        return {
            "origin": checks.origin(batch, self.features),
            "replayed": _spread(checks.replays.probabilities(decisions, places.shape[1]), places, len(self.arms)),
            "decided_at": decided_at,
            "settled_at": settled_at,
        }

    def _distributions(
        self, decisions: Sequence[Decision], sets: Sequence[Sequence[Candidate]]
    ) -> tuple[Floats, Floats]:
        """Both policies' probabilities of these candidates, [row, candidate]."""
        situations = [decision.situation for decision in decisions]
        seeds = [decision.seed for decision in decisions]
        candidate = self.target.distributions(situations, sets, seeds)
        other = self.baseline.distributions(situations, sets, seeds)
        if self.unread is not None:
            _put(candidate, self.unread.candidate_stood(decisions))
            _put(other, self.unread.other_stood(decisions))
        return candidate, other


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


def _put(probabilities: Floats, stood: Sequence[Sequence[float] | None]) -> None:
    """Replace the rows of [row, candidate] for which there is something else."""
    for row, instead in enumerate(stood):
        if instead is not None:
            probabilities[row, : len(instead)] = instead


def _rewards(batch: Sequence[Settled]) -> Floats:
    return np.array([np.nan if row.reward is None else row.reward for row in batch])


def _rated(batch: Sequence[Settled], rewards: Rewards | None) -> tuple[dict[str, NDArray[np.bool_]], dict[str, Floats]]:
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
            if len(batch[place].said) > 1 and rewards is not None:
                left[place] = reward_without(batch[place], name, rewards)
    return raters, without


def _spread(values: Floats, places: NDArray[np.int64], width: int) -> Floats:
    """[row, candidate] → [row, arm]."""
    spread = np.zeros((len(values), width + 1))
    np.put_along_axis(spread, np.where(places < 0, width, places), values[:, : places.shape[1]], axis=1)
    return spread[:, :width]
