"""Reads one field of a row, or says which field is wrong, what was expected and what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from headway.nouns.records import Value

__all__ = [
    "Wrong",
    "checked_text",
    "fields_left",
    "finite",
    "flag",
    "flat",
    "integer",
    "moment",
    "name_of",
    "number",
    "object_of",
    "parsed_time",
    "shown",
    "text_of",
]

_MOST_TEXT = 1_000_000
_MOST_NAME = 200
_MOST_VALUES = 10_000
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\Z")
_MISSING = object()


class Wrong(Exception):
    """A field that cannot be used. Readers turn it into a Problem with the line's number."""

    def __init__(self, field: str, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.field, self.message, self.cure = field, message, cure


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _get(row: Mapping[str, Any], path: str) -> Any:
    if path in row:
        return row[path]
    found: Any = row
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _MISSING
        found = found[part]
    return found


def _wrong(path: str, value: object, expected: str, cure: str = "") -> Wrong:
    if value is _MISSING:
        return Wrong(path, f"{path} is missing, expected {expected}.", cure or f"Add {path}, or leave the line out.")
    return Wrong(path, f"{path} is {shown(value)}, expected {expected}.", cure or "Correct the line, or leave it out.")


def object_of(row: Mapping[str, Any], path: str, *, optional: bool = False) -> dict[str, Any]:
    found = _get(row, path)
    if found is _MISSING or found is None:
        if optional:
            return {}
        raise _wrong(path, found, "an object")
    if not isinstance(found, dict):
        raise _wrong(path, found, "an object")
    return found


def number(row: Mapping[str, Any], path: str, *, optional: bool = False, words: bool = False) -> float | None:
    """A finite number; true and false are 1 and 0. `words` also reads "0.07" and "true" (events, CSV)."""
    found = _get(row, path)
    if found is _MISSING or found is None or (words and found == ""):
        if optional:
            return None
        raise _wrong(path, found, "a number")
    return finite(path, _spoken(found) if words and isinstance(found, str) else found)


def finite(path: str, found: object) -> float:
    if not isinstance(found, (int, float)):
        raise _wrong(path, found, "a number")
    try:
        value = float(found)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise _wrong(path, found, "a finite number", "Leave the field out where the value is not known.")
    return value


def _spoken(text: str) -> object:
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        return float(word)
    except ValueError:
        return text


def integer(row: Mapping[str, Any], path: str, *, words: bool = False) -> int | None:
    found = number(row, path, optional=True, words=words)
    if found is None:
        return None
    if found != int(found) or not 0 <= found < 2**53:
        raise _wrong(path, _get(row, path), "a whole number from 0")
    return int(found)


def flag(row: Mapping[str, Any], path: str) -> bool | None:
    found = _get(row, path)
    if found is _MISSING or found is None:
        return None
    if not isinstance(found, bool):
        raise _wrong(path, found, "true or false")
    return found


def text_of(row: Mapping[str, Any], path: str, *, optional: bool = False, most: int = _MOST_TEXT) -> str:
    found = _get(row, path)
    if found is _MISSING or found is None:
        if optional:
            return ""
        raise _wrong(path, found, "a text")
    if not isinstance(found, str):
        raise _wrong(path, found, "a text")
    return checked_text(path, found, most)


def checked_text(path: str, found: str, most: int = _MOST_TEXT) -> str:
    if len(found) > most:
        raise Wrong(path, f"{path} has {len(found):,} characters, at most {most:,} are possible.", "Shorten it.")
    if "\0" in found:
        raise Wrong(path, f"{path} holds a NUL character.", "Remove it: databases cannot store one.")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Wrong(path, f"{path} holds half of a surrogate pair.", "Write the file as UTF-8.") from None
    return found


def name_of(row: Mapping[str, Any], path: str, *, optional: bool = False) -> str:
    """A short text: an id, a role, the name of a session. Whole numbers are names too."""
    found = _get(row, path)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return text_of(row, path, optional=optional, most=_MOST_NAME)


def moment(row: Mapping[str, Any], path: str, *, optional: bool = False) -> float | None:
    """Seconds since 1970 from ISO 8601 (UTC unless it says otherwise), seconds or milliseconds."""
    found = _get(row, path)
    if found is _MISSING or found is None or found == "":
        if optional:
            return None
        raise _wrong(path, found, "a time", "Write 2026-06-01T12:00:00Z or seconds since 1970.")
    at = parsed_time(found)
    if at is None:
        raise _wrong(path, found, "a time", "Write 2026-06-01T12:00:00Z or seconds since 1970.")
    return at


def parsed_time(found: object) -> float | None:
    """The time that a value says, if it says one."""
    if isinstance(found, str):
        if not _ISO.match(found):
            try:
                found = float(found)
            except ValueError:
                return None
        else:
            try:
                read = datetime.fromisoformat(found)
            except ValueError:
                return None
            return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1e6) / 1e6
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < 1e14:
        return None
    return float(found) / 1000.0 if found >= 1e11 else float(found)


def flat(values: Mapping[str, Any], path: str, *, left: list[str], words: bool = False) -> dict[str, Value]:
    """Nested state as our kind: numbers, texts, short lists of numbers under dotted names; `left` gets the rest."""
    found: dict[str, Value] = {}
    for key, value in values.items():
        name = str(key)
        if not name or len(name) > _MOST_NAME:
            raise Wrong(path, f"{path} has the name {shown(key)}, expected 1 to {_MOST_NAME} characters.")
        if value is None:
            continue
        if isinstance(value, dict):
            inner = flat(value, f"{path}.{name}", left=left, words=words)
            found.update({f"{name}.{inside}": each for inside, each in inner.items()})
        elif isinstance(value, bool):
            found[name] = value
        elif isinstance(value, (int, float)):
            found[name] = _kept(f"{path}.{name}", value)
        elif isinstance(value, str):
            spoken = _spoken(value) if words else value
            found[name] = spoken if isinstance(spoken, (bool, float)) else checked_text(f"{path}.{name}", value, 10_000)
            if isinstance(spoken, float) and not math.isfinite(spoken):
                found[name] = value
        elif isinstance(value, list) and len(value) <= _MOST_VALUES and all(_plain(each) for each in value):
            found[name] = [_kept(f"{path}.{name}", each) for each in value]
        else:
            left.append(f"{path}.{name}")
    return found


def _plain(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _kept(path: str, value: float) -> float:
    """Whole numbers stay whole where a float holds them exactly."""
    checked = finite(path, value)
    return value if isinstance(value, int) and abs(value) < 2**53 else checked


def fields_left(row: Mapping[str, Any], used: Iterable[str]) -> list[str]:
    """Fields of the row that nobody reads, where they say something."""
    known = set(used)
    return [str(name) for name, value in row.items() if name not in known and value is not None]
