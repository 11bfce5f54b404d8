"""Decisions that share one result with others: steps of an episode rated as a whole, and attempts of one request.

The unit of such a result is the episode or the request, not the decision. Decisions that repeat the draw of a sticky
episode are one draw, and share nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from headway.nouns import id_bytes
from headway.observe.database import Database, chunks, placeholders
from headway.observe.query import Query

_LIVE = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"


@dataclass(frozen=True, slots=True)
class SharedResults:
    """Numbers of decisions."""

    steps: frozenset[int]
    attempts: frozenset[int]


def shared_results(database: Database, query: Query, task: str, signals: Collection[str]) -> SharedResults:
    """Which draws of a task share a result; `signals` are those that count, all if there are none."""
    task_id = query.name_id("task", task)
    names = [query.name_id("signal", name) for name in signals]
    counts = f" AND g.name_id IN ({placeholders(names)})" if names else ""
    steps = database.query(
        "SELECT d.seq FROM episodes e JOIN decisions d ON d.episode = e.id AND d.draw IS NULL WHERE e.task_id = ? "
        "AND 1 < (SELECT COUNT(*) FROM decisions o WHERE o.episode = e.id AND o.draw IS NULL) "
        f"AND EXISTS (SELECT 1 FROM signals g WHERE g.subject = e.id AND {_LIVE}{counts})",
        (task_id, *names),
    )
    return SharedResults(frozenset(row[0] for row in steps), frozenset(_attempts(database, query, task_id)))


def _attempts(database: Database, query: Query, task_id: int) -> list[int]:
    """Attempts after the first one name the attempt before; the proxy's word, because whoever links can hide a row."""
    link, proxy = query.name_id("signal", "attempt"), query.name_id("rater", "proxy:")
    if not link or not proxy:
        return []
    linked = database.query(
        "SELECT d.seq, g.label FROM decisions d JOIN signals g ON g.subject = d.id AND g.name_id = ? "
        f"WHERE d.task_id = ? AND g.rater_id = ? AND g.label <> '' AND {_LIVE}",
        (link, task_id, proxy),
    )
    found = [row[0] for row in linked]
    for before in chunks([id_bytes(row[1]) for row in linked], 1000):
        found += [
            row[0] for row in database.query(f"SELECT seq FROM decisions WHERE id IN ({placeholders(before)})", before)
        ]
    return found
