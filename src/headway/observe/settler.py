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

from headway.nouns import Outcome
from headway.observe.database import Connection, Database, placeholders
from headway.observe.early_signals import expire
from headway.observe.query import Query
from headway.observe.rows import STATUSES, microseconds
from headway.observe.units import has_units, whole_signals

Judge = Callable[[int, Mapping[str, float], float], Outcome]  # (decision seq, live signals, age in seconds)
Given = tuple[int, str, str, float]  # a live signal: draw, name, rater, value
Agree = Callable[[Sequence[Given]], Mapping[int, tuple[Mapping[str, float], float]]]  # → values and weight per draw
_PAGE = 1000
_PENDING = STATUSES.index("pending")
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
    """Settle every decision that is ready; returns the number of rows written. The caller holds the project lock.

    `again` judges every settled decision again (after the reward was redefined). `agree` combines the ratings of
    several raters into one value: it gets all live signals of the task, because every rating informs about its rater.
    """
    task_id = query.name_id("task", task)
    if not task_id:
        return 0
    expire(database, now)
    settler = _Settler(database, task_id, judge, version, now, agree)
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
        """Settle decisions that arrived after their signals."""
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
                f"SELECT DISTINCT subject FROM signals WHERE subject IN ({placeholders(ids)}) AND seq <= ?",
                (*ids, seen),
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
            self._agreed = self._agree(_given(self._database, self._task_id, self._name, several=True))
        return self._agreed

    # -- one page

    def _draws(self, subjects: Sequence[bytes]) -> list[int]:
        """The draws behind signals on themselves, on a repeat or on their episode."""
        if not subjects:
            return []
        marks = placeholders(subjects)
        steps = ""  # the other steps of an episode that is one unit
        if has_units(self._database):
            steps = (
                "UNION SELECT o.seq FROM decisions d JOIN decisions o ON o.unit = d.unit WHERE d.draw IS NULL "
                f"AND o.draw IS NULL AND d.id IN ({marks}) AND +d.task_id = ?"
            )
        # The + keeps SQLite from scanning all decisions of the task (it assumes that a task has ten) instead of
        # looking these up: a page would cost as much as the whole store.
        rows = self._database.query(
            f"SELECT d.seq FROM decisions d WHERE d.id IN ({marks}) AND d.draw IS NULL AND +d.task_id = ? "
            f"UNION SELECT r.seq FROM decisions d JOIN decisions r ON r.id = d.draw WHERE d.id IN ({marks}) "
            "AND +d.task_id = ? "
            f"UNION SELECT d.seq FROM decisions d WHERE d.episode IN ({marks}) AND d.draw IS NULL AND +d.task_id = ? "
            f"{steps}",
            (*subjects, self._task_id) * (4 if steps else 3),
        )
        return sorted(row[0] for row in rows)

    def _write(self, draws: Sequence[int], *, marks: Mapping[str, int], placed: Sequence[bytes] = ()) -> int:
        """Judge these draws and append the changed outcomes and the marks in one transaction.

        `placed`: imported decisions whose place in the order of an export is taken into account by this.
        """
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
        return len(rows)

    def _judged(self, draws: Sequence[int]) -> list[tuple[int, Outcome]]:
        if not draws:
            return []
        marks = placeholders(draws)
        rows = self._database.query(f"SELECT seq, at, id FROM decisions WHERE seq IN ({marks})", draws)
        made_at, seqs = {seq: at for seq, at, _ in rows}, {bytes(raw): seq for seq, _, raw in rows}
        ratings: dict[int, dict[str, list[float]]] = {}
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
            ratings.setdefault(seq, {}).setdefault(self._name(name_id), []).append(value)
        for raw, given in whole_signals(self._database, [raw for *_, raw in rows]).items():
            whole = ratings[seqs[raw]] = {}
            for name_id, value in given:
                whole.setdefault(self._name(name_id), []).append(value)
        judged = []
        for seq in draws:
            # Sorted, because a database returns rows in any order, and the last bit of a sum depends on it.
            by_name = sorted(ratings.get(seq, {}).items())
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
        rows = self._database.query("SELECT value FROM marks WHERE task_id = ? AND name = ?", (self._task_id, name))
        return int(rows[0][0]) if rows else 0

    def _name(self, name_id: int) -> str:
        known = self._names.get(name_id)
        if known is None:
            known = self._names[name_id] = self._database.query("SELECT name FROM names WHERE id = ?", (name_id,))[0][0]
        return known


def given(database: Database, query: Query, task: str, *, several: bool = False) -> list[Given]:
    """Every live signal of a task, by draw; `several` selects signals with more than one rater."""
    names: dict[int, str] = {}

    def name(identifier: int) -> str:
        known = names.get(identifier)
        if known is None:
            known = names[identifier] = database.query("SELECT name FROM names WHERE id = ?", (identifier,))[0][0]
        return known

    return _given(database, query.name_id("task", task), name, several=several)


def _given(database: Database, task_id: int, name_of: Callable[[int], str], *, several: bool) -> list[Given]:
    """Live signals by draw, as in `_judged`: of the draw, of the decisions that repeat it, and of its episode."""
    columns = "SELECT g.seq, g.name_id, g.rater_id, g.value"
    signals: list[Given] = []
    live = _LIVE_SIGNAL
    if several:  # measured signals have one source, and there may be millions
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
            signals += [(draw, name_of(name), name_of(rater), value) for _, name, rater, value, draw in page]
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
            f"SELECT episode, seq FROM decisions WHERE episode IN ({placeholders(episodes)}) AND draw IS NULL", episodes
        ):
            draws.setdefault(episode, []).append(draw)
        for _, name, rater, value, episode in page:
            signals += [(draw, name_of(name), name_of(rater), value) for draw in draws.get(episode, ())]
    return signals
