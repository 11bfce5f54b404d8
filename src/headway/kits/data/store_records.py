"""Store imported records: each record once, with its origin; a batch completely or not at all.

Importing a file again adds nothing, a file that has grown adds its new rows, and the next run completes an interrupted
one (see `record_keys`). An outcome that was missing before is a late signal; any
other change is a conflict, which is reported and not stored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, Literal, NamedTuple

from headway.kits.data.record_keys import KeyedRecord, KeyedRecords, RecordKeys
from headway.kits.data.records import ImportedSignal, Records
from headway.nouns import ELSEWHERE, SOURCES, Decision, Signal, Situation, errors, ids
from headway.observe import Database, Query, Store, WriteTransaction, dumps, encode_candidates, microseconds, request_of

BATCH = 16_384
BATCH_BYTES = 16 << 20  # of details
_POLICY, _DATED, _UNDATED, _CONFIG = "elsewhere@0", "elsewhere", "elsewhere, undated", '{"encoder":""}'
Fate = Literal["new", "same", "late", "conflict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of the records of one import."""

    file: str
    sha256: str
    format: str
    version: str
    task: str
    at: float
    key: str = ""  # the API key that sent the records


@dataclass(frozen=True, slots=True)
class Clash:
    """A row that contradicts the stored decision."""

    line: int
    origin: str
    message: str


@dataclass(slots=True)
class BatchResult:
    """What happened to a batch, record by record."""

    fates: list[Fate] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)


class _AlreadyStored(Exception):
    """Of records that were taken for new ones."""


class _StoredRow(NamedTuple):
    content: bytes | None  # None: a decision that was not imported
    outcome: bytes | None
    file: str
    line: int


