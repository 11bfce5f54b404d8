"""Totals of a task by day and by action, without reading its whole log.

The totals of all rows up to a mark are stored; a reading adds the rows after it, so it is always exact. `keep_totals`
moves the mark, in pages, once enough rows have come. Totals can be computed again at any time: a deletion forgets them,
and a copy of the store leaves them out.

A signal counts on the day of its decision. It is live at a mark if no row up to the mark withdraws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headway.nouns import SOURCES
from headway.observe.database import Connection, Database
from headway.observe.migrations import TOTALS
from headway.observe.rows import LEADS, REQUESTS, STATUSES

DAY = 86_400_000_000  # microseconds
_ALL = 2**62
_TAIL = 1000  # rows after the mark that a reading may have to count
_PAGE = 50_000  # rows that one step of `keep_totals` counts
_STATUS = {status: STATUSES.index(status) for status in ("rewarded", "failed", "censored")}
_ADDED = ("decisions", "repeats", "signals", "settled", *_STATUS, "rewards", "reward_sum")
_COLUMNS = ("day", "source", *_ADDED, "first_at", "last_at")
_OUTCOMES = (
    "COUNT(CASE WHEN {0}.replaces IS NULL THEN 1 END), "
    + ", ".join(f"COUNT(CASE WHEN {{0}}.status = {code} THEN 1 END)" for code in _STATUS.values())
    + ", COUNT({0}.reward), COALESCE(SUM({0}.reward), 0.0)"
)


@dataclass(slots=True)
class DayTotal:
    """Decisions of one day from one source, with their signals and present outcomes. A request is one decision."""

    day: int  # since 1970, UTC
    source: int
    decisions: int = 0
    repeats: int = 0  # of a draw or an episode: they do not count
    signals: int = 0
    settled: int = 0  # first outcomes
    rewarded: int = 0
    failed: int = 0
    censored: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    first_at: int | None = None
    last_at: int | None = None

    def add(self, other: DayTotal) -> None:
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, choose in (("first_at", min), ("last_at", max)):
            times = [at for at in (getattr(self, name), getattr(other, name)) if at is not None]
            setattr(self, name, choose(times) if times else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Row counts of a task."""

    decisions: int
    units: int  # draws, requests and episodes: what gets one outcome
    signals: int
    episodes: int
    by_status: Mapping[str, int]
    by_source: Mapping[str, int]
    first_at: float | None
    last_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    day: str
    decisions: int
    signals: int
    rewarded: int
    reward: float | None  # the mean


class _Marks(NamedTuple):
    """The last counted row of each table."""

    decisions: int = 0
    signals: int = 0
    settled: int = 0


_Days = dict[tuple[int, int], DayTotal]


def daily_totals(database: Database, task_id: int) -> list[DayTotal]:
    """The totals of a task, oldest first: the stored ones and the rows after them."""
    marks, days = _stored(database, task_id)
    for total in _counted(database, task_id, marks, _Marks(_ALL, _ALL, _ALL)).values():
        _add(days, total)
    return [total for _, total in sorted(days.items())]


def row_counts(database: Database, task_id: int) -> Counts:
    """Counts of a task, from its totals by day."""
    totals = daily_totals(database, task_id)
    decisions = sum(total.decisions for total in totals)
    units = decisions - sum(total.repeats for total in totals)
    by_status = {"pending": 0, **{name: sum(getattr(total, name) for total in totals) for name in _STATUS}}
    by_status["pending"] = units - sum(by_status.values())
    by_source: dict[str, int] = {}
    for total in totals:
        if total.decisions:
            by_source[SOURCES[total.source]] = by_source.get(SOURCES[total.source], 0) + total.decisions
    first = min((total.first_at for total in totals if total.first_at is not None), default=None)
    last = max((total.last_at for total in totals if total.last_at is not None), default=None)
    episodes = database.query("SELECT COUNT(*) FROM episodes WHERE task_id = ?", (task_id,))[0][0]
    return Counts(
        decisions=decisions,
        units=units,
        signals=sum(total.signals for total in totals),
        episodes=episodes,
        by_status=by_status,
        by_source=by_source,
        first_at=None if first is None else first / 1e6,
        last_at=None if last is None else last / 1e6,
    )


def by_day(database: Database, task_id: int, *, since: float) -> list[Day]:
    """Counts per day in UTC, oldest first; empty days are omitted.

    A decision, its signals and its reward all count on the day of the decision.
    """
    days: dict[int, DayTotal] = {}
    for total in daily_totals(database, task_id):
        if total.day >= since * 1e6 // DAY and total.decisions:
            days.setdefault(total.day, DayTotal(total.day, 0)).add(total)
    return [
        Day(
            day=datetime.fromtimestamp(day * DAY / 1e6, UTC).date().isoformat(),
            decisions=total.decisions,
            signals=total.signals,
            rewarded=total.rewards,
            reward=total.reward_sum / total.rewards if total.rewards else None,
        )
        for day, total in sorted(days.items())
    ]


