"""Read the rows of a file: JSON lines, CSV or Parquet, also gzipped. A bad line is a Problem, never an exception.

Strict where data would be lost: NaN, truncated lines, NUL, bytes that are not UTF-8, lines over 32 MB and more than
10,000 columns are reported with their line number. Lenient where nothing is lost: a byte order mark, CRLF, empty lines.
The fields of a CSV file may be separated by commas, semicolons, tabs or bars; except with commas, 0,5 is read as 0.5.
A CSV file may also be UTF-16 or Windows' Latin-1.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from headway.files import open_regular
from headway.kits.data.fields import shown
from headway.kits.data.parquet import batches
from headway.kits.data.records import Problem, Row
from headway.kits.data.text_files import (
    LONGEST,
    MOST_COLUMNS,
    MOST_EMPTY,
    BoundedLines,
    RowTooLong,
    Unpacked,
    delimiter_of,
    encoding_of,
)
from headway.nouns import errors

Kind = Literal["jsonl", "csv", "parquet"]
_BOM = b"\xef\xbb\xbf"
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+\Z")
_decode = msgspec.json.Decoder().decode


def kind_of(path: Path) -> Kind:
    """The kind of a file, by its name."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    return "csv" if name.endswith((".csv", ".tsv")) else "jsonl"


def rows_of(path: Path, kind: Kind | None = None) -> Iterator[Row | Problem]:
    """Every row of the file with its number, counted from 1 (in CSV the header is line 1)."""
    read = {"jsonl": _json_lines, "csv": _csv_lines, "parquet": _parquet_rows}[kind or kind_of(path)]
    return read(path)


def digest_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """SHA-256 of the file on disk."""
    digest = hashlib.sha256()
    with _translated(path), os.fdopen(open_regular(path, follow=True), "rb") as file:
        done = 0
        while block := file.read(1 << 20):
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress(done)
    return digest.hexdigest()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise
        raise errors.InvalidInput(
            f"{str(path)!r} cannot be read: {error.strerror or error}.", code="bad_import_file", hint="Check the path."
        ) from error


def _open(path: Path) -> IO[bytes]:
    with _translated(path):
        file = os.fdopen(open_regular(path, follow=True), "rb")
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return io.BufferedReader(Unpacked(file), 1 << 16) if zipped else file


def _broken(line: int, error: Exception) -> Problem:
    return Problem(line, "", f"the compressed data is damaged ({error}).", "Download the file again.")


# -- JSON lines


def _json_lines(path: Path) -> Iterator[Row | Problem]:
    with _open(path) as file:
        line = empty = 0
        while True:
            line += 1
            try:
                raw = file.readline(LONGEST + 1)
                if len(raw) > LONGEST:
                    while raw and not raw.endswith(b"\n"):
                        raw = file.readline(LONGEST)
                    yield Problem(line, "", f"the line is longer than {LONGEST:,} bytes.", "Write one object per line.")
                    continue
            except (EOFError, OSError, zlib.error) as error:
                yield _broken(line, error)
                return
            if not raw:
                return
            if line == 1:
                if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    yield Problem(line, "", "the file is UTF-16.", "Save it as UTF-8.")
                    return
                raw = raw.removeprefix(_BOM)
            raw = raw.strip(b" \t\r\n")
            empty = 0 if raw else empty + 1
            if empty > MOST_EMPTY:
                yield Problem(
                    line, "", f"more than {MOST_EMPTY:,} lines are empty.", "Remove them (grep -v '^$' does)."
                )
                return
            if raw:
                yield _parsed(line, raw)


def _parsed(line: int, raw: bytes) -> Row | Problem:
    try:
        parsed = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        return Problem(line, "", f"{_start(raw)} is not JSON: {_why(raw, error)}", _cure(raw))
    if not isinstance(parsed, dict):
        return Problem(
            line, "", f"{_start(raw)} is JSON, but not an object.", "Write one object {…} per line (jq -c '.[]' does)."
        )
    return line, parsed


def _start(raw: bytes) -> str:
    return shown(raw[:60].decode("utf-8", "replace"))


