"""Which outcomes are compared with which, to notice that the world changed.

The outcomes of a task are watched as several streams (`find`):

    all                          everything that the current policy chose, across promotions; only a fall counts
    action large                 where it was a likely choice, since the policy changed; only a fall counts
    action large, role planner   the same in one role
    exploration of large         where it was drawn to explore, since the policy changed; a rise counts as well

A change of one action must also show within the roles: if only the mix of roles changed, at most `all` tells.
The first stream and those of actions may each give `RATE` false alarms per 100,000 rows, and so may the two others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Floats
from headway.prove.change import Change, find_change, limit

RATE = 0.0125  # false alarms per 100,000 rows and kind of stream; there are four
LIMIT = limit(RATE)
_SEGMENT = 200  # rows that a role needs for a stream of its own
_ACTIONS = 20  # actions with streams of their own, the most frequent ones
_RESTARTS = 8  # rises that are skipped in one check

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRows:
    """Outcomes in the order of the decisions: one element per row."""

    reward: Floats
    action: Whole
    role: Whole
    likely: NDArray[np.bool_]  # a likely choice of the policy; otherwise it was drawn to explore
    own: NDArray[np.bool_]  # the current policy's draw, not a canary's
    policy: Whole  # another number after each promotion and rollback
    settings: Whole  # another number under other settings
    actions: Sequence[str]
    roles: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A change that is known already: the streams that it touches start at `row`, or are not watched (None)."""

    action: str  # empty: it touches all
    row: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamChange:
    """The outcomes of a stream changed; `row` is the first one after the change."""

    stream: str
    action: str
    segment: str
    explored: bool
    row: int
    change: Change

    @property
    def matters(self) -> bool:
        """Whether another choice may be better now: a fall of what is served, or a rise of what is not."""
        return self.change.fall != self.explored


@dataclass(frozen=True, slots=True)
class _OutcomeStream:
    name: str
    places: Whole
    action: str = ""
    segment: str = ""
    explored: bool = False


def find(rows: StreamRows, known: Sequence[Known] = (), least: float = LIMIT) -> StreamChange | None:
    """The change to report: of one action if that explains it, the strongest one; of everything if several fell."""
    everything, streams = _everything(rows, known), list(_of_actions(rows, known))
    changes = _changes(rows, streams, least)
    served = {change.action for change in changes if not change.explored}
    if everything is not None and (not changes or len(served) > 1):
        fall = _change(rows, everything, least)
        if fall is not None and served:
            return fall
        if fall is not None:
            # The same rows are in its streams: one of them that is half-way there tells where it happened.
            changes = _changes(rows, [stream for stream in streams if not stream.explored], least / 2) or [fall]
    return max(changes, key=lambda change: change.change.strength, default=None)


def _changes(rows: StreamRows, streams: Sequence[_OutcomeStream], least: float) -> list[StreamChange]:
    return [change for stream in streams if (change := _change(rows, stream, least)) is not None]


def _everything(rows: StreamRows, known: Sequence[Known]) -> _OutcomeStream | None:
    start = _start("", known)
    if start is None:
        return None
    places = np.flatnonzero(rows.own)
    return _OutcomeStream("all", places[places >= max(start, _last_change(rows.settings))])


def _of_actions(rows: StreamRows, known: Sequence[Known]) -> Iterator[_OutcomeStream]:
    since = max(_last_change(rows.policy), _last_change(rows.settings))
    for number, action in enumerate(rows.actions[:_ACTIONS]):
        start = _start(action, known)
        if start is None:
            continue
        places = np.flatnonzero(rows.own & (rows.action == number))
        places = places[places >= max(start, since)]
        likely = rows.likely[places]
        yield _OutcomeStream(f"exploration of {action}", places[~likely], action, explored=True)
        places = places[likely]
        yield _OutcomeStream(f"action {action}", places, action)
        for role in np.flatnonzero(np.bincount(rows.role[places], minlength=1) >= _SEGMENT).tolist():
            if rows.roles[role]:
                name = f"action {action}, role {rows.roles[role]}"
                yield _OutcomeStream(name, places[rows.role[places] == role], action, rows.roles[role])


def _start(action: str, known: Sequence[Known]) -> int | None:
    """The first row of a stream; None: it is not watched while an alarm that touches it is open."""
    touching = [change.row for change in known if not action or change.action in ("", action)]
    if None in touching:
        return None
    return max((row for row in touching if row is not None), default=0)


def _last_change(numbers: Whole) -> int:
    """The first row since which these numbers have not changed."""
    changes = np.flatnonzero(numbers != numbers[-1]) if numbers.size else numbers
    return int(changes[-1]) + 1 if changes.size else 0


def _change(rows: StreamRows, stream: _OutcomeStream, least: float) -> StreamChange | None:
    """The change of a stream that counts; where outcomes of a likely choice rose, the stream starts anew there."""
    places = stream.places
    for _ in range(_RESTARTS):
        change = find_change(rows.reward[places], least)
        if change is None:
            return None
        if change.fall or stream.explored:
            break
        places = places[change.split :]
    else:
        return None
    if stream.action and not _within_roles(rows.reward[places], rows.role[places], change, least):
        return None
    return StreamChange(
        stream=stream.name,
        action=stream.action,
        segment=stream.segment,
        explored=stream.explored,
        row=int(places[change.split]),
        change=change,
    )


def _within_roles(reward: Floats, role: Whole, change: Change, least: float) -> bool:
    """Whether the change shows within the roles as well, and is not just another mix of them.

    The differences within the roles, weighted as by Mantel and Haenszel, need half of the strength; and half of the
    comparison must be within roles, or nothing tells a change from another mix.
    """
    after = np.arange(reward.size) >= change.split
    difference = variance = compared = 0.0
    for number in np.unique(role):
        inside = role == number
        one, two = reward[inside & ~after], reward[inside & after]
        if not one.size or not two.size:
            continue
        weight = one.size * two.size / (one.size + two.size)
        within = (one.var() * one.size + two.var() * two.size) / (one.size + two.size)
        compared += weight
        difference += weight * float(two.mean() - one.mean())
        variance += weight * float(within)
    if compared * reward.size < 0.5 * change.rows[0] * change.rows[1]:
        return False
    if variance <= 0.0:
        return difference != 0.0
    return (difference < 0.0) == change.fall and difference**2 / (2.0 * variance) >= least / 2.0
