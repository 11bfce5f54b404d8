"""Store imported records: each record once, with its origin; a batch completely or not at all.

An id is derived from the task, the format and the identity of the row: its own id, else its whole content except the
outcome (and a counter for repeated rows of a file). So importing a file again adds nothing, a file that has grown adds
its new rows, and the next run completes an interrupted one. An outcome that was missing before is a late signal; any
other change is a conflict, which is reported and not stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from headway.kits.data.records import ImportedSignal, Record, Repeats
from headway.nouns import ELSEWHERE, Decision, Signal, Situation, errors, ids
from headway.observe import Database, Query, Store, WriteTransaction, dumps, encode_candidates, microseconds, request_of

BATCH = 4000
BATCH_BYTES = 16 << 20  # of details
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


class _Keyed(NamedTuple):
    record: Record
    id: bytes
    content: bytes
    outcome: bytes
    origin: str


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
        self._repeats = Repeats()

    def write(self, records: Sequence[Record]) -> BatchResult:
        return self._process(records, write=True)

    def preview(self, records: Sequence[Record]) -> BatchResult:
        return self._process(records, write=False)

    # -- compare

    def _process(self, records: Sequence[Record], *, write: bool) -> BatchResult:
        keyed = [self._key(record) for record in records]
        known = self._known([row.id for row in keyed])
        result, fresh, late = BatchResult(), list[_Keyed](), list[_Keyed]()
        for row in keyed:
            before = known.get(row.id)
            fate: Fate = "new"
            if before is not None:
                fate = self._compare(row, before, result)
            if fate == "new":
                fresh.append(row)
                known[row.id] = _StoredRow(row.content, row.outcome, self._origin.file, row.record.line)
            elif fate == "late":
                late.append(row)
            result.fates.append(fate)
        if write:
            self._write(keyed, fresh, late, result)
        return result

    def _key(self, record: Record) -> _Keyed:
        fields = [
            record.text, record.state, record.role, record.episode, record.step, record.at, record.action,
            encode_candidates(record.candidates).body, record.probabilities, record.source,
        ]  # fmt: skip
        content = _hash(dumps(fields).encode())
        signals = sorted(
            (signal.name, signal.rater, signal.key, signal.value, signal.label) for signal in record.signals
        )
        details = sorted((detail.kit, detail.name, _hash(detail.data).hex()) for detail in record.details)
        outcome = _hash(dumps([signals, record.ending, details] if details else [signals, record.ending]).encode())
        if record.id:
            return _Keyed(record, ids.raw(record.id), content, outcome, record.origin)
        if record.idempotency_key:
            identifier = self._query.keyed_id(record.task or self._origin.task, "", record.idempotency_key)
            return _Keyed(record, ids.raw(identifier), content, outcome, record.origin or record.idempotency_key)
        identity = f"id\0{record.origin}" if record.origin else f"row\0{content.hex()}\0{self._repeats.next(content)}"
        task = record.task or self._origin.task
        raw = bytearray(
            hashlib.blake2b(
                f"{task}\0{self._origin.format}\0{identity}".encode(), digest_size=16, person=b"headway-import"
            ).digest()
        )
        raw[6], raw[8] = 0x80 | raw[6] & 0x0F, 0x80 | raw[8] & 0x3F  # UUID version 8: a custom format
        return _Keyed(record, bytes(raw), content, outcome, record.origin)

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

    def _compare(self, row: _Keyed, before: _StoredRow, result: BatchResult) -> Fate:
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
        if before.outcome == row.outcome:
            return "same"
        other = self._contradicted(row)
        if other:
            result.clashes.append(
                Clash(record.line, row.origin, f"{_named(row)} from {where} was stored with {other}.")
            )
            return "conflict"
        return "late"

    def _changed(self, row: _Keyed) -> str:
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

    def _contradicted(self, keyed: _Keyed) -> str:
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

    def _write(
        self, keyed: Sequence[_Keyed], fresh: Sequence[_Keyed], late: Sequence[_Keyed], result: BatchResult
    ) -> None:
        try:
            if fresh:
                self._store.together(lambda transaction: self._insert(transaction, fresh))
        except errors.Conflict:
            # One row conflicts (its step is taken, or its episode has ended): find it.
            for row in fresh:
                self._write_one(row, keyed, result)
        for row in late:
            self._store.together(lambda transaction, row=row: self._add_late(transaction, row))  # type: ignore[misc]

    def _write_one(self, row: _Keyed, keyed: Sequence[_Keyed], result: BatchResult) -> None:
        try:
            self._store.together(lambda transaction: self._insert(transaction, [row]))
        except errors.HeadwayError as error:
            if not isinstance(error, errors.Conflict):
                raise
            result.fates[next(place for place, other in enumerate(keyed) if other is row)] = "conflict"
            result.clashes.append(Clash(row.record.line, row.origin, error.message))

    def _insert(self, transaction: WriteTransaction, fresh: Sequence[_Keyed]) -> None:
        transaction.add([self._decision(row) for row in fresh], {ELSEWHERE: '{"encoder":""}'})
        import_id = self._import(transaction)
        for row in fresh:
            if row.record.details:
                transaction.add_details(ids.text(row.id), row.record.details)
        transaction.add_signals(
            [
                (row.id, signal.name, signal.value, signal.label, signal.rater, self._at(row, signal), signal.key)
                for row in fresh
                for signal in row.record.signals
            ]
        )
        transaction.connection.executemany(
            "INSERT INTO imported (decision, import_id, line, origin, content, outcome, rest, place) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (decision) DO UPDATE SET import_id = excluded.import_id, "
            "line = excluded.line, content = excluded.content, outcome = excluded.outcome, rest = excluded.rest, "
            "place = excluded.place",
            [
                (row.id, import_id, record.line, row.origin, row.content, row.outcome, record.rest, record.place)
                for row, record in ((row, row.record) for row in fresh)
            ],
        )
        for row in fresh:
            if row.record.ending is not None and row.record.episode is not None:
                self._end(transaction, row)

    def _at(self, row: _Keyed, signal: ImportedSignal | None = None) -> float:
        """When the decision was made, or when a signal came, as far as the file says."""
        of_signal = None if signal is None else signal.at
        at = row.record.at if of_signal is None else of_signal
        return self._origin.at if at is None else at

    def _end(self, transaction: WriteTransaction, row: _Keyed) -> None:
        transaction.connection.execute(
            "UPDATE episodes SET ending = ?, ended_at = ? WHERE ending IS NULL AND id = "
            "(SELECT episode FROM decisions WHERE id = ?)",
            (row.record.ending, microseconds(self._at(row)), row.id),
        )

    def _add_late(self, transaction: WriteTransaction, row: _Keyed) -> None:
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

    def _decision(self, row: _Keyed) -> Decision:
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
            policy=record.policy or "elsewhere@0",
            policy_hash="",
            config_hash=ELSEWHERE,
            encoder="",
            exploration="elsewhere" if record.at is not None else "elsewhere, undated",
            seed=0,
            at=round(self._at(row) * 1e6) / 1e6,
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


def _named(row: _Keyed) -> str:
    return f"the row {row.origin!r}" if row.origin else "the same row"


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