def action_totals(database: Database, task_id: int) -> list[tuple[str, int, int]]:
    """(body of the candidate set, place of the action, decisions); a candidate set may come twice."""
    rows = database.query(
        "SELECT u.decisions, c.body, t.action, t.decisions FROM totals_upto u "
        "LEFT JOIN action_totals t ON t.task_id = u.task_id LEFT JOIN candidate_sets c ON c.id = t.candidate_set_id "
        "WHERE u.task_id = ?",
        (task_id,),
    )
    mark = rows[0][0] if rows else 0
    later = database.query(
        "SELECT c.body, t.action, t.n FROM (SELECT candidate_set_id, action, COUNT(*) AS n FROM decisions d "
        f"WHERE task_id = ? AND seq > ? AND {REQUESTS} GROUP BY candidate_set_id, action) t "
        "JOIN candidate_sets c ON c.id = t.candidate_set_id",
        (task_id, mark),
    )
    return [(body, action, count) for _, body, action, count in rows if body is not None] + later


def keep_totals(database: Database, task_id: int) -> None:
    """Store the totals of the rows so far, if many came. The caller holds the project lock: nothing is deleted."""
    last = _last(database, task_id)
    while True:
        marks = _stored(database, task_id)[0]
        if all(end - mark <= _TAIL for mark, end in zip(marks, last, strict=True)):
            return
        upto = _Marks(*(min(mark + _PAGE, end) if end > mark else mark for mark, end in zip(marks, last, strict=True)))
        days = _counted(database, task_id, marks, upto)
        actions = database.query(
            "SELECT candidate_set_id, action, COUNT(*) FROM decisions d "
            f"WHERE task_id = ? AND seq > ? AND seq <= ? AND {REQUESTS} GROUP BY candidate_set_id, action",
            (task_id, marks.decisions, upto.decisions),
        )
        with database.transaction() as connection:
            _write(connection, task_id, days.values(), actions, upto)


def forget_totals(connection: Connection) -> None:
    """Drop every total, because rows are deleted or changed: they are computed again."""
    for table in TOTALS:
        connection.execute(f"DELETE FROM {table}")


def forget_blocks(connection: Connection) -> None:
    """Drop every block of columns, because rows are deleted or changed: they are read again.

    Whoever reads rows just now for a block sees by the number of drops that it must not store it.
    """
    dropped = connection.execute("SELECT COALESCE(MAX(number), 0) FROM blocks WHERE task_id = 0").fetchone()[0]
    connection.execute("DELETE FROM blocks")
    connection.execute(f"INSERT INTO blocks VALUES (0, {int(dropped) + 1}, 'dropped', ?, ?)", (b"", b""))


def unreadable(database: Database, task_id: int) -> dict[int, bool]:
    """The numbers of whole blocks of columns that cannot be read, and whether each is stored: then it is damaged."""
    from headway.observe.frame import TaskFrame  # numpy

    frame = TaskFrame(database, task_id)
    sql = "SELECT DISTINCT number FROM blocks WHERE task_id = ? AND number >= 0"
    stored = {int(number) for (number,) in database.query(sql, (task_id,))}
    numbers = list(frame.numbers())
    whole = {*numbers[:-1], *stored.intersection(numbers)}  # decisions may still come to the last one
    return {number: number in stored for number in sorted(whole) if frame.stored_columns(number) is None}


# -- stored


def _stored(database: Database, task_id: int) -> tuple[_Marks, _Days]:
    """Marks and totals in one statement, so that they belong together."""
    rows = database.query(
        f"SELECT u.decisions, u.signals, u.settled, {', '.join(f't.{column}' for column in _COLUMNS)} "
        "FROM totals_upto u LEFT JOIN daily_totals t ON t.task_id = u.task_id WHERE u.task_id = ?",
        (task_id,),
    )
    if not rows:
        return _Marks(), {}
    days = {(row[3], row[4]): DayTotal(*row[3:]) for row in rows if row[3] is not None}
    return _Marks(*rows[0][:3]), days


def _last(database: Database, task_id: int) -> _Marks:
    decisions = database.query("SELECT MAX(seq) FROM decisions WHERE task_id = ?", (task_id,))[0][0]
    signals = database.query("SELECT MAX(seq) FROM signals")[0][0]
    settled = database.query("SELECT MAX(seq) FROM settled WHERE task_id = ?", (task_id,))[0][0]
    return _Marks(decisions or 0, signals or 0, settled or 0)


