"""Decisions that share one result with others: steps of an episode that is rated as a whole.

The unit of such a result is the episode, not the decision. Decisions that repeat the draw of a sticky episode are one
draw, and share nothing; a task with `unit = "episode"` counts by episode anyway.
"""

from __future__ import annotations

from collections.abc import Collection

from headway.observe.database import Database, placeholders
from headway.observe.query import Query
from headway.observe.rows import LEADS

_LATEST = 1000  # decisions


def rated_as_a_whole(database: Database, query: Query, task: str, signals: Collection[str]) -> bool:
    """Whether any of the latest decisions of a task shares its result with other steps of its episode."""
    names = [query.name_id("signal", name) for name in signals]
    counts = f" AND g.name_id IN ({placeholders(names)})" if names else ""
    latest = f"SELECT d.episode FROM decisions d WHERE d.task_id = ? AND d.unit IS NULL AND {LEADS} ORDER BY d.seq DESC"
    rows = database.query(
        f"SELECT 1 FROM ({latest} LIMIT {_LATEST}) AS l JOIN signals g ON g.subject = l.episode "
        f"WHERE g.withdrawn_by IS NULL AND g.value IS NOT NULL{counts} "
        "AND 1 < (SELECT COUNT(*) FROM decisions o WHERE o.episode = l.episode AND o.draw IS NULL) LIMIT 1",
        (query.name_id("task", task), *names),
    )
    return bool(rows)


def shared_results(database: Database, query: Query, task: str, signals: Collection[str]) -> frozenset[int]:
    """Which draws of a task share a result; `signals` are those that count, all if there are none."""
    names = [query.name_id("signal", name) for name in signals]
    counts = f" AND g.name_id IN ({placeholders(names)})" if names else ""
    steps = database.query(
        "SELECT d.seq FROM episodes e JOIN decisions d ON d.episode = e.id AND d.unit IS NULL "
        f"AND {LEADS} WHERE e.task_id = ? "
        "AND 1 < (SELECT COUNT(*) FROM decisions o WHERE o.episode = e.id AND o.draw IS NULL) "
        "AND EXISTS (SELECT 1 FROM signals g WHERE g.subject = e.id AND g.withdrawn_by IS NULL "
        f"AND g.value IS NOT NULL{counts})",
        (query.name_id("task", task), *names),
    )
    return frozenset(row[0] for row in steps)
