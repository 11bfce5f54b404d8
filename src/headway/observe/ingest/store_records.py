"""Records into the store: each once, each with where it came from, a batch wholly or not at all.

An id is derived from the task, the format and what identifies the row: its own id, else everything it says but its
outcome (and, where a file says the same thing twice, which time it is). So the same file again adds nothing, a file
that has grown adds what is new, and a run that was killed is finished by the next one. An outcome that was missing and
is there now is a late signal; anything else that changed is a conflict, reported and not stored.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from headway.nouns.errors import Conflict, HeadwayError
from headway.nouns.ids import id_bytes, id_text
from headway.nouns.records import Decision, Signal, Situation
from headway.observe.database import Database
from headway.observe.details import read as read_details
from headway.observe.ingest.records import Record
from headway.observe.query import Query
from headway.observe.rows import dumps, encode_candidates, microseconds, request_of
from headway.observe.store import Hand, Store

__all__ = ["BATCH", "BATCH_BYTES", "BatchResult", "Clash", "Fate", "Origin", "RecordWriter"]

BATCH = 1000
BATCH_BYTES = 16 << 20  # of details
CONFIG = "elsewhere"
Fate = Literal["new", "same", "late", "conflict"]
_MARKS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the records of one run come from."""

    file: str
    sha256: str
    format: str
    version: str
    task: str
    at: float


@dataclass(frozen=True, slots=True)
class Clash:
    """A row that contradicts what is stored."""

    line: int
    origin: str
    message: str


@dataclass(slots=True)
class BatchResult:
    """What became of a batch, record by record."""

    fates: list[Fate] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)


class _Keyed(NamedTuple):
    record: Record
    id: bytes
    content: bytes
    outcome: bytes
    origin: str


class _Known(NamedTuple):
    content: bytes | None  # None: a decision that was not imported
    outcome: bytes | None
    file: str
    line: int


