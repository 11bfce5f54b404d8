"""Counts by day, for reports and charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from headway.observe.database import Database
from headway.observe.query import Query
from headway.observe.rows import microseconds
from headway.observe.totals import DAY, DayTotal, daily_totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    day: str
    decisions: int
    signals: int
    rewarded: int
    reward: float | None  # the mean


def by_day(database: Database, query: Query, task: str, *, since: float) -> list[Day]:
    """Counts per day in UTC, oldest first; empty days are omitted.

    A decision, its signals and its reward all count on the day of the decision.
    """
    first = microseconds(since) // DAY
    days: dict[int, DayTotal] = {}
    for total in daily_totals(database, query.name_id("task", task)):
        if total.day >= first and total.decisions:
            days.setdefault(total.day, DayTotal(total.day, 0)).add(total)
    return [
        Day(
            day=_iso_date(day),
            decisions=total.decisions,
            signals=total.signals,
            rewarded=total.rewards,
            reward=total.reward_sum / total.rewards if total.rewards else None,
        )
        for day, total in sorted(days.items())
    ]


def _iso_date(day: int) -> str:
    start: date = datetime(1970, 1, 1, tzinfo=UTC).date()
    return (start + timedelta(days=day)).isoformat()
