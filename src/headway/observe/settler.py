"""Settling: append a row when the outcome of a decision is known, in the order in which outcomes become known.

A decision settles when its required signals have arrived, when it failed, or when the task's waiting time has passed.
If its signals change later, another row replaces the first; no row is updated. Later decisions of a sticky episode,
and the attempts of a request after the first, add their signals to the decision that made the draw, and never settle
themselves. The steps of an episode that is one unit all settle with its outcome, for learners (see `units`).

Water marks are sequence numbers of the store, never ids or times: clients supply ids, and rewards arrive late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.nouns import Decision, Outcome, Progress, ids
from headway.observe.database import Connection, Database, chunks, placeholders
from headway.observe.insert import Interner
from headway.observe.query import Query
from headway.observe.rows import STATUSES, microseconds
from headway.observe.signals import Given, expire, signals_given
from headway.observe.units import whole_signals

_Draw = tuple[int, int, bytes, bytes | None]  # number, time, id, episode
Judge = Callable[[int, Mapping[str, float], float], Outcome]  # (decision seq, live signals, age in seconds)
Agree = Callable[[Sequence[Given]], Mapping[int, tuple[Mapping[str, float], float]]]  # → values and weight per draw
_PAGE, _NEVER = 4000, 2**62
_PENDING = STATUSES.index("pending")
_UNSETTLED = (None, None, _PENDING, 1.0)
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
    before = None if wait_s is None else now - wait_s
    written = settler.imported()
    if settler.many:  # most come with new decisions
        with database.bulk():
            written += settler.new_decisions(before) + settler.new_signals()
    else:
        written += settler.new_signals() + settler.new_decisions(before)
    written += settler.rated()
    if before is not None:
        written += settler.expired(before)
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
    return settler.judged(settler.drawn([decision.seq]))[0][1]


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
        self._first_signal = self._mark("signals") + 1
        last = database.query("SELECT COALESCE(MAX(seq), 0) FROM signals")[0][0]
        self._counted = bytearray(max(0, last + 1 - self._first_signal))  # 1: judged with its decision
        self.many = len(self._counted) > _PAGE

    def unsettled(self) -> list[int]:
        """The first draws that have signals after the mark."""
        rows = self._database.query(
            "SELECT subject FROM signals WHERE seq > ? ORDER BY seq LIMIT ?", (self._mark("signals"), _PAGE)
        )
        return [row[0] for row in self._draws([row[0] for row in rows])]

    def imported(self) -> int:
        """Settle imported decisions in the order in which they settled in the store that exported them."""
        written = 0
        while rows := self._database.query(
            "SELECT d.seq, i.decision FROM imported i JOIN decisions d ON d.id = i.decision "
            "WHERE i.place IS NOT NULL AND +d.task_id = ? ORDER BY i.place, d.seq LIMIT ?",  # the +: see `_draws`
            (self._task_id, _PAGE),
        ):
            draws = self.drawn([row[0] for row in rows])
            written += self._write(draws, marks={}, placed=[row[1] for row in rows])
        return written

    def new_decisions(self, before: float | None) -> int:
        """Settle decisions after the mark, in their order, by all that was said of them: most are judged only here.

        Signals may be older than their decision. Draws from `before` whose waiting time has passed settle too.
        """
        written = 0
        mark, expired = self._mark("decisions"), self._mark("expired")
        pages = self._database.pages(
            "SELECT d.seq, d.at, d.id, d.episode, d.draw, d.unit FROM decisions d WHERE d.task_id = ? "
            "AND d.seq > ? ORDER BY d.seq LIMIT ?",
            (self._task_id,),
            after=mark,
            size=_PAGE,
        )
        for page in pages:
            marks, last, silent = {"decisions": page[-1][0]}, page[-1][0], _NEVER
            if all(row[3] is None and row[4] is None and row[5] is None for row in page):
                draws, silent = [row[:4] for row in page], -1 if before is None else microseconds(before)
                if before is not None and expired >= mark and max(row[1] for row in page) <= silent:
                    marks["expired"] = expired = last
            else:  # a draw may settle for others
                said = "SELECT DISTINCT subject FROM signals WHERE subject IN ({}) AND seq <= ?"
                found = self._database.query_in(said, [row[2] for row in page], [self._mark("signals")])
                draws = self._draws([row[0] for row in found])
            mark = last
            written += self._write(draws, marks=marks, silent=silent)
        return written

    def new_signals(self) -> int:
        """Settle the decisions of this task that have signals after the mark, which were not judged with them."""
        written = 0
        pages = self._database.pages(
            "SELECT seq, subject FROM signals WHERE seq > ? ORDER BY seq LIMIT ?",
            (),
            after=self._mark("signals"),
            size=_PAGE,
        )
        for page in pages:
            places = [seq - self._first_signal for seq, _ in page]
            new = [place >= len(self._counted) or not self._counted[place] for place in places]
            subjects = [subject for (_, subject), is_new in zip(page, new, strict=True) if is_new]
            written += self._write(self._draws(subjects), marks={"signals": page[-1][0]})
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
            written += self._write(self.drawn([row[0] for row in due if row[2]]), marks=marks)
            if stop < len(page):
                break
        return written

    def everything(self) -> int:
        written = 0
        pages = self._database.pages(
            "SELECT d.seq, d.at, d.id, d.episode FROM decisions d WHERE d.task_id = ? AND d.draw IS NULL AND d.seq > ? "
            "ORDER BY d.seq LIMIT ?",
            (self._task_id,),
            after=0,
            size=_PAGE,
        )
        for page in pages:
            written += self._write(page, marks={})
        return written

    # -- several raters

    def rated(self) -> int:
        """Settle every rated draw again if any signal came: one rating changes the weight of the rater's others."""
        last = self._database.query("SELECT MAX(seq) FROM signals")[0][0] or 0
        if self._agree is None or self._mark("agreed") == last:
            return 0
        agreement = self._agreement()
        compared = len({name for values, _ in agreement.values() for name in values})
        if compared < self._mark("compared"):
            written = self.everything()  # a signal with one remaining rater counts unchanged in every draw
        else:
            draws = sorted(agreement)
            written = 0
            for start in range(0, len(draws), _PAGE):
                written += self._write(self.drawn(draws[start : start + _PAGE]), marks={})
        self._write([], marks={"agreed": last, "compared": compared})
        return written

    def _agreement(self) -> Mapping[int, tuple[Mapping[str, float], float]]:
        if self._agreed is None:
            assert self._agree is not None
            self._agreed = self._agree(signals_given(self._database, self._task_id, self._name, several=True))
        return self._agreed

    # -- one page

    def drawn(self, seqs: Sequence[int]) -> list[_Draw]:
        """The draws with these numbers, in their order."""
        found = self._database.query_in("SELECT seq, at, id, episode FROM decisions WHERE seq IN ({})", seqs)
        rows: dict[int, Any] = {row[0]: row for row in found}
        return [rows[seq] for seq in seqs if seq in rows]

    def _draws(self, subjects: Sequence[bytes]) -> list[_Draw]:
        """The draws behind signals on themselves, on a repeat or on their episode."""
        # The + keeps SQLite from scanning all decisions of the task (it assumes that a task has ten) instead of
        # looking these up: a page would cost as much as the whole store.
        columns, own = "SELECT d.seq, d.at, d.id, d.episode", (self._task_id,)
        draws, repeated, units = dict[int, Any](), set[bytes](), set[bytes]()
        for *row, draw, unit in self._database.query_in(
            f"{columns}, d.draw, d.unit FROM decisions d WHERE d.id IN ({{}}) AND +d.task_id = ?", subjects, own
        ):
            if draw is not None:
                repeated.add(bytes(draw))
                continue
            draws[row[0]] = row
            if unit is not None:
                units.add(bytes(unit))
        episodes = [subject for subject in subjects if ids.is_episode(ids.text(bytes(subject)))]
        for column, values in (("id", repeated), ("episode", episodes), ("unit", units)):
            sql = f"{columns} FROM decisions d WHERE d.{column} IN ({{}}) AND +d.task_id = ?"
            sql += "" if column == "id" else " AND d.draw IS NULL"
            draws.update((row[0], row) for row in self._database.query_in(sql, values, own))
        return [draws[seq] for seq in sorted(draws)]

    def _write(
        self,
        draws: Sequence[_Draw],
        *,
        marks: Mapping[str, int],
        placed: Sequence[bytes] = (),
        silent: int = _NEVER,
    ) -> int:
        """Judge these draws and append the changed outcomes and the marks in one transaction.

        `placed`: imported decisions whose place in the order of an export is taken into account by this. Draws of which
        nothing was said are judged if they are from before `silent`.
        """
        if not draws and not marks:
            return 0
        judged = self.judged(draws, silent)
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

    def judged(self, draws: Sequence[_Draw], silent: int = _NEVER) -> list[tuple[int, Outcome]]:
        ratings = self._ratings(draws)
        judged = []
        for seq, at, _, _ in draws:
            if at > silent and seq not in ratings:
                continue
            values = self._means(ratings.get(seq, ()))
            weight = 1.0
            if values and self._agree is not None:
                agreed, weight = self._agreement().get(seq, ({}, 1.0))
                values |= agreed
            outcome = self._judge(seq, values, self._now - at / 1e6)
            if weight != 1.0 and outcome.status == "rewarded":
                outcome = replace(outcome, weight=weight)
            judged.append((seq, outcome))
        return judged

    def _means(self, given: Sequence[tuple[int, float]]) -> dict[str, float]:
        if len(given) == 1:
            return {self._name(given[0][0]): given[0][1] + 0.0}  # as a sum: never -0.0
        by_name: dict[str, list[float]] = {}
        for name_id, value in given:
            by_name.setdefault(self._name(name_id), []).append(value)
        # Sorted, because a database returns rows in any order, and the last bit of a sum depends on it.
        return {name: sum(sorted(some)) / len(some) for name, some in sorted(by_name.items())}

    def _ratings(self, rows: Sequence[_Draw]) -> dict[int, list[tuple[int, float]]]:
        """The live signals (name, value) by draw.

        A draw is rewarded by its own signals, those of the decisions that repeat it, and those of its episode.
        """
        own, ratings = {bytes(row[2]): row[0] for row in rows}, dict[int, list[tuple[int, float]]]()
        draws: dict[bytes, list[int]] = {raw: [seq] for raw, seq in own.items()}
        for seq, _, _, episode in rows:
            if episode is not None:
                draws.setdefault(bytes(episode), []).append(seq)
        queries = ["SELECT g.subject, g.name_id, g.value, g.seq FROM signals g WHERE g.subject IN ({})"]
        if self._database.query("SELECT 1 FROM decisions WHERE draw IS NOT NULL LIMIT 1"):
            joined = "decisions f JOIN signals g ON g.subject = f.id WHERE f.draw IN ({})"
            queries.append(f"SELECT f.draw, g.name_id, g.value, 0 FROM {joined}")
        for chunk in chunks(list(draws), _PAGE):
            for sql in queries:
                found = self._database.query(f"{sql.format(placeholders(chunk))} AND {_LIVE_SIGNAL}", chunk)
                for subject, name_id, value, number in found:
                    for seq in draws[subject]:
                        ratings.setdefault(seq, []).append((name_id, value))
                    if subject in own and 0 <= (place := number - self._first_signal) < len(self._counted):
                        self._counted[place] = 1
        for raw, whole in whole_signals(self._database, list(own)).items():
            ratings[own[raw]] = whole
        return ratings

    def _changed(self, connection: Connection, judged: Sequence[tuple[int, Outcome]]) -> list[tuple[Any, ...]]:
        """Rows for outcomes that differ from the current ones.

        If the signals of a settled decision are withdrawn, a `pending` row is written: its reward stops counting.
        """
        version_id, at = Interner(connection, {}, {}).name("reward_version", self._version), microseconds(self._now)
        known: dict[int, tuple[Any, ...]] = {}
        for chunk in chunks([seq for seq, _ in judged], _PAGE):
            for decision, *rest in connection.execute(
                f"SELECT decision, seq, reward, status, COALESCE(weight, 1.0) FROM settled "
                f"WHERE decision IN ({placeholders(chunk)}) ORDER BY seq",
                chunk,
            ):
                known[decision] = tuple(rest)
        rows: list[tuple[Any, ...]] = []
        for seq, outcome in judged:
            status, (replaces, *before) = STATUSES.index(outcome.status), known.get(seq, _UNSETTLED)
            if before == [outcome.reward, status, outcome.weight]:
                continue
            weight = None if outcome.weight == 1.0 else outcome.weight
            rows.append(
                (self._task_id, seq, outcome.reward, status, version_id, int(outcome.clipped), replaces, at, weight)
            )
        return rows

    def _mark(self, name: str) -> int:
        return _mark(self._database, self._task_id, name)

    def _name(self, name_id: int) -> str:
        if name_id not in self._names:
            self._names.update(self._database.query("SELECT id, name FROM names WHERE id = ?", (name_id,)))
        return self._names[name_id]