def _why(raw: bytes, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply."
    if b"\0" in raw:
        return "it contains a NUL byte."
    try:
        raw.decode()
    except UnicodeDecodeError as wrong:
        return f"byte {wrong.start} is not UTF-8."
    if "truncated" in str(error):
        return "it is truncated."
    return f"{str(error).removeprefix('JSON is malformed: ').rstrip('.')}."


def _cure(raw: bytes) -> str:
    if any(word in raw for word in (b"NaN", b"Infinity")):
        return "JSON has no NaN or Infinity: write null for an unknown value."
    if raw.startswith(b"["):
        return "Write one object per line (jq -c '.[]' turns an array into lines)."
    return "Correct the line, or remove it; --on-error skip skips and lists such lines."


# -- CSV


def _csv_lines(path: Path) -> Iterator[Row | Problem]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    with _open(path) as raw, io.TextIOWrapper(raw, encoding=_encoding(path), newline="") as file:
        delimiter = _delimiter(path, file)
        lines = BoundedLines(file)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        header: list[str] | None = None
        start = 1
        while True:
            lines.start_row()
            try:
                cells = next(reader, None)
            except _UNREADABLE_CSV as error:
                yield _csv_problem(start, error)
                return  # the start of the next line is unknown
            line, start = start, reader.line_num + 1
            if cells is None:
                return
            if header is None:
                header = [cell.strip() for cell in cells[: MOST_COLUMNS + 1]]
                problem = _header_problem(line, header, len(cells))
                if problem is not None:
                    yield problem
                    return
            elif cells and len(cells) != len(header):
                yield Problem(
                    line,
                    "",
                    f"{len(cells)} fields, the header has {len(header)}.",
                    "Quote fields that contain commas; leave unknown fields empty.",
                )
            elif cells:
                if delimiter != ",":
                    cells = [cell.replace(",", ".") if _DECIMAL_COMMA.match(cell) else cell for cell in cells]
                yield line, {name: None if cell == "" else cell for name, cell in zip(header, cells, strict=True)}


_UNREADABLE_CSV = (csv.Error, UnicodeDecodeError, RowTooLong, EOFError, OSError, zlib.error)


def _csv_problem(line: int, error: Exception) -> Problem:
    if isinstance(error, csv.Error):
        return Problem(line, "", f"the line is not CSV: {error}.", "Quote fields that contain commas or quotes.")
    if isinstance(error, UnicodeDecodeError):
        return Problem(line, "", "the file is not UTF-8 from about here on.", "Save it as UTF-8.")
    if isinstance(error, RowTooLong):
        return Problem(
            line,
            "",
            f"the row is longer than {LONGEST:,} characters.",
            "Close every quote; shorten long fields.",
        )
    return _broken(line, error)


def _header_problem(line: int, header: list[str], count: int) -> Problem | None:
    if count > MOST_COLUMNS:
        return Problem(
            line,
            "",
            f"the header has {count:,} columns, at most {MOST_COLUMNS:,} are allowed.",
            "Remove the columns that say nothing about the decision, or put lists of numbers into one column.",
        )
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        return Problem(line, "", f"the column {min(twice)!r} appears twice.", "Name each column once.")
    return None


def _encoding(path: Path) -> str:
    """UTF-8, UTF-16, or Windows' Latin-1; damaged files are reported when they are read."""
    try:
        with _open(path) as file:
            return encoding_of(file)
    except (EOFError, OSError, zlib.error):
        return "utf-8"


def _delimiter(path: Path, file: IO[str]) -> str:
    """A tab for .tsv, otherwise what splits the header into the most names; the file is left at its start."""
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    try:
        delimiter = delimiter_of(file.readline(LONGEST))
        file.seek(0)
    except _UNREADABLE_CSV:  # reading reports it
        return ","
    return delimiter


# -- Parquet


def _parquet_rows(path: Path) -> Iterator[Row | Problem]:
    with _translated(path), os.fdopen(open_regular(path, follow=True), "rb") as file:
        row = 0
        try:
            for batch in batches(file):
                for record in batch.to_pylist():
                    row += 1
                    yield row, {name: _plain(value) for name, value in record.items()}
        except (ValueError, OverflowError, MemoryError) as error:
            yield Problem(row + 1, "", f"the file cannot be read as Parquet: {error}", "Check the file.")


def _plain(value: Any) -> Any:
    """Arrow values as JSON values."""
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
