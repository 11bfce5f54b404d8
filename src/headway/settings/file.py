"""The text of headway.toml: read from a folder and parsed, with errors that point at a line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from headway.files import read_regular
from headway.nouns import errors

FILE = "headway.toml"
_PLACE = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)\Z")
_TABLE = re.compile(r"\s*\[+([^\[\]]+)\]+\s*(?:#.*)?\Z")
_DIGITS = re.compile(r"[0-9_]{1000}")
_MOST_BITS = 10_000  # of a whole number: Python prints at most 4,300 digits
_TOO_LARGE = "A whole number has more than 3,000 digits"


def example() -> str:
    """A commented file that loads as it is; every commented-out setting loads too once it is uncommented."""
    return read_regular(Path(__file__).with_name("example.toml")).decode()


def settings_text(folder: Path) -> tuple[str, Path | None]:
    """The text of a project's file, and its path; empty text and None if there is no file."""
    file = folder / FILE
    try:
        content = read_regular(file)
    except (FileNotFoundError, NotADirectoryError):
        return "", None
    except OSError as error:
        raise errors.InvalidSettings(
            f"{file} cannot be read: {error.strerror}.",
            code="settings_unreadable",
            hint="Check what it is and who may read it.",
        ) from None
    try:
        return content.decode("utf-8-sig"), file
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise errors.InvalidSettings(
            f"{file} is not UTF-8 text: byte {content[error.start]:#04x} in line {line}.",
            code="settings_bad_toml",
            hint="Save it as UTF-8.",
        ) from None


def settings_lines(folder: Path) -> tuple[Path | None, list[tuple[int, str, str]]]:
    """(path, lines) of a project's file; a line is its number, its table and its text."""
    text, file = settings_text(folder)
    lines, table = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        heading = _TABLE.match(line)
        table = heading[1] if heading else table
        lines.append((number, table, line))
    return file, lines


def toml(text: str, name: str) -> dict[str, Any]:
    """The tables of a text; a syntax error gives line and column."""
    try:
        tables = tomllib.loads(text)
        _check_integers(tables, name)
        return tables
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE.search(message)
        lines = text.split("\n")
        line, column = len(lines), len(lines[-1]) + 1
        if place is not None:
            message = message[: place.start()]
            if place[1]:
                line, column = int(place[1]), int(place[2])
    except RecursionError:
        message, line, column = "Nested too deeply", 1, 1
    except ValueError:  # Python refuses to read so many digits, and does not say where
        place = _DIGITS.search(text)
        start = place.start() if place is not None else 0
        message = _TOO_LARGE
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    raise errors.InvalidSettings(
        f"{name}:{line}:{column}: {message} (line {line}, column {column}).",
        code="settings_bad_toml",
        hint="Put text in quotes, lists in [ ] and inline tables in { }.",
    )


def _check_integers(tables: dict[str, Any], name: str) -> None:
    """Python reads hexadecimal numbers of any length, but cannot print them in a message."""
    pending: list[tuple[str, Any]] = [("", tables)]
    while pending:
        key, value = pending.pop()
        if isinstance(value, dict):
            pending += [(f"{key}.{inner}" if key else inner, held) for inner, held in value.items()]
        elif isinstance(value, list):
            pending += [(key, held) for held in value]
        elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise errors.InvalidSettings(f"{name}: {key}: {_TOO_LARGE}.", code="settings_bad_value")
