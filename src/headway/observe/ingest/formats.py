"""What a format of history is, and which of several a file is in.

A format says how to recognise it, how to read it, which task its decisions belong to unless the caller says otherwise,
and which signal is its label. `weak`: its labels are mined, never measured. Kits bring formats; the core has
its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headway.nouns.errors import InvalidInput
from headway.observe.ingest.fields import Wrong
from headway.observe.ingest.files import kind_of, rows_of
from headway.observe.ingest.records import Options, Problem, Record, Row, Skipped

__all__ = ["VERSION", "Format", "Item", "by_line", "detect", "read"]

VERSION = "1"  # of the readers together: a change in what they make of a line raises it
_LOOKED_AT = 50  # rows

Item = Record | Skipped | Problem
Reader = Callable[[Iterable[Row | Problem], Options], Iterator[Item]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One kind of file."""

    name: str
    about: str
    task: str
    read: Reader
    looks: Callable[[dict[str, Any]], bool]
    label: str = "reward"
    weak: bool = False
    priority: int = 50  # formats are tried from low to high; `columns`, which fits nearly anything, is last


def by_line(function: Callable[[int, dict[str, Any], Options], Record | Skipped]) -> Reader:
    """A reader for formats in which a line stands for itself."""

    def read(rows: Iterable[Row | Problem], options: Options) -> Iterator[Item]:
        for each in rows:
            if isinstance(each, Problem):
                yield each
                continue
            try:
                yield function(*each, options)
            except Wrong as wrong:
                yield Problem(each[0], wrong.field, wrong.message, wrong.cure)

    return read


def detect(path: Path, formats: Sequence[Format]) -> Format:
    """The format of a file by its first rows; a line that cannot be read does not count."""
    rows = [each for each in islice(rows_of(path), _LOOKED_AT) if not isinstance(each, Problem)]
    if not rows and kind_of(path) == "jsonl":
        first = next((each for each in rows_of(path) if isinstance(each, Problem)), None)
        if first is not None:
            raise first.error(path.name)
    ordered = sorted(formats, key=lambda form: form.priority)
    votes: Counter[str] = Counter()
    for _, row in rows:
        votes.update(next(([form.name] for form in ordered if form.looks(row)), ()))
    if votes:
        winner = votes.most_common(1)[0][0]
        return next(form for form in ordered if form.name == winner)
    known = ", ".join(form.name for form in ordered)
    columns_there = ", ".join(map(str, list(rows[0][1])[:12])) if rows else "none"
    raise InvalidInput(
        f"{path.name} is in no format that is known by its looks (its fields: {columns_there}).",
        code="unknown_format",
        hint=f"Name it with --format ({known}), or say what the columns mean: --map action=COLUMN --map reward=COLUMN.",
    )


def read(path: Path, format: Format, options: Options) -> Iterator[Item]:
    """Every line of the file as what it is: a record, a line without a decision, or a problem."""
    return format.read(rows_of(path), options)
