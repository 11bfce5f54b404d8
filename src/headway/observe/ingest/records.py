"""What a reader gives: a record per decision, or why a line is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.nouns.errors import InvalidInput
from headway.nouns.records import Candidate, Detail, Ending, Source, State

__all__ = ["ImportedSignal", "Options", "Problem", "Record", "Row", "Skipped"]

Row = tuple[int, dict[str, Any]]  # the line (or row) number, counted from 1, and the object that stands there


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSignal:
    """One signal as the row tells it."""

    name: str
    value: float
    rater: str = ""
    label: str = ""
    key: str = ""
    at: float | None = None  # None: when the decision was made, or is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One decision of somebody else's history. `None` is always "the row does not say"."""

    line: int
    origin: str  # the row's own id; empty: it has none, and its content stands for it
    action: str
    candidates: tuple[Candidate, ...]
    text: str = ""
    state: State = field(default_factory=dict)
    role: str = ""
    episode: str | None = None
    step: int | None = None
    at: float | None = None
    probabilities: tuple[float, ...] | None = None
    source: Source = "imported"
    signals: tuple[ImportedSignal, ...] = ()
    ending: Ending | None = None  # the episode ends with this decision
    schema: str = ""  # which of a format's shapes it had
    ignored: tuple[str, ...] = ()  # fields that have no place in a record
    id: str = ""  # only our own exports keep the id that the decision had
    task: str = ""  # likewise
    policy: str = ""  # likewise
    details: tuple[Detail, ...] = ()  # likewise: what kits kept beside it
    rest: str | None = None  # the line itself, where an export back to the format needs it

    def labels(self) -> dict[str, float]:
        return {each.name: each.value for each in self.signals}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is fine and holds no decision."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that cannot be used: where, what is wrong, and the cure."""

    line: int
    field: str
    message: str
    cure: str = ""

    def error(self, file: str, word: str = "line") -> InvalidInput:
        return InvalidInput(f"{file} {word} {self.line}: {self.message}", code="bad_import", hint=self.cure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller adds to what a file says."""

    columns: Mapping[str, str] = field(default_factory=dict)  # our name → theirs (--map)
    candidates: tuple[str, ...] = ()  # what could be chosen, where rows do not say
    name: str = ""  # of the file, for rows that are named after it
