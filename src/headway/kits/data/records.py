"""The results of a reader: a record per decision, or the reason why a line has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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


class Records(msgspec.Struct, array_like=True):
    """Records as columns, a list for each field of `Record`: a block of a log is checked and stored without objects."""

    line: list[int]
    origin: list[str]
    action: list[str]
    candidates: list[tuple[Candidate, ...]]
    text: list[str]
    state: list[Mapping[str, Any]]
    role: list[str]
    episode: list[str | None]
    step: list[int | None]
    at: list[float | None]
    probabilities: list[tuple[float, ...] | None]
    source: list[Source]
    signals: list[tuple[ImportedSignal, ...]]
    ending: list[Ending | None]
    schema: list[str]
    ignored: list[tuple[str, ...]]
    id: list[str]
    idempotency_key: list[str]
    task: list[str]
    policy: list[str]
    unit: list[str]
    position: list[int]
    details: list[tuple[Detail, ...]]
    propensity: list[float | None]
    place: list[int | None]
    rest: list[str | None]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        columns = map(list, zip(*map(msgspec.structs.astuple, records), strict=True))
        return cls(*(columns if records else ([] for _ in cls.__struct_fields__)))

    @classmethod
    def joined(cls, blocks: Sequence[Records]) -> Self:
        columns = zip(*map(msgspec.structs.astuple, blocks or [cls.of([])]), strict=True)
        return cls(*(list(chain.from_iterable(parts)) for parts in columns))

    def __len__(self) -> int:
        return len(self.line)

    def __iter__(self) -> Iterator[Record]:
        return map(self.record, range(len(self)))

    def record(self, place: int) -> Record:
        return Record(**{name: getattr(self, name)[place] for name in self.__struct_fields__})

    def where(self, places: Sequence[int]) -> Records:
        """Only these, in this order."""
        columns = msgspec.structs.astuple(self)
        return Records(*([column[place] for place in places] for column in columns))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[str], list[int], Records]).decode


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

    def write(self, records: Records) -> None:
        sets = {id(candidates): candidates for candidates in records.candidates}
        places = dict(zip(sets, range(len(sets)), strict=True))
        bodies = [encode_candidates(candidates).body for candidates in sets.values()]
        offered = [places[id(candidates)] for candidates in records.candidates]
        data = _encode((bodies, offered, msgspec.structs.replace(records, candidates=[])))
        self._file.write(len(data).to_bytes(8, "little"))
        self._file.write(data)

    def __iter__(self) -> Iterator[Records]:
        self._file.seek(0)
        while head := self._file.read(8):
            bodies, offered, records = _decode(self._file.read(int.from_bytes(head, "little")))
            sets = [decode_candidates(body) for body in bodies]
            records.candidates = [sets[place] for place in offered]
            yield records
