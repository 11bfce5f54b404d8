"""The formats by name, and which of them a file is in.

A format is a line in FORMATS: how to know it, how to read it, what task its decisions belong to unless the caller says
otherwise, and which signal is its label. `weak`: its labels are mined, never measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headway.nouns.errors import InvalidInput, UnknownName, did_you_mean
from headway.observe.ingest import chat, columns, jfl, jfl_events, mutations, own, sage
from headway.observe.ingest.fields import Wrong
from headway.observe.ingest.files import kind_of, rows_of
from headway.observe.ingest.records import Options, Problem, Record, Row, Skipped

__all__ = ["FORMATS", "VERSION", "Format", "Item", "detect", "format_of", "read"]

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


def _each(function: Callable[[int, dict[str, Any], Options], Record | Skipped]) -> Reader:
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


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format(
            name="headway",
            about="what `headway data export` writes",
            task="",
            read=_each(own.read_export),
            looks=own.looks_like_export,
        ),
        Format(
            name="jfl-buffer",
            about="jfl training buffers, both shapes",
            task=jfl.TASK,
            read=_each(jfl.read_buffer),
            looks=jfl.looks_like_buffer,
            label=jfl.LABEL,
        ),
        Format(
            name="jfl-journal",
            about="jfl journals (weak labels)",
            task=jfl.TASK,
            read=_each(jfl_events.read_journal),
            looks=jfl_events.looks_like_journal,
            label=jfl.LABEL,
            weak=True,
        ),
        Format(
            name="jfl-events",
            about="jfl service and map events (weak labels)",
            task=jfl.TASK,
            read=jfl_events.read_events,
            looks=jfl_events.looks_like_event,
            label=jfl.LABEL,
            weak=True,
        ),
        Format(
            name="sage-routing",
            about='SAGE routing rows, schema "1"',
            task="route",
            read=_each(sage.read_routing),
            looks=sage.looks_like_routing,
        ),
        Format(
            name="sage-journal",
            about="SAGE session journals: routing decisions and trajectory steps",
            task="route",
            read=sage.read_journal,
            looks=sage.looks_like_journal,
            label="trajectory_reward",
        ),
        Format(
            name="interactions",
            about="prompt, response and reward, one exchange per line",
            task=chat.TASK,
            read=_each(chat.read_interaction),
            looks=chat.looks_like_interaction,
        ),
        Format(
            name="openai-chat",
            about="chat requests with their responses, batch output, fine-tuning files",
            task=chat.TASK,
            read=_each(chat.read_chat),
            looks=chat.looks_like_chat,
        ),
        Format(
            name="mutations",
            about="prompt-mutation experiences of a PPO trainer",
            task=mutations.TASK,
            read=mutations.read_experiences,
            looks=mutations.looks_like_experience,
        ),
        Format(
            name="columns",
            about="any CSV, JSON lines or Parquet, with --map",
            task="",
            read=columns.read_columns,
            looks=lambda row: "action" in row,
        ),
    )
}


def format_of(name: str) -> Format:
    found = FORMATS.get(name)
    if found is None:
        raise UnknownName(f"There is no format {name!r}.", code="unknown_format", hint=did_you_mean(name, FORMATS))
    return found


def detect(path: Path) -> Format:
    """The format of a file by its first rows; a line that cannot be read does not count."""
    rows = [each for each in islice(rows_of(path), _LOOKED_AT) if not isinstance(each, Problem)]
    if not rows and kind_of(path) == "jsonl":
        first = next((each for each in rows_of(path) if isinstance(each, Problem)), None)
        if first is not None:
            raise first.error(path.name)
    votes: Counter[str] = Counter()
    for _, row in rows:
        votes.update(next(([name] for name, each in FORMATS.items() if each.looks(row)), ()))
    if votes:
        return FORMATS[votes.most_common(1)[0][0]]
    known = ", ".join(FORMATS)
    columns_there = ", ".join(map(str, list(rows[0][1])[:12])) if rows else "none"
    raise InvalidInput(
        f"{path.name} is in no format that is known by its looks (its fields: {columns_there}).",
        code="unknown_format",
        hint=f"Name it with --format ({known}), or say what the columns mean: --map action=COLUMN --map reward=COLUMN.",
    )


def read(path: Path, format: Format, options: Options) -> Iterator[Item]:
    """Every line of the file as what it is: a record, a line without a decision, or a problem."""
    return format.read(rows_of(path), options)
