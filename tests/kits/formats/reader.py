"""Reads a log file in a format of the installed kits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headway.kits.data import (
    Format,
    Item,
    Options,
    Problem,
    Record,
    Records,
    detect as detect_among,
    read as read_items,
)
from headway.nouns.kit import catalogue

__all__ = ["FORMATS", "Write", "detect", "problem", "read", "records"]

Write = Callable[..., Path]

FORMATS: dict[str, Format] = {form.name: form for form in catalogue().all_formats()}


def detect(path: Path) -> Format:
    return detect_among(path, list(FORMATS.values()))


def read(path: Path, form: Format, options: Options) -> Iterator[Item]:
    """Every item, records one by one."""
    for item in read_items(path, form, options):
        yield from item if isinstance(item, Records) else (item,)


def records(path: Path, name: str = "", **options: Any) -> list[Record]:
    rows = list(read(path, FORMATS[name] if name else detect(path), Options(name=path.stem, **options)))
    wrong = [row for row in rows if isinstance(row, Problem)]
    assert not wrong, wrong
    return [row for row in rows if isinstance(row, Record)]


def problem(path: Path, name: str = "", **options: Any) -> Problem:
    (result,) = [
        record
        for record in read(path, FORMATS[name] if name else detect(path), Options(name=path.stem, **options))
        if isinstance(record, Problem)
    ]
    return result
