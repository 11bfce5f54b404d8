"""Counts by day, for reports and charts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from headway.observe.database import Database
from headway.observe.query import Query
from headway.observe.rows import microseconds

__all__ = ["Day", "by_day"]

Day = tuple[str, int, int, int, float | None]
_DAY = 86_400_000_000  # microseconds


def by_day(database: Database, query: Query, task: str, *, since: float) -> list[Day]:
    """(day, decisions, signals, rewarded, mean reward) per day in UTC, oldest first; empty days are omitted.

    A decision, its signals and its reward all count on the day of the decision.
    """
    values = (query.name_id("task", task), microseconds(since) // _DAY * _DAY)
    decisions = database.query(
        f"SELECT at / {_DAY}, COUNT(*) FROM decisions WHERE task_id = ? AND at >= ? GROUP BY 1", values
    )
    signals: dict[int, int] = dict(
        database.query(
            f"SELECT d.at / {_DAY}, COUNT(*) FROM decisions d JOIN signals g ON g.subject = d.id "
            "WHERE d.task_id = ? AND d.at >= ? AND g.withdrawn_by IS NULL AND g.value IS NOT NULL GROUP BY 1",
            values,
        )
    )
    rewards = {
        day: (count, mean)
        for day, count, mean in database.query(
            f"SELECT d.at / {_DAY}, COUNT(s.reward), AVG(s.reward) FROM decisions d "
            "JOIN settled s ON s.decision = d.seq WHERE d.task_id = ? AND d.at >= ? "
            "AND NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq) GROUP BY 1",
            values,
        )
    }
    return [
        (_iso_date(day), count, signals.get(day, 0), *rewards.get(day, (0, None))) for day, count in sorted(decisions)
    ]


def _iso_date(day: int) -> str:
    start: date = datetime(1970, 1, 1, tzinfo=UTC).date()
    return (start + timedelta(days=day)).isoformat()
