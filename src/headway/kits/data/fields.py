"""Read one field of a row, or raise an error with the field, the expected value and a remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from headway.nouns import Value, errors

MOST_TEXT = 1_000_000
MOST_NAME = 200
_MOST_VALUES = 10_000
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\Z")
_MISSING = object()


class Wrong(Exception):
    """A field that cannot be used. Readers turn it into a Problem with the line number."""

    def __init__(self, field: str, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.field, self.message, self.cure = field, message, cure


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _get(row: Mapping[str, Any], path: str) -> Any:
    if path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _wrong(path: str, value: object, expected: str, cure: str = "") -> Wrong:
    if value is _MISSING:
        return Wrong(path, f"{path} is missing, expected {expected}.", cure or f"Add {path}, or remove the line.")
    return Wrong(path, f"{path} is {shown(value)}, expected {expected}.", cure or "Correct the line, or remove it.")


def object_of(row: Mapping[str, Any], path: str, *, optional: bool = False) -> dict[str, Any]:
    value = _get(row, path)
    if value is _MISSING or value is None:
        if optional:
            return {}
        raise _wrong(path, value, "an object")
    if not isinstance(value, dict):
        raise _wrong(path, value, "an object")
    return value


def number(row: Mapping[str, Any], path: str, *, optional: bool = False, words: bool = False) -> float | None:
    """A finite number; true and false are 1 and 0. `words` also accepts the texts "0.07" and "true" (events, CSV)."""
    value = _get(row, path)
    if value is _MISSING or value is None or (words and value == ""):
        if optional:
            return None
        raise _wrong(path, value, "a number")
    return finite(path, _parse_word(value) if words and isinstance(value, str) else value)


def finite(path: str, raw: object) -> float:
    if not isinstance(raw, (int, float)):
        raise _wrong(path, raw, "a number")
    try:
        value = float(raw)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise _wrong(path, raw, "a finite number", "Omit the field if the value is unknown.")
    return value


def _parse_word(text: str) -> object:
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        return float(word)
    except ValueError:
        return text


def integer(row: Mapping[str, Any], path: str, *, words: bool = False) -> int | None:
    value = number(row, path, optional=True, words=words)
    if value is None:
        return None
    if value != int(value) or not 0 <= value < 2**53:
        raise _wrong(path, _get(row, path), "a whole number from 0")
    return int(value)


def flag(row: Mapping[str, Any], path: str) -> bool | None:
    value = _get(row, path)
    if value is _MISSING or value is None:
        return None
    if not isinstance(value, bool):
        raise _wrong(path, value, "true or false")
    return value


def text_of(row: Mapping[str, Any], path: str, *, optional: bool = False, most: int = MOST_TEXT) -> str:
    value = _get(row, path)
    if value is _MISSING or value is None:
        if optional:
            return ""
        raise _wrong(path, value, "a text")
    if not isinstance(value, str):
        raise _wrong(path, value, "a text")
    return checked_text(path, value, most)


def checked_text(path: str, text: str, most: int = MOST_TEXT) -> str:
    if len(text) > most:
        raise Wrong(path, f"{path} has {len(text):,} characters, at most {most:,} are allowed.", "Shorten it.")
    if "\0" in text:
        raise Wrong(path, f"{path} contains a NUL character.", "Remove it: databases cannot store one.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Wrong(path, f"{path} contains half of a surrogate pair.", "Write the file as UTF-8.") from None
    return text


def name_of(row: Mapping[str, Any], path: str, *, optional: bool = False) -> str:
    """A short text: an id, a role, the name of a session. Whole numbers are accepted too."""
    value = _get(row, path)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text_of(row, path, optional=optional, most=MOST_NAME)


def moment(row: Mapping[str, Any], path: str, *, optional: bool = False) -> float | None:
    """Seconds since 1970 from ISO 8601 (UTC by default), seconds or milliseconds."""
    value = _get(row, path)
    if value is _MISSING or value is None or value == "":
        if optional:
            return None
        raise _wrong(path, value, "a time", "Write 2026-06-01T12:00:00Z or seconds since 1970.")
    at = parsed_time(value)
    if at is None:
        raise _wrong(path, value, "a time", "Write 2026-06-01T12:00:00Z or seconds since 1970.")
    return at


def parse_time(text: str) -> float:
    """An ISO time as seconds since 1970; a day or a time without a zone is UTC."""
    at = parsed_time(text) if _ISO.match(text) else None
    if at is None:
        raise errors.InvalidInput(
            f"{text[:60]!r} is not a time.", code="bad_time", hint="Write 2026-06-01 or 2026-06-01T12:00:00Z."
        )
    return at


def parsed_time(value: object) -> float | None:
    """The time in seconds since 1970, or None if the value is not a time."""
    if isinstance(value, str):
        if not _ISO.match(value):
            try:
                value = float(value)
            except ValueError:
                return None
        else:
            try:
                read = datetime.fromisoformat(value)
            except ValueError:
                return None
            return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1e6) / 1e6
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e14:
        return None
    return float(value) / 1000.0 if value >= 1e11 else float(value)


def flat(values: Mapping[str, Any], path: str, *, left: list[str], words: bool = False) -> dict[str, Value]:
    """Nested state as numbers, texts and short lists of numbers with dotted names; other fields are added to `left`."""
    flattened: dict[str, Value] = {}
    for key, value in values.items():
        name = str(key)
        if not name or len(name) > MOST_NAME:
            raise Wrong(path, f"{path} has the name {shown(key)}, expected 1 to {MOST_NAME} characters.")
        if value is None:
            continue
        if isinstance(value, dict):
            inner = flat(value, f"{path}.{name}", left=left, words=words)
            flattened.update({f"{name}.{inside}": item for inside, item in inner.items()})
        elif isinstance(value, bool):
            flattened[name] = value
        elif isinstance(value, (int, float)):
            flattened[name] = _exact(f"{path}.{name}", value)
        elif isinstance(value, str):
            parsed = _parse_word(value) if words else value
            flattened[name] = (
                parsed if isinstance(parsed, (bool, float)) else checked_text(f"{path}.{name}", value, 10_000)
            )
            if isinstance(parsed, float) and not math.isfinite(parsed):
                flattened[name] = value
        elif isinstance(value, list) and len(value) <= _MOST_VALUES and all(_plain(number) for number in value):
            flattened[name] = [_exact(f"{path}.{name}", number) for number in value]
        else:
            left.append(f"{path}.{name}")
    return flattened


def _plain(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _exact(path: str, value: float) -> float:
    """Integers stay integers if a float can represent them exactly."""
    checked = finite(path, value)
    return value if isinstance(value, int) and abs(value) < 2**53 else checked


def fields_left(row: Mapping[str, Any], used: Iterable[str]) -> list[str]:
    """Fields of the row that have a value but are not used."""
    known = set(used)
    return [str(name) for name, value in row.items() if name not in known and value is not None]
