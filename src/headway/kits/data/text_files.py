"""Text files as other programs write them: byte order marks, Latin-1, semicolons, bounded lines."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
from typing import IO, Any, Protocol

LONGEST = 32 << 20  # characters of one line, or of one row of a table
MOST_COLUMNS = 10_000  # of a table
MOST_EMPTY = 10_000  # empty lines in a row
_MOST_RATIO, _SMALL = 200, 64 << 20  # a packed file may have so many times its size, and this
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_DELIMITERS = ",;\t|"
_BLOCK = 1 << 20


class SupportsRead(Protocol):
    """A file of bytes, packed or not."""

    def read(self, size: int, /) -> bytes: ...


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


def delimiter_of(header: str) -> str:
    """What splits a header into the most names; a comma if nothing does."""

    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))

    def names(delimiter: str) -> int:
        return len(next(csv.reader([header[:_BLOCK]], delimiter=delimiter), []))

    return max(_DELIMITERS, key=names)


class RowTooLong(Exception):
    """A row with more characters than are read into memory."""


class BoundedLines:
    """The lines of a file for one csv.reader; call `start_row` before each row: its lines together are bounded."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._left = LONGEST
        self._empty = 0

    def start_row(self) -> None:
        """The next line begins a row."""
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
        self._empty = 0 if len(line) > 2 or line.strip() else self._empty + 1
        if self._empty > MOST_EMPTY:
            raise csv.Error(f"more than {MOST_EMPTY:,} empty lines follow one another")
        return line


class Unpacked(io.RawIOBase):
    """A gzip file without its compression; an OSError once it has far more bytes than a log that was packed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._unzipped = gzip.GzipFile(fileobj=file, mode="rb")
        self._file = file
        self._most = os.fstat(file.fileno()).st_size * _MOST_RATIO + _SMALL

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        return self._unzipped.seek(place, whence)

    def tell(self) -> int:
        return self._unzipped.tell()

    def readinto(self, buffer: Any, /) -> int:
        data = self._unzipped.read(len(buffer))
        if self._unzipped.tell() > self._most:
            raise OSError(f"it unpacks to more than {self._most:,} bytes")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._unzipped.close()
        self._file.close()
        super().close()
