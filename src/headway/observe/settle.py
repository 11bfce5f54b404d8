"""Settling: when the outcome of a decision is known, a row says so, in the order in which outcomes became known.

A decision settles when its required signals are there, when it failed, or when the task's waiting time has passed. If
its signals change later, another row replaces the first; nothing is updated. The unit is the *draw*: later decisions of
a sticky episode add their signals to the decision that drew, and never settle themselves.

Water marks count the store's own sequence numbers, never ids or times: clients supply ids, and rewards come late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.nouns.records import Outcome
from headway.observe.database import Connection, Database
from headway.observe.early_signals import expire
from headway.observe.query import Query
from headway.observe.rows import STATUSES, microseconds

__all__ = ["Agree", "Given", "Judge", "given", "settle"]

Judge = Callable[[int, Mapping[str, float], float], Outcome]  # (decision seq, live signals, age in seconds)
Given = tuple[int, str, str, float]  # a live signal: decision that drew, name, rater, value
Agree = Callable[[Sequence[Given]], Mapping[int, tuple[Mapping[str, float], float]]]  # → values and weight per draw
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
    agree: Agree | None = None,
) -> int:
    """Settle what can be settled; returns how many rows were written. The caller holds the project lock.

    `again` looks at every settled decision once more (after the reward was redefined). `agree` makes one value of what
    several raters said: it sees all live signals of the task, because every rating tells something about its rater.
    """
    task_id = query.name_id("task", task)
    if not task_id:
        return 0
    expire(database, now)
    settler = _Settler(database, task_id, judge, version, now, agree)
    if agree is not None and settler.ratings_changed():
        written = settler.new_signals() + settler.early_signals() + settler.rated()
    else:
        written = settler.new_signals() + settler.early_signals()
    if wait_s is not None:
        written += settler.expired(now - wait_s)
    if again:
        written += settler.everything()
    return written


class _Settler:
    def __init__(
        self, database: Database, task_id: int, judge: Judge, version: str, now: float, agree: Agree | None
    ) -> None:
        self._agree = agree
        self._agreed: Mapping[int, tuple[Mapping[str, float], float]] | None = None
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

    # -- several raters

    def ratings_changed(self) -> bool:
        """Whether any signal came, was withdrawn or was deleted since the raters were last compared."""
        last = self._database.query("SELECT MAX(seq) FROM signals")[0][0] or 0
        return self._mark("agreed") != last

    def rated(self) -> int:
        """Every draw that has ratings once more: a rating changes what the rater's other ratings are worth."""
        last = self._database.query("SELECT MAX(seq) FROM signals")[0][0] or 0
        agreement = self._agreement()
        compared = len({name for values, _ in agreement.values() for name in values})
        if compared < self._mark("compared"):
            written = self.everything()  # a signal that has one rater left counts as it is, wherever it stands
        else:
            draws = sorted(agreement)
            written = 0
            for start in range(0, len(draws), _PAGE):
                written += self._write(draws[start : start + _PAGE], marks={})
        self._write([], marks={"agreed": last, "compared": compared})
        return written

    def _agreement(self) -> Mapping[int, tuple[Mapping[str, float], float]]:
        if self._agreed is None:
            assert self._agree is not None
            self._agreed = self._agree(_given(self._database, self._task_id, self._name, several=True))
        return self._agreed

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
                "INSERT INTO settled (task_id, decision, reward, status, version_id, clipped, replaces, at, weight) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        given: dict[int, dict[str, list[float]]] = {}
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
            given.setdefault(seq, {}).setdefault(self._name(name_id), []).append(value)
        judged = []
        for seq, at in sorted(ages):
            # In an order of our own: a database gives rows in any, and the last bit of a sum depends on it.
            values = {name: sum(sorted(some)) / len(some) for name, some in sorted(given.get(seq, {}).items())}
            weight = 1.0
            if values and self._agree is not None:
                agreed, weight = self._agreement().get(seq, ({}, 1.0))
                values |= agreed
            outcome = self._judge(seq, values, self._now - at / 1e6)
            if weight != 1.0 and outcome.status == "rewarded":
                outcome = replace(outcome, weight=weight)
            judged.append((seq, outcome))
        return judged

    def _changed(self, connection: Connection, judged: Iterable[tuple[int, Outcome]]) -> list[tuple[Any, ...]]:
        """Rows for the outcomes that differ from what stands. A decision that settled stays settled: signals that are
        withdrawn again leave it `pending`, which is written, so that its reward stops counting."""
        from_version = self._version_id(connection)
        known: dict[int, tuple[Any, ...]] = {}
        judged = list(judged)
        for start in range(0, len(judged), _PAGE):
            seqs = [seq for seq, _ in judged[start : start + _PAGE]]
            for decision, *rest in connection.execute(
                f"SELECT decision, seq, reward, status, COALESCE(weight, 1.0) FROM settled "
                f"WHERE decision IN ({_marks(seqs)}) ORDER BY seq",
                seqs,
            ):
                known[decision] = tuple(rest)
        rows: list[tuple[Any, ...]] = []
        for seq, outcome in judged:
            status = STATUSES.index(outcome.status)
            before = known.get(seq)
            if before is None and outcome.status == "pending":
                continue
            if before is not None and before[1:4] == (outcome.reward, status, outcome.weight):
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
                    None if outcome.weight == 1.0 else outcome.weight,
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