class RecordWriter:
    """Stores the records of one file.

    writer = RecordWriter(database, query, store, origin)
    writer.write(records)       # durable on return; the result has the fate of each record
    writer.preview(records)     # the same result, but nothing is stored
    """

    def __init__(self, database: Database, query: Query, store: Store, origin: Origin) -> None:
        self._database, self._query, self._store, self._origin = database, query, store, origin
        self._keys = RecordKeys(origin.task, origin.format, query.keyed_id)
        self._new = True  # so far: what is new is not looked up first

    def write(self, records: Records) -> BatchResult:
        keyed = self._keys.of(records)
        look = any(records.episode) or len(set(keyed.ids)) < len(records)
        while True:
            with suppress(_AlreadyStored):
                result, fresh, late = self._compared(keyed, look=look or not self._new)
                self._write(keyed, fresh, late, result)
                return result
            self._new = False

    def preview(self, records: Records) -> BatchResult:
        return self._compared(self._keys.of(records), look=True)[0]

    # -- compare

    def _compared(self, keyed: KeyedRecords, *, look: bool) -> tuple[BatchResult, list[int], list[int]]:
        """The result, and the places of new records and of late outcomes; without a `look`, all are taken for new."""
        if not look:
            count = len(keyed.ids)
            return BatchResult(["new"] * count), list(range(count)), []
        known = self._known(keyed.ids)
        result, fresh, late = BatchResult(), list[int](), list[int]()
        for place, identifier in enumerate(keyed.ids):
            before = known.get(identifier)
            fate = "new" if before is None else self._compare(keyed, place, before, result)
            if fate == "new":
                fresh.append(place)
                line = keyed.records.line[place]
                known[identifier] = _StoredRow(keyed.contents[place], keyed.outcomes[place], self._origin.file, line)
            elif fate == "late":
                late.append(place)
            result.fates.append(fate)
        return result, fresh, late

    def _known(self, raw_ids: Sequence[bytes]) -> dict[bytes, _StoredRow]:
        known: dict[bytes, _StoredRow] = {}
        for raw, content, outcome, file, line in self._database.query_in(
            "SELECT d.id, i.content, i.outcome, f.file, i.line FROM decisions d "
            "LEFT JOIN imported i ON i.decision = d.id LEFT JOIN imports f ON f.id = i.import_id WHERE d.id IN ({})",
            raw_ids,
        ):
            if content is None:
                known[bytes(raw)] = _StoredRow(None, None, "", 0)
            else:
                known[bytes(raw)] = _StoredRow(bytes(content), bytes(outcome), file, line)
        return known

    def _compare(self, keyed: KeyedRecords, place: int, before: _StoredRow, result: BatchResult) -> Fate:
        if (before.content, before.outcome) == (keyed.contents[place], keyed.outcomes[place]):
            return "same"
        row = keyed.row(place)
        record = row.record
        if before.content is None:  # decided here, not imported
            stored = self._query.decision(ids.text(row.id))
            if request_of(stored) == request_of(self._decision(row)) and stored.action == record.action:
                return "same"
            result.clashes.append(Clash(record.line, row.origin, f"{stored.id} was decided here with other content."))
            return "conflict"
        where = f"{before.file} line {before.line}"
        if before.content != row.content:
            changed = self._changed(row)
            message = f"{_named(row)} is already stored from {where}, with other content{changed}."
            result.clashes.append(Clash(record.line, row.origin, message))
            return "conflict"
        other = self._contradicted(row)
        if other:
            result.clashes.append(
                Clash(record.line, row.origin, f"{_named(row)} from {where} was stored with {other}.")
            )
            return "conflict"
        return "late"

    def _changed(self, row: KeyedRecord) -> str:
        """Which parts differ, for the message."""
        stored = self._query.find(ids.text(row.id))
        if stored is None:  # both rows are in this file, and the first is not stored yet
            return ""
        new = self._decision(row)
        parts = {
            "text": stored.situation.text != new.situation.text,
            "state": dumps(stored.situation.state) != dumps(new.situation.state),
            "time": stored.at != new.at,
            "action": stored.action != new.action,
            "candidates": encode_candidates(stored.candidates).body != encode_candidates(new.candidates).body,
            "probabilities": stored.probabilities != new.probabilities,
        }
        names = [name for name, differs in parts.items() if differs]
        return f" ({', '.join(names)})" if names else ""

    def _contradicted(self, keyed: KeyedRecord) -> str:
        """Describes a stored signal or detail that differs from the row; empty if the row only adds to them."""
        stored = {
            (row.name, row.rater): row for row in self._query.signals(ids.text(keyed.id)) if row.value is not None
        }
        for signal in keyed.record.signals:
            before = stored.get((signal.name, signal.rater))
            if before is not None and before.value != signal.value:
                return f"{signal.name} = {before.value:g}, now it is {signal.value:g}"
        known = {(detail.kit, detail.name): detail.data for detail in self._query.all_details(ids.text(keyed.id))}
        for detail in keyed.record.details:
            if known.get((detail.kit, detail.name), detail.data) != detail.data:
                return f"other bytes as {detail.name!r} of the kit {detail.kit!r}"
        return ""

    # -- write

    def _write(self, keyed: KeyedRecords, fresh: list[int], late: Sequence[int], result: BatchResult) -> None:
        try:
            if fresh:
                new = keyed if len(fresh) == len(keyed.ids) else keyed.where(fresh)
                self._store.together(lambda transaction: self._insert(transaction, new))
        except errors.Conflict:
            # One row conflicts (its step is taken, or its episode has ended): find it.
            for place in fresh:
                self._write_one(keyed, place, result)
        for place in late:
            self._store.together(partial(self._add_late, row=keyed.row(place)))

    def _write_one(self, keyed: KeyedRecords, place: int, result: BatchResult) -> None:
        try:
            self._store.together(lambda transaction: self._insert(transaction, keyed.where([place])))
        except errors.HeadwayError as error:
            if not isinstance(error, errors.Conflict):
                raise
            result.fates[place] = "conflict"
            result.clashes.append(Clash(keyed.records.line[place], keyed.origins[place], error.message))

    def _insert(self, transaction: WriteTransaction, keyed: KeyedRecords) -> None:
        records = keyed.records
        if any(records.episode):
            rows = [keyed.row(place) for place in range(len(records))]
            transaction.add([self._decision(row) for row in rows], {ELSEWHERE: _CONFIG})
        elif transaction.add_columns(self._columns(keyed, transaction)) < len(records):
            raise _AlreadyStored
        import_id = self._import(transaction)
        for raw, details in zip(keyed.ids, records.details, strict=True):
            if details:
                transaction.add_details(ids.text(raw), details)
        transaction.add_signals(
            [
                (raw, signal.name, signal.value, signal.label, signal.rater, self._at(at, signal), signal.key)
                for raw, at, signals in zip(keyed.ids, records.at, records.signals, strict=True)
                for signal in signals
            ]
        )
        columns = (keyed.ids, repeat(import_id), records.line, keyed.origins, keyed.contents, keyed.outcomes,
                   records.rest, records.place)  # fmt: skip
        transaction.connection.executemany(
            "INSERT INTO imported (decision, import_id, line, origin, content, outcome, rest, place) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (decision) DO UPDATE SET import_id = excluded.import_id, "
            "line = excluded.line, content = excluded.content, outcome = excluded.outcome, rest = excluded.rest, "
            "place = excluded.place",
            sorted(zip(*columns, strict=False)),  # neighbours in the index follow one another
        )
        for place, ending in enumerate(records.ending):
            if ending is not None and records.episode[place] is not None:
                self._end(transaction, keyed.row(place))

    def _columns(self, keyed: KeyedRecords, transaction: WriteTransaction) -> dict[str, Iterable[Any]]:
        """The table of decisions."""
        records, intern = keyed.records, transaction.intern
        sets = {id(one): encode_candidates(one) for one in {id(one): one for one in records.candidates}.values()}
        set_ids = {place: intern.candidate_set(offered.digest, offered.body) for place, offered in sets.items()}
        places = list(map(id, records.candidates))
        taken = [sets[place].names.index(action) for place, action in zip(places, records.action, strict=True)]
        chances = [one or () for one in records.probabilities]
        units = [ids.raw(unit) if unit else None for unit in records.unit]

        def numbers(kind: str, names: Iterable[str]) -> Iterator[int]:
            names = list(names)
            known = {name: intern.name(kind, name) for name in dict.fromkeys(names)}
            return map(known.__getitem__, names)

        policies = [policy or _POLICY for policy in records.policy]
        policy_ids = {policy: intern.policy(policy, "") for policy in dict.fromkeys(policies)}
        return {
            "id": keyed.ids,
            "task_id": numbers("task", [task or self._origin.task for task in records.task]),
            "step": records.step,
            "at": [round(self._at(at) * 1e6) for at in records.at],
            "text": records.text,
            "state": map(dumps, records.state),
            "candidate_set_id": [set_ids[place] for place in places],
            "probabilities": [struct.pack(f"<{len(some)}d", *some) for some in chances],
            "action": taken,
            "propensity": [
                some[place] if some else logged or 0.0
                for some, place, logged in zip(chances, taken, records.propensity, strict=True)
            ],
            "policy_id": [policy_ids[policy] for policy in policies],
            "seed": repeat(0),
            "config_id": repeat(intern.config(ELSEWHERE, _CONFIG)),
            "exploration_id": numbers("exploration", [_UNDATED if at is None else _DATED for at in records.at]),
            "source": map(SOURCES.index, records.source),
            "role_id": numbers("role", records.role),
            "key_id": repeat(intern.name("key", self._origin.key)),
            "draw": [None if ids.is_episode(unit) else raw for unit, raw in zip(records.unit, units, strict=True)],
            "state_seq": repeat(0),
            "unit": units,
            "position": [position or None for position in records.position],
        }

    def _at(self, at: float | None, signal: ImportedSignal | None = None) -> float:
        """When the decision was made, or when a signal came, as far as the file says."""
        at = at if signal is None or signal.at is None else signal.at
        return self._origin.at if at is None else at

    def _end(self, transaction: WriteTransaction, row: KeyedRecord) -> None:
        transaction.connection.execute(
            "UPDATE episodes SET ending = ?, ended_at = ? WHERE ending IS NULL AND id = "
            "(SELECT episode FROM decisions WHERE id = ?)",
            (row.record.ending, microseconds(self._at(row.record.at)), row.id),
        )

    def _add_late(self, transaction: WriteTransaction, row: KeyedRecord) -> None:
        decision = self._decision(row)
        held = {
            (name, rater)
            for name, rater in transaction.connection.execute(
                "SELECT n.name, r.name FROM signals g JOIN names n ON n.id = g.name_id "
                "JOIN names r ON r.id = g.rater_id WHERE g.subject = ?",
                (row.id,),
            )
        }
        for signal in row.record.signals:
            if (signal.name, signal.rater) not in held:
                transaction.signal(_signal(signal, decision.id, self._origin.at))
        transaction.add_details(decision.id, row.record.details)
        transaction.connection.execute(
            "UPDATE imported SET outcome = ?, rest = ? WHERE decision = ?", (row.outcome, row.record.rest, row.id)
        )

    def _import(self, transaction: WriteTransaction) -> int:
        """The id of this import. Looked up in every transaction, because a rollback removes it."""
        origin = self._origin
        which = (origin.file, origin.sha256, origin.format, origin.version)
        row = transaction.connection.execute(
            "SELECT id FROM imports WHERE file = ? AND sha256 = ? AND format = ? AND version = ?", which
        ).fetchone()
        if row is None:
            row = transaction.connection.execute(
                "INSERT INTO imports (file, sha256, format, version, at) VALUES (?, ?, ?, ?, ?) RETURNING id",
                (*which, microseconds(origin.at)),
            ).fetchone()
        return int(row[0])

    def _decision(self, row: KeyedRecord) -> Decision:
        record = row.record
        chosen = record.propensity or 0.0
        if record.probabilities is not None:
            chosen = next(
                p for p, one in zip(record.probabilities, record.candidates, strict=True) if one.name == record.action
            )
        return Decision(
            id=ids.text(row.id),
            situation=Situation(
                task=record.task or self._origin.task,
                text=record.text,
                state=record.state,
                episode=record.episode,
                step=record.step,
                role=record.role,
            ),
            candidates=record.candidates,
            probabilities=record.probabilities or (),
            action=record.action,
            propensity=chosen,
            policy=record.policy or _POLICY,
            policy_hash="",
            config_hash=ELSEWHERE,
            encoder="",
            exploration=_DATED if record.at is not None else _UNDATED,
            seed=0,
            at=round(self._at(record.at) * 1e6) / 1e6,
            source=record.source,
            draw_id="" if ids.is_episode(record.unit) else record.unit,
            unit=record.unit,
            position=record.position,
            key=self._origin.key,
        )


def _signal(signal: ImportedSignal, subject: str, at: float) -> Signal:
    return Signal(
        subject=subject, name=signal.name, value=signal.value, label=signal.label, rater=signal.rater, key=signal.key,
        at=at if signal.at is None else signal.at,
    )  # fmt: skip


def _named(row: KeyedRecord) -> str:
    return f"the row {row.origin!r}" if row.origin else "the same row"
