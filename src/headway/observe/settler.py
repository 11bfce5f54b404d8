"""Settling: append a row when the outcome of a decision is known, in the order in which outcomes become known.

A decision settles when its required signals have arrived, when it failed, or when the task's waiting time has passed.
If its signals change later, another row replaces the first; no row is updated. Later decisions of a sticky episode,
and the attempts of a request after the first, add their signals to the decision that made the draw, and never settle
themselves. The steps of an episode that is one unit all settle with its outcome, for learners (see `units`).

Water marks are sequence numbers of the store, never ids or times: clients supply ids, and rewards arrive late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.nouns import Decision, Outcome, Progress, ids
from headway.observe.database import Connection, Database, Row, chunks, placeholders
from headway.observe.query import Query
from headway.observe.rows import STATUSES, microseconds
from headway.observe.signals import Given, expire, signals_given
from headway.observe.units import whole_signals

Judge = Callable[[int, Mapping[str, float], float], Outcome]  # (decision seq, live signals, age in seconds)
Agree = Callable[[Sequence[Given]], Mapping[int, tuple[Mapping[str, float], float]]]  # → values and weight per draw
_PAGE = 4000
_PENDING = STATUSES.index("pending")
_NOTHING: Mapping[str, Sequence[float]] = {}
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
    progress: Progress | None = None,
) -> int:
    """Settle every decision that is ready; returns the number of rows written. The caller holds the project lock.

    `again` judges every settled decision again (after the reward was redefined). `agree` combines the ratings of
    several raters into one value: it gets all live signals of the task, because every rating informs about its rater.
    """
    task_id = query.name_id("task", task)
    if not task_id:
        return 0
    expire(database, now)
    settler = _Settler(database, task_id, judge, version, now, agree, progress)
    written = settler.imported()
    if agree is not None and settler.ratings_changed():
        written += settler.new_signals() + settler.early_signals() + settler.rated()
    else:
        written += settler.new_signals() + settler.early_signals()
    if wait_s is not None:
        written += settler.expired(now - wait_s)
    if again:
        written += settler.everything()
    return written


def outcome_now(
    database: Database, query: Query, decision: Decision, *, judge: Judge, version: str, now: float, agree: Agree | None
) -> Outcome:
    """The outcome of a decision as settling would store it now; nothing is written."""
    settler = _Settler(database, query.name_id("task", decision.task), judge, version, now, agree)
    stored = query.outcome(decision)
    if decision.draw_id or (stored.status != "pending" and decision.seq not in settler.unsettled()):
        return stored
    return settler.judged([decision.seq])[0][1]


def _mark(database: Database, task_id: int, name: str) -> int:
    rows = database.query("SELECT value FROM marks WHERE task_id = ? AND name = ?", (task_id, name))
    return int(rows[0][0]) if rows else 0


def waiting_signals(database: Database, query: Query, task: str) -> int:
    """How many signals of a task were stored since it was last settled; about, if there are thousands."""
    task_id = query.name_id("task", task)
    mark = _mark(database, task_id, "signals")
    last = int(database.query("SELECT COALESCE(MAX(seq), 0) FROM signals")[0][0])
    looked, own = database.query(
        "SELECT COUNT(*), COUNT(d.seq) + COUNT(e.id) FROM "
        "(SELECT subject FROM signals WHERE seq > ? ORDER BY seq LIMIT ?) g "
        "LEFT JOIN decisions d ON d.id = g.subject AND +d.task_id = ? "
        "LEFT JOIN episodes e ON e.id = g.subject AND e.task_id = ?",
        (mark, _PAGE, task_id, task_id),
    )[0]
    return int(own) if looked < _PAGE else (last - mark) * int(own) // int(looked)


class _Settler:
    def __init__(
        self,
        database: Database,
        task_id: int,
        judge: Judge,
        version: str,
        now: float,
        agree: Agree | None,
        progress: Progress | None = None,
    ) -> None:
        self._agree = agree
        self._agreed: Mapping[int, tuple[Mapping[str, float], float]] | None = None
        self._database = database
        self._task_id = task_id
        self._judge = judge
        self._version = version
        self._now = now
        self._names: dict[int, str] = {}
        self._progress, self._done = progress, 0
        self._seen = self._mark("signals")
        last = database.query("SELECT COALESCE(MAX(seq), 0) FROM decisions WHERE task_id = ?", (task_id,))
        self._last = int(last[0][0])

    def unsettled(self) -> list[int]:
        """The first draws that have signals after the mark."""
        rows = self._database.query(
            "SELECT subject FROM signals WHERE seq > ? ORDER BY seq LIMIT ?", (self._mark("signals"), _PAGE)
        )
        return self._draws([row[0] for row in rows])

    def imported(self) -> int:
        """Settle imported decisions in the order in which they settled in the store that exported them."""
        written = 0
        while rows := self._database.query(
            "SELECT d.seq, i.decision FROM imported i JOIN decisions d ON d.id = i.decision "
            "WHERE i.place IS NOT NULL AND +d.task_id = ? ORDER BY i.place, d.seq LIMIT ?",  # the +: see `_draws`
            (self._task_id, _PAGE),
        ):
            written += self._write([row[0] for row in rows], marks={}, placed=[row[1] for row in rows])
        return written

    def new_signals(self) -> int:
        """Settle the decisions of this task that have signals after the mark."""
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
        """Settle decisions that arrived after their signals.

        Those of a decision that was stored when this run began are behind the mark of that time, or `new_signals` has
        just judged it.
        """
        written = 0
        pages = self._database.pages(
            "SELECT d.seq, d.id FROM decisions d WHERE d.task_id = ? AND d.seq > ? ORDER BY d.seq LIMIT ?",
            (self._task_id,),
            after=self._mark("decisions"),
            size=_PAGE,
        )
        for page in pages:
            subjects = [row[1] for row in page]
            seen = self._seen if page[-1][0] <= self._last else self._mark("signals")
            rows = (
                self._database.query(
                    f"SELECT DISTINCT subject FROM signals WHERE subject IN ({placeholders(subjects)}) AND seq <= ?",
                    (*subjects, seen),
                )
                if seen
                else ()
            )
            written += self._write(self._draws([row[0] for row in rows]), marks={"decisions": page[-1][0]})
        return written

    def expired(self, before: float) -> int:
        """Settle draws whose waiting time has passed, in order, up to the first whose time has not."""
        written, limit = 0, microseconds(before)
        pages = self._database.pages(
            f"SELECT d.seq, d.at, d.draw IS NULL AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.decision = d.seq "
            f"AND s.status <> {_PENDING} AND NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq)) "
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
        """Whether any signal was added, withdrawn or deleted since the raters were last compared."""
        last = self._database.query("SELECT MAX(seq) FROM signals")[0][0] or 0
        return self._mark("agreed") != last

    def rated(self) -> int:
        """Settle every rated draw again: one rating changes the weight of the rater's other ratings."""
        last = self._database.query("SELECT MAX(seq) FROM signals")[0][0] or 0
        agreement = self._agreement()
        compared = len({name for values, _ in agreement.values() for name in values})
        if compared < self._mark("compared"):
            written = self.everything()  # a signal with one remaining rater counts unchanged in every draw
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
            self._agreed = self._agree(signals_given(self._database, self._task_id, self._name, several=True))
        return self._agreed

    # -- one page

    def _draws(self, subjects: Sequence[bytes]) -> list[int]:
        """The draws behind signals on themselves, on a repeat or on their episode."""
        # The + keeps SQLite from scanning all decisions of the task (it assumes that a task has ten) instead of
        # looking these up: a page would cost as much as the whole store.
        draws, repeated, units = set[int](), set[bytes](), set[bytes]()
        for seq, draw, unit in self._looked_up(
            "SELECT d.seq, d.draw, d.unit FROM decisions d WHERE d.id IN ({}) AND +d.task_id = ?", subjects
        ):
            if draw is not None:
                repeated.add(bytes(draw))
                continue
            draws.add(seq)
            if unit is not None:
                units.add(bytes(unit))
        episodes = [subject for subject in subjects if ids.is_episode(ids.text(bytes(subject)))]
        for column, values in (("id", repeated), ("episode", episodes), ("unit", units)):
            sql = f"SELECT d.seq FROM decisions d WHERE d.{column} IN ({{}}) AND +d.task_id = ?"
            sql += "" if column == "id" else " AND d.draw IS NULL"
            draws.update(seq for (seq,) in self._looked_up(sql, list(values)))
        return sorted(draws)

    def _looked_up(self, sql: str, values: Sequence[bytes]) -> list[Row]:
        return self._database.query(sql.format(placeholders(values)), (*values, self._task_id)) if values else []

    def _write(self, draws: Sequence[int], *, marks: Mapping[str, int], placed: Sequence[bytes] = ()) -> int:
        """Judge these draws and append the changed outcomes and the marks in one transaction.

        `placed`: imported decisions whose place in the order of an export is taken into account by this.
        """
        if not draws and not marks:
            return 0
        judged = self.judged(draws)
        with self._database.transaction() as connection:
            rows = self._changed(connection, judged)
            connection.executemany(
                "INSERT INTO settled (task_id, decision, reward, status, version_id, clipped, replaces, at, weight) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            if placed:
                connection.execute(
                    f"UPDATE imported SET place = NULL WHERE decision IN ({placeholders(placed)})", placed
                )
            for name, value in marks.items():
                connection.execute(
                    "INSERT INTO marks (task_id, name, value) VALUES (?, ?, ?) "
                    "ON CONFLICT (task_id, name) DO UPDATE SET value = excluded.value",
                    (self._task_id, name, value),
                )
        self._done += len(draws)
        if self._progress is not None and draws:
            self._progress("settle", self._done, None)
        return len(rows)

    def judged(self, draws: Sequence[int]) -> list[tuple[int, Outcome]]:
        if not draws:
            return []
        rows = self._database.query(
            f"SELECT seq, at, id, episode FROM decisions WHERE seq IN ({placeholders(draws)})", draws
        )
        made_at = {row[0]: row[1] for row in rows}
        ratings = self._ratings([(row[0], bytes(row[2]), row[3]) for row in rows])
        judged = []
        for seq in draws:
            # Sorted, because a database returns rows in any order, and the last bit of a sum depends on it.
            by_name = sorted(ratings.get(seq, _NOTHING).items())
            values = {name: sum(sorted(given)) / len(given) for name, given in by_name}
            weight = 1.0
            if values and self._agree is not None:
                agreed, weight = self._agreement().get(seq, ({}, 1.0))
                values |= agreed
            outcome = self._judge(seq, values, self._now - made_at[seq] / 1e6)
            if weight != 1.0 and outcome.status == "rewarded":
                outcome = replace(outcome, weight=weight)
            judged.append((seq, outcome))
        return judged

    def _ratings(self, rows: Sequence[tuple[int, bytes, bytes | None]]) -> dict[int, dict[str, list[float]]]:
        """The values of live signals by draw and name, of draws (number, id, episode).

        A draw is rewarded by its own signals, those of the decisions that repeat it, and those of its episode.
        """
        own, ratings = {raw: seq for seq, raw, _ in rows}, dict[int, dict[str, list[float]]]()
        draws: dict[bytes, list[int]] = {raw: [seq] for seq, raw, _ in rows}
        for seq, _, episode in rows:
            if episode is not None:
                draws.setdefault(bytes(episode), []).append(seq)
        queries = ["SELECT g.subject, g.name_id, g.value FROM signals g WHERE g.subject IN ({})"]
        if self._database.query("SELECT 1 FROM decisions WHERE draw IS NOT NULL LIMIT 1"):
            joined = "decisions f JOIN signals g ON g.subject = f.id WHERE f.draw IN ({})"
            queries.append(f"SELECT f.draw, g.name_id, g.value FROM {joined}")
        for chunk in chunks(list(draws), _PAGE):
            for sql in queries:
                found = self._database.query(f"{sql.format(placeholders(chunk))} AND {_LIVE_SIGNAL}", chunk)
                for subject, name_id, value in found:
                    name = self._name(name_id)
                    for seq in draws[bytes(subject)]:
                        ratings.setdefault(seq, {}).setdefault(name, []).append(value)
        for raw, whole in whole_signals(self._database, list(own)).items():
            ratings[own[raw]] = {}
            for name_id, value in whole:
                ratings[own[raw]].setdefault(self._name(name_id), []).append(value)
        return ratings

    def _changed(self, connection: Connection, judged: Iterable[tuple[int, Outcome]]) -> list[tuple[Any, ...]]:
        """Rows for outcomes that differ from the current ones.

        If the signals of a settled decision are withdrawn, a `pending` row is written: its reward stops counting.
        """
        version_id = self._version_id(connection)
        known: dict[int, tuple[Any, ...]] = {}
        judged = list(judged)
        for start in range(0, len(judged), _PAGE):
            seqs = [seq for seq, _ in judged[start : start + _PAGE]]
            for decision, *rest in connection.execute(
                f"SELECT decision, seq, reward, status, COALESCE(weight, 1.0) FROM settled "
                f"WHERE decision IN ({placeholders(seqs)}) ORDER BY seq",
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
                    version_id,
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
        return _mark(self._database, self._task_id, name)

    def _name(self, name_id: int) -> str:
        known = self._names.get(name_id)
        if known is None:
            known = self._names[name_id] = self._database.query("SELECT name FROM names WHERE id = ?", (name_id,))[0][0]
        return known
