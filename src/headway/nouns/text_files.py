"""Text files as other programs write them: byte order marks, Latin-1, semicolons, decimal commas, words for "no value".

form = text_form(path)         # TextForm(encoding="latin-1", delimiter=";")
form.told                      # "read as Latin-1, with ';' between fields": what was taken for granted
"""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from headway.nouns.errors import InvalidInput

__all__ = [
    "EMPTY_WORDS",
    "LONGEST",
    "MOST_COLUMNS",
    "BoundedLines",
    "RowTooLong",
    "TextForm",
    "encoding_of",
    "open_text",
    "text_form",
]

EMPTY_WORDS = frozenset({"", "na", "n/a", "null", "none", "nil", "\\n", "-"})  # no value, in any case of letters
LONGEST = 32 << 20  # characters of one line, or of one row of a table
MOST_COLUMNS = 10_000  # of a table
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DELIMITERS = ",;\t|"
_BLOCK = 1 << 20


class SupportsRead(Protocol):
    """A file of bytes, packed or not."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """The encoding of a text file, and what stands between the fields of a table."""

    encoding: str = "utf-8"
    delimiter: str = ","

    @property
    def told(self) -> str:
        """What is unusual about it, in words; empty if nothing is."""
        names = {"cp1252": "Latin-1 (it is not UTF-8)", "utf-16": "UTF-16"}
        parts = [f"as {names[self.encoding]}"] if self.encoding in names else []
        parts += [] if self.delimiter == "," else [f"with {self.delimiter!r} between fields"]
        return f"the file was read {', '.join(parts)}" if parts else ""


def open_text(path: Path, encoding: str = "utf-8-sig") -> IO[str]:
    """A text file for reading, unpacked if it ends in .gz."""
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding=encoding, newline="")
        return path.open("r", encoding=encoding, newline="")
    except OSError as error:
        raise InvalidInput(
            f"{str(path)!r} cannot be read: {error.strerror}.", code="bad_log_file", hint="Check the path."
        ) from error


def text_form(path: Path, *, table: bool = True) -> TextForm:
    """The form of a file, from its bytes; `table`: it has a header of column names."""
    encoding = _encoding(path)
    if not table:
        return TextForm(encoding=encoding)
    with open_text(path, encoding) as file:
        head = file.readline(_BLOCK)
    return TextForm(encoding=encoding, delimiter=_delimiter(head))


def _encoding(path: Path) -> str:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return encoding_of(file)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"{str(path)!r} cannot be read: {why}.", code="bad_log_file", hint="Check the path."
        ) from error


def encoding_of(file: SupportsRead) -> str:
    """UTF-8 if every byte of a file is, else Windows' Latin-1; what has a mark at its start is what the mark says."""
    block = file.read(_BLOCK)
    for mark, name in _MARKS:
        if block.startswith(mark):
            return name
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block:
            decoder.decode(block)
            block = file.read(_BLOCK)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _delimiter(head: str) -> str:
    """What splits the header into the most names; a comma if nothing does."""

    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))

    def names(delimiter: str) -> int:
        return len(next(csv.reader([head], delimiter=delimiter), []))

    return max(_DELIMITERS, key=names)


class RowTooLong(Exception):
    """A row with more characters than are read into memory."""


class BoundedLines:
    """The lines of a file for one csv.reader; call `start_row` before each row: its lines together are bounded."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._left = LONGEST

    def start_row(self) -> None:
        self._left = LONGEST

    def __iter__(self) -> BoundedLines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(self._left + 1)
        if not line:
            raise StopIteration
        self._left -= len(line)
        if self._left < 0:
            raise RowTooLong
        return line
