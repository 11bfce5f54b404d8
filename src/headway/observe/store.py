"""Write decisions, signals and episodes: idempotent by id, atomic per batch, durable on return."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import Any, TypeVar

from headway.nouns import Decision, Detail, Ending, Signal, errors, ids
from headway.observe.database import Connection, Database
from headway.observe.details import change as change_details, checked, insert as insert_details, put as put_details
from headway.observe.insert import (
    COLUMNS,
    INSERT,
    TOGETHER,
    Interner,
    Prepared,
    alike,
    alike_values,
    insert_alike,
    insert_many,
    ready,
    request_of,
    row_of,
    stamped,
)
from headway.observe.rows import DECISION_COLUMNS, DECISION_TABLES, decision_from_row, microseconds
from headway.observe.signals import NewSignal, add_signals, put_signal
from headway.observe.writer import Writer

_T = TypeVar("_T")
_NO_DETAILS: Mapping[str, Sequence[Detail]] = {}

_MOST_KNOWN = 20_000  # candidate sets may be unique per decision: beyond it, all are forgotten
_INSERT_ONE = f"{INSERT} RETURNING seq"
_FIND_DECISION = f"SELECT {DECISION_COLUMNS} FROM {DECISION_TABLES} WHERE d.id = ?"


class Store:
    """The writing half of the store.

    store.add([decision])           # the stored decisions: an earlier one if its id was known
    store.signal([signal])          # the number of changes
    store.submit_decisions([…])     # the same, as a Future, for callers that must not block
    """

    def __init__(self, database: Database, writer: Writer, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._writer = writer
        self._known: dict[Any, Any] = {}  # interned values → their ids
        self._erased = 0
        writer.opening = self._check_known

    def _check_known(self, connection: Connection) -> None:
        """Forget the ids if anything was deleted, by any process: interned rows may be gone. 2 µs per transaction."""
        row = connection.execute("SELECT value FROM marks WHERE task_id = 0 AND name = 'erased'").fetchone()
        erased = 0 if row is None else row[0]
        if erased != self._erased:
            self._erased, self._known = erased, {}

    def _learn(self, interned: Mapping[Any, Any]) -> None:
        """Remember the ids of a transaction that was committed."""
        if len(self._known) > _MOST_KNOWN:
            self._known = {}
        self._known.update(interned)

    # -- decisions

    def add(
        self,
        decisions: Sequence[Decision],
        configs: Mapping[str, str],
        *,
        opening: Sequence[bool] = (),
        details: Mapping[str, Sequence[Detail]] = _NO_DETAILS,
    ) -> list[Decision]:
        """Store decisions; `configs` maps each config hash to the body that it is the hash of.

        `opening` marks decisions that open their episode: Conflict (`draw_exists`) if another request was faster.
        `details` holds the details of kits, by decision id; a decision that was stored before keeps its details.

        If an id is already stored, the stored decision is returned if the request was the same; otherwise it is a
        Conflict. The batch is stored completely or not at all.
        """
        stored, interned = self._writer.write(self._adding(decisions, configs, opening, details))
        if interned:
            self._learn(interned)
        return stored

    def submit_decisions(
        self,
        decisions: Sequence[Decision],
        configs: Mapping[str, str],
        *,
        opening: Sequence[bool] = (),
        details: Mapping[str, Sequence[Detail]] = _NO_DETAILS,
    ) -> Future[list[Decision]]:
        outer: Future[list[Decision]] = Future()

        def committed(inner: Future[tuple[list[Decision], dict[Any, int]]]) -> None:
            error = inner.exception()
            if error is not None:
                outer.set_exception(error)
                return
            stored, interned = inner.result()
            if interned:
                self._learn(interned)
            outer.set_result(stored)

        self._writer.submit(self._adding(decisions, configs, opening, details)).add_done_callback(committed)
        return outer

    def _adding(
        self,
        decisions: Sequence[Decision],
        configs: Mapping[str, str],
        opening: Sequence[bool],
        details: Mapping[str, Sequence[Detail]],
    ) -> Callable[[Connection], tuple[list[Decision], dict[Any, int]]]:
        prepared = ready(decisions)
        rows: list[Any] = []
        for decision in decisions if details else ():
            rows += checked(decision.id, details.get(decision.id, ()))

        def work(connection: Connection) -> tuple[list[Decision], dict[Any, int]]:
            intern = Interner(connection, self._known, {})
            stored = self._put_decisions(connection, intern, prepared, configs, opening)
            if rows:
                insert_details(connection, rows)
            return stored, intern.new

        return work

    def _put_decisions(
        self,
        connection: Connection,
        intern: Interner,
        prepared: Sequence[Prepared],
        configs: Mapping[str, str],
        opening: Sequence[bool] = (),
    ) -> list[Decision]:
        if len(prepared) > 1 and all(item.decision.situation.episode is None for item in prepared):
            return self._insert_many(connection, intern, prepared, configs)
        stored: list[Decision] = []
        for place, item in enumerate(prepared):
            decision = item.decision
            episode, step = None, decision.situation.step
            if decision.situation.episode is not None:
                first = bool(opening) and opening[place]
                episode, step, place_in, earlier = self._enter_episode(connection, intern, decision, first)
                if earlier is not None:
                    stored.append(earlier)
                    continue
                if ids.is_episode(decision.unit):
                    decision = replace(decision, position=place_in)
                    item = item._replace(decision=decision)
            row = connection.execute(_INSERT_ONE, row_of(intern, item, configs, episode, step)).fetchone()
            stored.append(
                self._same_request(connection, decision, item.raw) if row is None else stamped(decision, row[0], step)
            )
        return stored

    def _insert_many(
        self, connection: Connection, intern: Interner, prepared: Sequence[Prepared], configs: Mapping[str, str]
    ) -> list[Decision]:
        """A batch without episodes in one statement; if an id was already stored, every request is compared."""
        common = self._database.engine == "sqlite" and alike(prepared)
        new, last = 0, None
        for place in range(0, len(prepared), TOGETHER):
            some = prepared[place : place + TOGETHER]
            rows = (row_of(intern, item, configs, None, item.decision.situation.step) for item in some)
            if common:
                done = connection.execute(insert_alike(len(some)), alike_values(next(rows), some))
            else:
                done = connection.execute(insert_many(len(some)), [*chain.from_iterable(rows)])
            new += done.rowcount
            last = getattr(done, "lastrowid", None)  # only SQLite's driver has it
        if new < len(prepared):
            return [self._same_request(connection, item.decision, item.raw) for item in prepared]
        # One writer at a time and AUTOINCREMENT: the batch has the last numbers, without gaps.
        if last is None:
            last = connection.execute("SELECT seq FROM decisions WHERE id = ?", (prepared[-1].raw,)).fetchone()[0]
        first = last - len(prepared) + 1
        return [
            stamped(item.decision, first + place, item.decision.situation.step) for place, item in enumerate(prepared)
        ]

    def _same_request(self, connection: Connection, decision: Decision, raw: bytes) -> Decision:
        stored = decision_from_row(connection.execute(_FIND_DECISION, (raw,)).fetchone())
        if request_of(stored) != request_of(decision) or stored.key != decision.key:
            raise errors.Conflict(
                f"The id {decision.id!r} belongs to another decision.",
                code="id_conflict",
                hint="Use a fresh id for a new decision; repeat the same request to read the stored one.",
            )
        return stored

    def _enter_episode(
        self, connection: Connection, intern: Interner, decision: Decision, opening: bool
    ) -> tuple[bytes, int, int, Decision | None]:
        """The episode's id, the step of this decision and its position, or the stored decision that has the same id."""
        situation = decision.situation
        name = situation.episode or ""
        episode = ids.raw(ids.episode(situation.task, name))
        known = connection.execute("SELECT key_id, ending FROM episodes WHERE id = ?", (episode,)).fetchone()
        key_id = intern.name("key", decision.key)
        if known is None:
            connection.execute(
                "INSERT INTO episodes (id, task_id, name, key_id, opened_at) VALUES (?, ?, ?, ?, ?)",
                (episode, intern.name("task", situation.task), name, key_id, microseconds(decision.at)),
            )
        elif known[0] != key_id:
            raise errors.Conflict(
                f"The episode {name!r} was opened with another key.",
                code="episode_conflict",
                hint="Use another episode name.",
            )
        raw = ids.raw(decision.id)
        if known is not None:
            row = connection.execute("SELECT 1 FROM decisions WHERE id = ?", (raw,)).fetchone()
            if row is not None:
                return episode, 0, 0, self._same_request(connection, decision, raw)
            if known[1] is not None:
                raise errors.Conflict(
                    f"The episode {name!r} has ended ({known[1]}).",
                    code="episode_ended",
                    hint="Start another episode.",
                )
        step, position = _step_in(connection, episode, name, situation.step, opening=opening)
        return episode, step, position, None

    def keep_details(self, decision: str, kit: str, name: str, data: bytes) -> None:
        """Store a detail of a kit with a stored decision; replaces an existing detail of that name."""
        rows = checked(decision, [Detail(kit, name, data)])
        self._writer.write(lambda connection: put_details(connection, decision, rows))

    def change_details(self, decision: str, kit: str, name: str, how: Callable[[bytes | None], bytes]) -> None:
        """Replace a detail by what `how` makes of it; nobody, in any process, writes in between."""
        self._writer.write(lambda connection: change_details(connection, decision, kit, name, how))

    def submit_details(self, decision: str, details: Sequence[Detail]) -> Future[None]:
        """The same for several details, without waiting."""
        rows = checked(decision, details)
        return self._writer.submit(lambda connection: put_details(connection, decision, rows))

    # -- signals

    def signal(self, signals: Sequence[Signal], *, early: bool = False) -> int:
        """Store signals; returns how many changed something.

        A repeated key with the same value counts once; a new value from the same rater replaces the old one; value None
        withdraws it. `early` accepts a signal whose decision is not stored yet: it counts if the decision arrives
        within 24 hours.
        """
        new, interned = self._writer.write(self._signalling(signals, early))
        if interned:
            self._learn(interned)
        return new

    def submit_signals(self, signals: Sequence[Signal], *, early: bool = False) -> Future[tuple[int, dict[Any, int]]]:
        return self._writer.submit(self._signalling(signals, early))

    def _signalling(self, signals: Sequence[Signal], early: bool) -> Callable[[Connection], tuple[int, dict[Any, int]]]:
        prepared = [(signal, ids.raw(signal.subject)) for signal in signals]

        def work(connection: Connection) -> tuple[int, dict[Any, int]]:
            intern = Interner(connection, self._known, {})
            now = self._clock() if early else 0.0
            new = sum(put_signal(connection, intern, *each, early=early, now=now) for each in prepared)
            return new, intern.new

        return work

    # -- several at once

    def together(self, work: Callable[[WriteTransaction], _T]) -> _T:
        """Write decisions, signals and rows of other tables in one transaction."""

        def run(connection: Connection) -> tuple[_T, dict[Any, int]]:
            transaction = WriteTransaction(self, connection, Interner(connection, self._known, {}))
            return work(transaction), transaction.intern.new

        result, interned = self._writer.write(run)
        if interned:
            self._learn(interned)
        return result

    # -- episodes

    def end_episode(self, task: str, name: str, ending: Ending, at: float, *, key: str | None = None) -> None:
        """End an episode; repeating the same ending is allowed. With `key`, only if that key opened it."""
        raw = ids.raw(ids.episode(task, name))

        def work(connection: Connection) -> None:
            row = connection.execute(
                "SELECT e.ending, k.name FROM episodes e JOIN names k ON k.id = e.key_id WHERE e.id = ?", (raw,)
            ).fetchone()
            if row is None or (key is not None and row[1] != key):
                raise errors.UnknownName(f"There is no episode {name!r} in {task!r}.", code="unknown_episode")
            if row[0] not in (None, ending):
                raise errors.Conflict(f"The episode {name!r} has already ended ({row[0]}).", code="episode_ended")
            connection.execute(
                "UPDATE episodes SET ending = ?, ended_at = ? WHERE id = ? AND ending IS NULL",
                (ending, microseconds(at), raw),
            )

        self._writer.write(work)


