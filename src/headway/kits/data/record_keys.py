"""What imported records are known by: an id, and hashes of the content and of the outcome.

An id is derived from the task, the format and the identity of the row: its own id, else its whole content except the
outcome (and a counter for repeated rows of a file).
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from headway.kits.data.records import Record, Records
from headway.nouns import ids
from headway.observe import encode_candidates

_REMEMBERED = 4096
_CLEAR = ~(0xF0 << 72 | 0xC0 << 56)  # UUID version 8: a custom format
_CUSTOM = 0x80 << 72 | 0x80 << 56
_encode = msgspec.json.Encoder(order="deterministic").encode


class KeyedRecords(NamedTuple):
    """Records with what they are known by, a value per record."""

    records: Records
    ids: list[bytes]
    contents: list[bytes]
    outcomes: list[bytes]
    origins: list[str]

    def where(self, places: Sequence[int]) -> KeyedRecords:
        own = ([column[place] for place in places] for column in self[1:])
        return KeyedRecords(self.records.where(places), *own)  # type: ignore[arg-type]  # the columns of this tuple

    def row(self, place: int) -> KeyedRecord:
        return KeyedRecord(self.records.record(place), *(column[place] for column in self[1:]))  # type: ignore[arg-type]


class KeyedRecord(NamedTuple):
    """One of them."""

    record: Record
    id: bytes
    content: bytes
    outcome: bytes
    origin: str


class RecordKeys:
    """The keys of the records of one file.

    `keyed_id` gives the id of a decision that its client named: of (task, key, name).
    """

    def __init__(self, task: str, format: str, keyed_id: Callable[[str, str, str], str]) -> None:
        self._task, self._format, self._keyed_id = task, format, keyed_id
        self._repeats = Repeats()

    def of(self, records: Records) -> KeyedRecords:
        bodies = {id(candidates): encode_candidates(candidates).body for candidates in records.candidates}
        contents = [
            _hash(_encode(fields))
            for fields in zip(
                records.text, records.state, records.role, records.episode, records.step, records.at, records.action,
                [bodies[id(candidates)] for candidates in records.candidates], records.probabilities, records.source,
                strict=True,
            )
        ]  # fmt: skip
        origin = [given or key for given, key in zip(records.origin, records.idempotency_key, strict=True)]
        return KeyedRecords(records, self._ids(records, contents), contents, _outcomes(records), origin)

    def _ids(self, records: Records, contents: Sequence[bytes]) -> list[bytes]:
        identifiers = []
        for task, given, key, origin, content in zip(
            records.task, records.id, records.idempotency_key, records.origin, contents, strict=True
        ):
            task = task or self._task
            if given or key:
                identifiers.append(ids.raw(given or self._keyed_id(task, "", key)))
                continue
            identity = f"id\0{origin}" if origin else f"row\0{content.hex()}\0{self._repeats.next(content)}"
            digest = _hash(f"{task}\0{self._format}\0{identity}".encode(), person=b"headway-import")
            identifiers.append((int.from_bytes(digest, "big") & _CLEAR | _CUSTOM).to_bytes(16, "big"))
        return identifiers


def _outcomes(records: Records) -> list[bytes]:
    """A hash of the outcome of each record, whenever it came."""
    known: dict[Any, bytes] = {}  # rewards repeat
    hashes = []
    for signals, ending, details in zip(records.signals, records.ending, records.details, strict=True):
        # 0 and -0 are equal, and written differently
        seen = (ending, *[(one.name, one.rater, one.key, one.value or str(one.value), one.label) for one in signals])
        found = None if details else known.get(seen)
        if found is None:
            said = sorted((one.name, one.rater, one.key, one.value, one.label) for one in signals)
            kept = sorted((detail.kit, detail.name, _hash(detail.data).hex()) for detail in details)
            found = _hash(_encode([said, ending, kept] if details else [said, ending]))
            if len(known) > _REMEMBERED:
                known.clear()
            if not details:
                known[seen] = found
        hashes.append(found)
    return hashes


def _hash(data: bytes, person: bytes = b"") -> bytes:
    return hashlib.blake2b(data, digest_size=16, person=person).digest()


class Repeats:
    """Counts repeated contents in 8 bytes per distinct content: a million rows take 16 MB, not 100."""

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
            for slot in self._slots:
                if slot:
                    self._put(wider, slot)
            self._slots = wider
        return 0

    @staticmethod
    def _put(slots: array[int], key: int) -> bool:
        mask = len(slots) - 1
        place = key & mask
        while slot := slots[place]:
            if slot == key:
                return False
            place = (place + 1) & mask
        slots[place] = key
        return True