def given(database: Database, query: Query, task: str, *, several: bool = False) -> list[Given]:
    """Every live signal of a task, by the decision that drew; `several`: of those that more than one rater gives."""
    names: dict[int, str] = {}

    def name(identifier: int) -> str:
        found = names.get(identifier)
        if found is None:
            found = names[identifier] = database.query("SELECT name FROM names WHERE id = ?", (identifier,))[0][0]
        return found

    return _given(database, query.name_id("task", task), name, several=several)


def _given(database: Database, task_id: int, name_of: Callable[[int], str], *, several: bool) -> list[Given]:
    """Live signals by draw, as in `_judged`: its own, those of the decisions that repeat it, of its episode."""
    columns = "SELECT g.seq, g.name_id, g.rater_id, g.value"
    found: list[Given] = []
    live = _LIVE_SIGNAL
    if several:  # what is measured comes from one source, and there may be millions of it
        rows = database.query(
            f"SELECT g.name_id FROM signals g WHERE {live} GROUP BY g.name_id HAVING COUNT(DISTINCT g.rater_id) > 1"
        )
        if not rows:
            return []
        live += f" AND g.name_id IN ({', '.join(str(int(row[0])) for row in rows)})"
    for joined in (
        "d.seq FROM signals g JOIN decisions d ON d.id = g.subject WHERE d.draw IS NULL",
        "d.seq FROM signals g JOIN decisions f ON f.id = g.subject JOIN decisions d ON d.id = f.draw WHERE 1 = 1",
    ):
        pages = database.pages(
            f"{columns}, {joined} AND d.task_id = ? AND {live} AND g.seq > ? ORDER BY g.seq LIMIT ?",
            (task_id,),
            after=0,
        )
        for page in pages:
            found += [(draw, name_of(name), name_of(rater), value) for _, name, rater, value, draw in page]
    pages = database.pages(
        f"{columns}, g.subject FROM signals g JOIN episodes e ON e.id = g.subject WHERE e.task_id = ? "
        f"AND {live} AND g.seq > ? ORDER BY g.seq LIMIT ?",
        (task_id,),
        after=0,
        size=_PAGE,
    )
    for page in pages:
        episodes = sorted({row[4] for row in page})
        draws: dict[bytes, list[int]] = {}
        for episode, draw in database.query(
            f"SELECT episode, seq FROM decisions WHERE episode IN ({_marks(episodes)}) AND draw IS NULL", episodes
        ):
            draws.setdefault(episode, []).append(draw)
        for _, name, rater, value, episode in page:
            found += [(draw, name_of(name), name_of(rater), value) for draw in draws.get(episode, ())]
    return found


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