class WriteTransaction:
    """The argument of the function that `together` runs: it writes inside that transaction."""

    __slots__ = ("_store", "connection", "intern")

    def __init__(self, store: Store, connection: Connection, intern: Interner) -> None:
        self._store, self.connection, self.intern = store, connection, intern

    def add(self, decisions: Sequence[Decision], configs: Mapping[str, str]) -> list[Decision]:
        return self._store._put_decisions(self.connection, self.intern, ready(decisions), configs)

    def add_columns(self, columns: Mapping[str, Iterable[Any]]) -> int:
        """Store decisions from columns of their table, without those that are missing; the number of new ones."""
        rows = zip(*(columns.get(name, repeat(None)) for name in COLUMNS), strict=False)
        if self._store._database.engine == "sqlite":
            return self.connection.executemany(INSERT, rows).rowcount
        pages = iter(lambda: [*islice(rows, TOGETHER)], [])  # one statement per row waits for the server each time
        return sum(self.connection.execute(insert_many(len(one)), [*chain(*one)]).rowcount for one in pages)

    def add_details(self, decision: str, details: Sequence[Detail]) -> None:
        """Add details to a stored decision; existing details stay."""
        insert_details(self.connection, checked(decision, details))

    def add_signals(self, signals: Sequence[NewSignal]) -> None:
        """Add signals to decisions that this transaction stores; existing ones stay."""
        add_signals(self.connection, self.intern, signals)

    def signal(self, signal: Signal) -> int:
        return put_signal(self.connection, self.intern, signal, ids.raw(signal.subject))


def _step_in(connection: Connection, episode: bytes, name: str, step: int | None, *, opening: bool) -> tuple[int, int]:
    """The step of a new decision and its position, which is 0 for the first one; Conflict if the step is taken.

    `opening`: it must be the first.
    """
    last = connection.execute("SELECT MAX(step) FROM decisions WHERE episode = ?", (episode,)).fetchone()[0]
    if opening and last is not None:
        raise errors.Conflict(
            f"The episode {name!r} already has a draw.", code="draw_exists", hint="Read its first decision."
        )
    if step is None:
        step = 0 if last is None else last + 1
    elif connection.execute("SELECT 1 FROM decisions WHERE episode = ? AND step = ?", (episode, step)).fetchone():
        raise errors.Conflict(
            f"Step {step} of the episode {name!r} is already decided.",
            code="step_conflict",
            hint=f"The next free step is {last + 1}; omit `step` to use it.",
        )
    return step, 0 if last is None else max(1, step)
