"""When the configuration of a task changed: found by a fixed number of index lookups, however long the log is.

The log is looked at in a fixed number of places, and between two that differ the change is found by bisection. A change
that was taken back between two places is not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headway.observe.database import Database
from headway.observe.query import Query

_PLACES = 200
_AT = (
    "SELECT d.seq, d.at, c.body, p.ref FROM decisions d JOIN configs c ON c.id = d.config_id "
    "JOIN policies p ON p.id = d.policy_id WHERE d.task_id = ? AND d.seq >= ? ORDER BY d.seq LIMIT 1"
)
_LAST = "SELECT seq FROM decisions WHERE task_id = ? ORDER BY seq DESC LIMIT 1"


class SeenDecision(NamedTuple):
    """A decision as the history needs it."""

    seq: int
    at: float
    config: str  # the body of its configuration
    policy: str


def first_decision(database: Database, query: Query, task: str) -> SeenDecision | None:
    """The oldest decision of a task that is still stored."""
    return _from(database, query.name_id("task", task), 0)


def config_changes(
    database: Database, query: Query, task: str, key: Callable[[str], str]
) -> list[tuple[SeenDecision, SeenDecision]]:
    """(the last look before, the first decision after) each change of `key(configuration)`, oldest first."""
    task_id = query.name_id("task", task)
    before, rows = _from(database, task_id, 0), database.query(_LAST, (task_id,))
    if before is None or not rows:
        return []
    first, last = before.seq, int(rows[0][0])
    changes = []
    for place in range(1, _PLACES + 1):
        seen = _from(database, task_id, first + (last - first) * place // _PLACES)
        assert seen is not None
        if key(seen.config) != key(before.config):
            changes.append((before, _bisected(database, task_id, before, seen, key)))
        before = seen
    return changes


def _bisected(
    database: Database, task_id: int, before: SeenDecision, after: SeenDecision, key: Callable[[str], str]
) -> SeenDecision:
    """The first decision with the later configuration."""
    low, high, wanted = before.seq, after.seq, key(after.config)
    while high - low > 1:
        place = (low + high) // 2
        seen = _from(database, task_id, place)
        assert seen is not None
        if key(seen.config) == wanted:  # so has the first decision from here on
            high, after = place, seen
        else:
            low = seen.seq
    return after


def _from(database: Database, task_id: int, seq: int) -> SeenDecision | None:
    """The first decision with at least this number."""
    rows = database.query(_AT, (task_id, seq))
    return SeenDecision(int(rows[0][0]), rows[0][1] / 1e6, rows[0][2], rows[0][3]) if rows else None
