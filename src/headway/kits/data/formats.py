"""Import formats, and detection of the format of a file.

A format defines how to recognise and read a file, the default task of its decisions, and the signal that is its label.
`weak` means that the labels are mined, not measured. Kits add formats to the core's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headway.kits.data.fields import Wrong
from headway.kits.data.files import rows_of
from headway.kits.data.records import Options, Problem, Record, Records, Row, Skipped
from headway.nouns import errors

VERSION = "1"  # of all readers: increase it when a reader interprets a line differently
_SAMPLE = 50  # rows

Item = Record | Records | Skipped | Problem  # a reader may give plain rows as columns
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
    """A reader for formats in which every line is independent."""

    def read(rows: Iterable[Row | Problem], options: Options) -> Iterator[Item]:
        for row in rows:
            if isinstance(row, Problem):
                yield row
                continue
            try:
                yield function(*row, options)
            except Wrong as wrong:
                yield Problem(row[0], wrong.field, wrong.message, wrong.cure)

    return read


def detect(path: Path, formats: Sequence[Format]) -> Format:
    """The format of a file, by its first rows; unreadable lines are ignored."""
    rows = [row for row in islice(rows_of(path), _SAMPLE) if not isinstance(row, Problem)]
    if not rows:
        first = next((row for row in rows_of(path) if isinstance(row, Problem)), None)
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
    fields = ", ".join(map(str, list(rows[0][1])[:12])) if rows else "none"
    raise errors.InvalidInput(
        f"The format of {path.name} was not recognised (its fields: {fields}).",
        code="unknown_format",
        hint=f"Name it with --format ({known}), or map its columns: --map action=COLUMN --map reward=COLUMN.",
    )


def read(path: Path, format: Format, options: Options) -> Iterator[Item]:
    """Every line of the file as a record, a line without a decision, or a problem."""
    return format.read(rows_of(path), options)
