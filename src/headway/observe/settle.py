"""Settling: when the outcome of a decision is known, a row says so, in the order in which outcomes became known.

A decision settles when its required signals are there, when it failed, or when the task's waiting time has passed. If
its signals change later, another row replaces the first; nothing is updated. The unit is the *draw*: later decisions of
a sticky episode add their signals to the decision that drew, and never settle themselves.

Water marks count the store's own sequence numbers, never ids or times: clients supply ids, and rewards come late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headway.nouns.records import Outcome
from headway.observe.database import Connection, Database
from headway.observe.query import Query
from headway.observe.rows import STATUSES, microseconds

__all__ = ["Judge", "settle"]

Judge = Callable[[int, Mapping[str, float], float], Outcome]  # (decision seq, live signals, age in seconds)
_PAGE = 1000
_LIVE_SIGNAL = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"


def settle(
    database: Database,
    query: Query,
    task: str,
    *,
    judge: Judge,
    version: str,
    now: float,
    wait_s: float | None,
    again: bool = False,
) -> int:
    """Settle what can be settled; returns how many rows were written. The caller holds the project lock.

    `again` looks at every settled decision once more (after the reward was redefined).
    """
    task_id = query.name_id("task", task)
    if not task_id:
        return 0
    settler = _Settler(database, task_id, judge, version, now)
    written = settler.new_signals() + settler.early_signals()
    if wait_s is not None:
        written += settler.expired(now - wait_s)
    if again:
        written += settler.everything()
    return written


class _Settler:
    def __init__(self, database: Database, task_id: int, judge: Judge, version: str, now: float) -> None:
        self._database = database
        self._task_id = task_id
        self._judge = judge
        self._version = version
        self._now = now
        self._names: dict[int, str] = {}

    def new_signals(self) -> int:
        """Decisions of this task that signals since the mark speak of."""
        written = 0
        pages = self._database.pages(
            "SELECT seq, subject FROM signals WHERE seq > ? ORDER BY seq LIMIT ?",
            (),
            after=self._mark("signals"),
            size=_PAGE,
        )
        for page in pages:
            written += self._write(self._draws([row[1] for row in page]), marks={"signals": page[-1][0]})
        return written

    def early_signals(self) -> int:
        """Decisions that arrived after their signals."""
        written, seen = 0, self._mark("signals")
        pages = self._database.pages(
            "SELECT d.seq, d.id FROM decisions d WHERE d.task_id = ? AND d.seq > ? ORDER BY d.seq LIMIT ?",
            (self._task_id,),
            after=self._mark("decisions"),
            size=_PAGE,
        )
        for page in pages:
            ids = [row[1] for row in page]
            rows = self._database.query(
                f"SELECT DISTINCT subject FROM signals WHERE subject IN ({_marks(ids)}) AND seq <= ?", (*ids, seen)
            )
            written += self._write(self._draws([row[0] for row in rows]), marks={"decisions": page[-1][0]})
        return written

    def expired(self, before: float) -> int:
        """Draws that have waited long enough, in order, up to the first that has not."""
        written, limit = 0, microseconds(before)
        pages = self._database.pages(
            "SELECT d.seq, d.at, d.draw IS NULL AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.decision = d.seq) "
            "FROM decisions d WHERE d.task_id = ? AND d.seq > ? ORDER BY d.seq LIMIT ?",
            (self._task_id,),
            after=self._mark("expired"),
            size=_PAGE,
        )
        for page in pages:
            due = [row for row in page if row[1] <= limit]
            stop = next((i for i, row in enumerate(page) if row[1] > limit), len(page))
            marks = {"expired": page[stop - 1][0]} if stop else {}
            written += self._write([row[0] for row in due if row[2]], marks=marks)
            if stop < len(page):
                break
        return written

    def everything(self) -> int:
        written = 0
        pages = self._database.pages(
            "SELECT d.seq FROM decisions d WHERE d.task_id = ? AND d.draw IS NULL AND d.seq > ? ORDER BY d.seq LIMIT ?",
            (self._task_id,),
            after=0,
            size=_PAGE,
        )
        for page in pages:
            written += self._write([row[0] for row in page], marks={})
        return written

    # -- one page

    def _draws(self, subjects: Sequence[bytes]) -> list[int]:
        """The decisions that drew, behind signals on themselves, on a follower or on their episode."""
        if not subjects:
            return []
        marks = _marks(subjects)
        # The + keeps SQLite from walking all decisions of the task instead of looking up these (it guesses that a
        # task has ten): a page would cost as much as the whole store.
        rows = self._database.query(
            f"SELECT d.seq FROM decisions d WHERE d.id IN ({marks}) AND d.draw IS NULL AND +d.task_id = ? "
            f"UNION SELECT r.seq FROM decisions d JOIN decisions r ON r.id = d.draw WHERE d.id IN ({marks}) "
            "AND +d.task_id = ? "
            f"UNION SELECT d.seq FROM decisions d WHERE d.episode IN ({marks}) AND d.draw IS NULL AND +d.task_id = ?",
            (*subjects, self._task_id) * 3,
        )
        return sorted(row[0] for row in rows)

    def _write(self, draws: Sequence[int], *, marks: Mapping[str, int]) -> int:
        """Judge these draws and append what changed, with the marks, in one transaction."""
        if not draws and not marks:
            return 0
        judged = self._judged(draws)
        with self._database.transaction() as connection:
            rows = self._changed(connection, judged)
            connection.executemany(
                "INSERT INTO settled (task_id, decision, reward, status, version_id, clipped, replaces, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            for name, value in marks.items():
                connection.execute(
                    "INSERT INTO marks (task_id, name, value) VALUES (?, ?, ?) "
                    "ON CONFLICT (task_id, name) DO UPDATE SET value = excluded.value",
                    (self._task_id, name, value),
                )
        return len(rows)

    def _judged(self, draws: Sequence[int]) -> list[tuple[int, Outcome]]:
        if not draws:
            return []
        marks = _marks(draws)
        ages = self._database.query(f"SELECT seq, at FROM decisions WHERE seq IN ({marks})", draws)
        totals: dict[int, dict[str, tuple[float, int]]] = {}
        # A draw is rewarded by its own signals, those of the decisions that repeat it, and those of its episode.
        for seq, name_id, value in self._database.query(
            f"SELECT d.seq, g.name_id, g.value FROM decisions d JOIN signals g ON g.subject = d.id "
            f"WHERE d.seq IN ({marks}) AND {_LIVE_SIGNAL} "
            f"UNION ALL SELECT d.seq, g.name_id, g.value FROM decisions d JOIN decisions f ON f.draw = d.id "
            f"JOIN signals g ON g.subject = f.id WHERE d.seq IN ({marks}) AND {_LIVE_SIGNAL} "
            f"UNION ALL SELECT d.seq, g.name_id, g.value FROM decisions d JOIN signals g ON g.subject = d.episode "
            f"WHERE d.seq IN ({marks}) AND {_LIVE_SIGNAL}",
            (*draws,) * 3,
        ):
            mine = totals.setdefault(seq, {})
            name = self._name(name_id)
            total, count = mine.get(name, (0.0, 0))
            mine[name] = (total + value, count + 1)
        return [
            (
                seq,
                self._judge(
                    seq,
                    {name: total / count for name, (total, count) in totals.get(seq, {}).items()},
                    self._now - at / 1e6,
                ),
            )
            for seq, at in sorted(ages)
        ]

    def _changed(self, connection: Connection, judged: Iterable[tuple[int, Outcome]]) -> list[tuple[Any, ...]]:
        """Rows for the outcomes that differ from what stands. A decision that settled stays settled: signals that are
        withdrawn again leave it `pending`, which is written, so that its reward stops counting."""
        from_version = self._version_id(connection)
        known: dict[int, tuple[Any, ...]] = {}
        judged = list(judged)
        for start in range(0, len(judged), _PAGE):
            seqs = [seq for seq, _ in judged[start : start + _PAGE]]
            for decision, *rest in connection.execute(
                f"SELECT decision, seq, reward, status FROM settled WHERE decision IN ({_marks(seqs)}) ORDER BY seq",
                seqs,
            ):
                known[decision] = tuple(rest)
        rows: list[tuple[Any, ...]] = []
        for seq, outcome in judged:
            status = STATUSES.index(outcome.status)
            before = known.get(seq)
            if before is None and outcome.status == "pending":
                continue
            if before is not None and before[1:3] == (outcome.reward, status):
                continue
            replaces = None if before is None else before[0]
            rows.append(
                (
                    self._task_id,
                    seq,
                    outcome.reward,
                    status,
                    from_version,
                    int(outcome.clipped),
                    replaces,
                    microseconds(self._now),
                )
            )
        return rows

    def _version_id(self, connection: Connection) -> int:
        values = ("reward_version", self._version)
        row = connection.execute("SELECT id FROM names WHERE kind = ? AND name = ?", values).fetchone()
        if row is None:
            row = connection.execute("INSERT INTO names (kind, name) VALUES (?, ?) RETURNING id", values).fetchone()
        return int(row[0])

    def _mark(self, name: str) -> int:
        rows = self._database.query("SELECT value FROM marks WHERE task_id = ? AND name = ?", (self._task_id, name))
        return int(rows[0][0]) if rows else 0

    def _name(self, name_id: int) -> str:
        known = self._names.get(name_id)
        if known is None:
            known = self._names[name_id] = self._database.query("SELECT name FROM names WHERE id = ?", (name_id,))[0][0]
        return known


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
