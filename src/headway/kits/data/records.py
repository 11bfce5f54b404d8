"""The results of a reader: a record per decision, or the reason why a line has none."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

import msgspec

from headway.nouns import Candidate, Detail, Ending, Source, errors
from headway.observe import decode_candidates, encode_candidates

Row = tuple[int, dict[str, Any]]  # the line (or row) number, counted from 1, and its object


class ImportedSignal(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One signal of an imported row."""

    name: str
    value: float
    rater: str = ""
    label: str = ""
    key: str = ""
    at: float | None = None  # None: unknown; the time of the decision is used


class Record(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One decision of an imported log. `None` means that the row does not contain the value.

    A Struct is made ten times as fast as a frozen dataclass, and spooled without names.
    """

    line: int
    origin: str  # the id in the row; empty: the content identifies the row
    action: str
    candidates: tuple[Candidate, ...]
    text: str = ""
    state: Mapping[str, Any] = msgspec.field(default_factory=dict)  # a `State`, numbers as they are
    role: str = ""
    episode: str | None = None
    step: int | None = None
    at: float | None = None
    probabilities: tuple[float, ...] | None = None
    source: Source = "imported"
    signals: tuple[ImportedSignal, ...] = ()
    ending: Ending | None = None  # the episode ends with this decision
    schema: str = ""  # the variant of the format
    ignored: tuple[str, ...] = ()  # fields of the row that a record does not have
    id: str = ""  # of the decision; only Headway exports have it
    idempotency_key: str = ""  # the name of the request, which is the same whoever stores it
    task: str = ""  # likewise
    policy: str = ""  # likewise
    unit: str = ""  # likewise: the first decision of its request, or its episode
    position: int = 0  # likewise
    details: tuple[Detail, ...] = ()  # likewise: what kits stored with it
    propensity: float | None = None  # likewise: of an action of several heads, which has no probabilities here
    place: int | None = None  # likewise: its place among the settled decisions
    rest: str | None = None  # the original line, if an export back to the format needs it

    def labels(self) -> dict[str, float]:
        return {signal.name: signal.value for signal in self.signals}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[str], list[Record]]).decode


@dataclass(frozen=True, slots=True)
class Skipped:
    """A valid line without a decision."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that cannot be used: its number, the problem and the remedy."""

    line: int
    field: str
    message: str
    cure: str = ""

    def error(self, file: str, word: str = "line") -> errors.InvalidInput:
        return errors.InvalidInput(f"{file} {word} {self.line}: {self.message}", code="bad_import", hint=self.cure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the caller that add to the content of a file."""

    columns: Mapping[str, str] = field(default_factory=dict)  # our name → the name in the file (--map)
    candidates: tuple[str, ...] = ()  # for rows without candidates
    name: str = ""  # of the file, for rows that have no name


class Spool:
    """Records between two passes over them, in a file without a name: nothing of it stays if the process ends."""

    def __init__(self, folder: Path) -> None:
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 — closed in `__exit__`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, records: Sequence[Record]) -> None:
        empty = [msgspec.structs.replace(record, candidates=()) for record in records]
        data = _encode(([encode_candidates(record.candidates).body for record in records], empty))
        self._file.write(len(data).to_bytes(8, "little"))
        self._file.write(data)

    def __iter__(self) -> Iterator[Record]:
        self._file.seek(0)
        while head := self._file.read(8):
            sets, records = _decode(self._file.read(int.from_bytes(head, "little")))
            for candidates, record in zip(sets, records, strict=True):
                msgspec.structs.force_setattr(record, "candidates", decode_candidates(candidates))
                yield record


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