class RecordWriter:
    """Stores the records of one file.

    writer = RecordWriter(database, query, store, origin)
    writer.write(records)       # durable on return; the result says what became of each record
    writer.preview(records)     # the same answer, nothing stored
    """

    def __init__(self, database: Database, query: Query, store: Store, origin: Origin) -> None:
        self._database, self._query, self._store, self._origin = database, query, store, origin
        self._repeats = _Repeats()

    def write(self, records: Sequence[Record]) -> BatchResult:
        return self._decide(records, write=True)

    def preview(self, records: Sequence[Record]) -> BatchResult:
        return self._decide(records, write=False)

    # -- who is who

    def _decide(self, records: Sequence[Record], *, write: bool) -> BatchResult:
        keyed = [self._key(each) for each in records]
        known = self._known([each.id for each in keyed])
        result, fresh, late = BatchResult(), list[_Keyed](), list[_Keyed]()
        for each in keyed:
            before = known.get(each.id)
            fate: Fate = "new"
            if before is not None:
                fate = self._compare(each, before, result)
            if fate == "new":
                fresh.append(each)
                known[each.id] = _Known(each.content, each.outcome, self._origin.file, each.record.line)
            elif fate == "late":
                late.append(each)
            result.fates.append(fate)
        if write:
            self._write(keyed, fresh, late, result)
        return result

    def _key(self, record: Record) -> _Keyed:
        said = [
            record.text, record.state, record.role, record.episode, record.step, record.at, record.action,
            encode_candidates(record.candidates)[1], record.probabilities, record.source,
        ]  # fmt: skip
        content = _hash(dumps(said).encode())
        signals = sorted(
            (signal.name, signal.rater, signal.key, signal.value, signal.label) for signal in record.signals
        )
        details = sorted((detail.kit, detail.name, _hash(detail.data).hex()) for detail in record.details)
        outcome = _hash(dumps([signals, record.ending, details] if details else [signals, record.ending]).encode())
        if record.id:
            return _Keyed(record, id_bytes(record.id), content, outcome, record.origin)
        identity = f"id\0{record.origin}" if record.origin else f"row\0{content.hex()}\0{self._repeats.next(content)}"
        task = record.task or self._origin.task
        raw = bytearray(
            hashlib.blake2b(
                f"{task}\0{self._origin.format}\0{identity}".encode(), digest_size=16, person=b"headway-import"
            ).digest()
        )
        raw[6], raw[8] = 0x80 | raw[6] & 0x0F, 0x80 | raw[8] & 0x3F  # a UUID of version 8: made up by us
        return _Keyed(record, bytes(raw), content, outcome, record.origin)

    def _known(self, ids: Sequence[bytes]) -> dict[bytes, _Known]:
        found: dict[bytes, _Known] = {}
        for start in range(0, len(ids), _MARKS):
            some = ids[start : start + _MARKS]
            rows = self._database.query(
                "SELECT d.id, i.content, i.outcome, f.file, i.line FROM decisions d "
                "LEFT JOIN imported i ON i.decision = d.id LEFT JOIN imports f ON f.id = i.import_id "
                f"WHERE d.id IN ({', '.join('?' * len(some))})",
                some,
            )
            for raw, content, outcome, file, line in rows:
                if content is None:
                    found[bytes(raw)] = _Known(None, None, "", 0)
                else:
                    found[bytes(raw)] = _Known(bytes(content), bytes(outcome), file, line)
        return found

    def _compare(self, each: _Keyed, before: _Known, result: BatchResult) -> Fate:
        record = each.record
        if before.content is None:  # it is here because it was decided here
            stored = self._query.decision(id_text(each.id))
            if request_of(stored) == request_of(self._decision(each)) and stored.action == record.action:
                return "same"
            result.clashes.append(Clash(record.line, each.origin, f"{stored.id} was decided here, with other content."))
            return "conflict"
        where = f"{before.file} line {before.line}"
        if before.content != each.content:
            changed = self._changed(each)
            message = f"{_named(each)} is stored already, from {where}, with other content{changed}."
            result.clashes.append(Clash(record.line, each.origin, message))
            return "conflict"
        if before.outcome == each.outcome:
            return "same"
        other = self._contradicted(each)
        if other:
            result.clashes.append(
                Clash(record.line, each.origin, f"{_named(each)} from {where} was stored with {other}.")
            )
            return "conflict"
        return "late"

    def _changed(self, each: _Keyed) -> str:
        """Which parts differ, for the message."""
        stored = self._query.find(id_text(each.id))
        if stored is None:  # both stand in this file, and the first is not stored yet
            return ""
        new = self._decision(each)
        parts = {
            "text": stored.situation.text != new.situation.text,
            "state": dumps(stored.situation.state) != dumps(new.situation.state),
            "time": stored.at != new.at,
            "action": stored.action != new.action,
            "candidates": encode_candidates(stored.candidates)[1] != encode_candidates(new.candidates)[1],
            "probabilities": stored.probabilities != new.probabilities,
        }
        names = [name for name, differs in parts.items() if differs]
        return f" ({', '.join(names)})" if names else ""

    def _contradicted(self, each: _Keyed) -> str:
        """The stored signal or detail that the row gives another value, in words; empty where it only adds."""
        stored = {(row.name, row.rater): row for row in self._query.signals(id_text(each.id)) if row.value is not None}
        for told in each.record.signals:
            before = stored.get((told.name, told.rater))
            if before is not None and before.value != told.value:
                return f"{told.name} = {before.value:g}, now it is {told.value:g}"
        known = {(detail.kit, detail.name): detail.data for detail in read_details(self._database, id_text(each.id))}
        for detail in each.record.details:
            if known.get((detail.kit, detail.name), detail.data) != detail.data:
                return f"other bytes as {detail.name!r} of the kit {detail.kit!r}"
        return ""

    # -- writing

    def _write(
        self, keyed: Sequence[_Keyed], fresh: Sequence[_Keyed], late: Sequence[_Keyed], result: BatchResult
    ) -> None:
        try:
            if fresh:
                self._store.together(lambda hand: self._insert(hand, fresh))
        except Conflict:
            # One row does not fit (a step of an episode that is taken, an episode that has ended): find it.
            for each in fresh:
                self._alone(each, keyed, result)
        for each in late:
            self._store.together(lambda hand, each=each: self._add_late(hand, each))  # type: ignore[misc]

    def _alone(self, each: _Keyed, keyed: Sequence[_Keyed], result: BatchResult) -> None:
        try:
            self._store.together(lambda hand: self._insert(hand, [each]))
        except HeadwayError as error:
            if not isinstance(error, Conflict):
                raise
            result.fates[next(place for place, other in enumerate(keyed) if other is each)] = "conflict"
            result.clashes.append(Clash(each.record.line, each.origin, error.message))

    def _insert(self, hand: Hand, fresh: Sequence[_Keyed]) -> None:
        decisions = [self._decision(each) for each in fresh]
        hand.add(decisions, {CONFIG: '{"encoder":""}'})
        import_id = self._import(hand)
        signals = []
        for each, decision in zip(fresh, decisions, strict=True):
            for told in each.record.signals:
                name, rater = hand.intern.name("signal", told.name), hand.intern.name("rater", told.rater)
                at = microseconds(decision.at if told.at is None else told.at)
                signals.append((each.id, name, told.value, told.label or None, rater, at, told.key))
            hand.add_details(decision.id, each.record.details)
        hand.connection.executemany(
            "INSERT INTO signals (subject, name_id, value, label, rater_id, at, key) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (subject, name_id, rater_id, key) DO NOTHING",
            signals,
        )
        hand.connection.executemany(
            "INSERT INTO imported (decision, import_id, line, origin, content, outcome, rest) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (decision) DO UPDATE SET import_id = excluded.import_id, "
            "line = excluded.line, content = excluded.content, outcome = excluded.outcome, rest = excluded.rest",
            [
                (each.id, import_id, each.record.line, each.origin, each.content, each.outcome, each.record.rest)
                for each in fresh
            ],
        )
        for each, decision in zip(fresh, decisions, strict=True):
            if each.record.ending is not None and decision.situation.episode is not None:
                self._end(hand, each, decision)

    def _end(self, hand: Hand, each: _Keyed, decision: Decision) -> None:
        hand.connection.execute(
            "UPDATE episodes SET ending = ?, ended_at = ? WHERE ending IS NULL AND id = "
            "(SELECT episode FROM decisions WHERE id = ?)",
            (each.record.ending, microseconds(decision.at), each.id),
        )

    def _add_late(self, hand: Hand, each: _Keyed) -> None:
        decision = self._decision(each)
        held = {
            (name, rater)
            for name, rater in hand.connection.execute(
                "SELECT n.name, r.name FROM signals g JOIN names n ON n.id = g.name_id "
                "JOIN names r ON r.id = g.rater_id WHERE g.subject = ?",
                (each.id,),
            )
        }
        for told in each.record.signals:
            if (told.name, told.rater) not in held:
                at = self._origin.at if told.at is None else told.at
                hand.signal(
                    Signal(
                        subject=decision.id,
                        name=told.name,
                        value=told.value,
                        label=told.label,
                        rater=told.rater,
                        key=told.key,
                        at=at,
                    )
                )
        hand.add_details(decision.id, each.record.details)
        hand.connection.execute(
            "UPDATE imported SET outcome = ?, rest = ? WHERE decision = ?", (each.outcome, each.record.rest, each.id)
        )

    def _import(self, hand: Hand) -> int:
        """The id of this run's provenance. Asked for in every transaction: one that was rolled back made none."""
        origin = self._origin
        which = (origin.file, origin.sha256, origin.format, origin.version)
        row = hand.connection.execute(
            "SELECT id FROM imports WHERE file = ? AND sha256 = ? AND format = ? AND version = ?", which
        ).fetchone()
        if row is None:
            row = hand.connection.execute(
                "INSERT INTO imports (file, sha256, format, version, at) VALUES (?, ?, ?, ?, ?) RETURNING id",
                (*which, microseconds(origin.at)),
            ).fetchone()
        return int(row[0])

    def _decision(self, each: _Keyed) -> Decision:
        record = each.record
        chosen = 0.0
        if record.probabilities is not None:
            chosen = next(
                p for p, one in zip(record.probabilities, record.candidates, strict=True) if one.name == record.action
            )
        at = self._origin.at if record.at is None else record.at
        return Decision(
            id=id_text(each.id),
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
            config_hash=CONFIG,
            encoder="",
            exploration="elsewhere",
            seed=0,
            at=round(at * 1e6) / 1e6,
            source=record.source,
        )


def _named(each: _Keyed) -> str:
    return f"the row {each.origin!r}" if each.origin else "the same row"


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class _Repeats:
    """How often a content was met before: 8 bytes per different one, so that a million rows cost 16 MB, not 100."""

    __slots__ = ("_again", "_count", "_slots")

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * 4096))
        self._count = 0
        self._again: dict[int, int] = {}

    def next(self, content: bytes) -> int:
        key = int.from_bytes(content[:8], "little") or 1
        if not self._put(self._slots, key):
            self._again[key] = self._again.get(key, 0) + 1
            return self._again[key]
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            wider = array("Q", bytes(16 * len(self._slots)))
            for each in self._slots:
                if each:
                    self._put(wider, each)
            self._slots = wider
        return 0

    @staticmethod
    def _put(slots: array[int], key: int) -> bool:
        mask = len(slots) - 1
        place = key & mask
        while found := slots[place]:
            if found == key:
                return False
            place = (place + 1) & mask
        slots[place] = key
        return True