def _write(
    connection: Connection, task_id: int, days: Iterable[DayTotal], actions: Sequence[Any], upto: _Marks
) -> None:
    names = ", ".join(_COLUMNS)
    sums = ", ".join(f"{name} = daily_totals.{name} + excluded.{name}" for name in _ADDED)
    first = "CASE WHEN excluded.first_at < daily_totals.first_at THEN excluded.first_at ELSE daily_totals.first_at END"
    last = "CASE WHEN excluded.last_at > daily_totals.last_at THEN excluded.last_at ELSE daily_totals.last_at END"
    connection.executemany(
        f"INSERT INTO daily_totals (task_id, {names}) VALUES (?, {', '.join('?' * len(_COLUMNS))}) "
        f"ON CONFLICT (task_id, day, source) DO UPDATE SET {sums}, "
        f"first_at = COALESCE({first}, excluded.first_at), last_at = COALESCE({last}, excluded.last_at)",
        [(task_id, *(getattr(total, field.name) for field in fields(total))) for total in days],
    )
    connection.executemany(
        "INSERT INTO action_totals (task_id, candidate_set_id, action, decisions) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (task_id, candidate_set_id, action) "
        "DO UPDATE SET decisions = action_totals.decisions + excluded.decisions",
        [(task_id, *row) for row in actions],
    )
    connection.execute(
        "INSERT INTO totals_upto (task_id, decisions, signals, settled) VALUES (?, ?, ?, ?) ON CONFLICT (task_id) "
        "DO UPDATE SET decisions = excluded.decisions, signals = excluded.signals, settled = excluded.settled",
        (task_id, *upto),
    )


# -- counted now: the difference between the totals at two marks


def _counted(database: Database, task_id: int, marks: _Marks, upto: _Marks) -> _Days:
    days: _Days = {}
    for day, source, decisions, repeats, first, last in database.query(
        f"SELECT at / {DAY}, source, COUNT(*), COUNT(CASE WHEN NOT ({LEADS}) THEN 1 END), MIN(at), MAX(at) "
        f"FROM decisions d WHERE task_id = ? AND seq > ? AND seq <= ? AND {REQUESTS} GROUP BY 1, 2",
        (task_id, marks.decisions, upto.decisions),
    ):
        _add(days, DayTotal(day, source, decisions, repeats, first_at=first, last_at=last))
    _count_signals(database, task_id, marks, upto, days)
    _count_outcomes(database, task_id, marks, upto, days)
    return days


def _count_outcomes(database: Database, task_id: int, marks: _Marks, upto: _Marks, days: _Days) -> None:
    """Add the rows since the mark, and take the rows that they replace away."""
    # CROSS JOIN: SQLite keeps the order, and looks the decisions of these few rows up.
    within = f"s.task_id = ? AND s.seq > ? AND s.seq <= ? AND d.seq = s.decision AND {LEADS}"
    new = f"settled s CROSS JOIN decisions d WHERE {within}"
    replaced = f"settled s CROSS JOIN settled r CROSS JOIN decisions d WHERE {within} AND r.seq = s.replaces"
    for sign, columns, tables in ((1, _OUTCOMES.format("s"), new), (-1, _OUTCOMES.format("r"), replaced)):
        for day, source, settled, rewarded, failed, censored, count, total in database.query(
            f"SELECT d.at / {DAY}, d.source, {columns} FROM {tables} GROUP BY 1, 2",
            (task_id, marks.settled, upto.settled),
        ):
            # The first row of a decision stays its first, also if it is replaced.
            first = settled if sign > 0 else 0
            counts = (sign * rewarded, sign * failed, sign * censored, sign * count, sign * total)
            _add(days, DayTotal(day, source, 0, 0, 0, first, *counts))


def _count_signals(database: Database, task_id: int, marks: _Marks, upto: _Marks, days: _Days) -> None:
    live = "g.value IS NOT NULL AND (g.withdrawn_by IS NULL OR g.withdrawn_by > ?)"
    decided = "d.id = g.subject AND +d.task_id = ? AND d.seq <= ?"
    new = f"signals g CROSS JOIN decisions d WHERE g.seq > ? AND g.seq <= ? AND {live} AND {decided}"
    counts: list[tuple[int, str, tuple[int, ...]]] = [
        (1, new, (marks.signals, upto.signals, upto.signals, task_id, upto.decisions))
    ]
    if marks.signals:
        late = (  # signals before the mark of decisions after it: they came early
            "decisions d CROSS JOIN signals g WHERE d.task_id = ? AND d.seq > ? AND d.seq <= ? "
            f"AND g.subject = d.id AND g.seq <= ? AND {live}"
        )
        withdrawn = (  # signals before the mark that a signal after it withdraws
            "signals n CROSS JOIN signals g CROSS JOIN decisions d WHERE n.seq > ? AND n.seq <= ? "
            "AND g.subject = n.subject AND g.name_id = n.name_id AND g.rater_id = n.rater_id "
            f"AND g.withdrawn_by = n.seq AND g.seq <= ? AND g.value IS NOT NULL AND {decided}"
        )
        counts += [
            (1, late, (task_id, marks.decisions, upto.decisions, marks.signals, marks.signals)),
            (-1, withdrawn, (marks.signals, upto.signals, marks.signals, task_id, upto.decisions)),
        ]
    for sign, tables, values in counts:
        for day, source, count in database.query(
            f"SELECT d.at / {DAY}, d.source, COUNT(*) FROM {tables} GROUP BY 1, 2", values
        ):
            _add(days, DayTotal(day, source, signals=sign * count))


def _add(days: _Days, total: DayTotal) -> None:
    days.setdefault((total.day, total.source), DayTotal(total.day, total.source)).add(total)
