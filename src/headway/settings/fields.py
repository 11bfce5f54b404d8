"""Reading a table strictly: each key is taken by the type it must have, and what nobody took is an error.

Every message names the file, the path of the key, the value and what was expected. Values of keys that may hold a
secret are never repeated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from headway.nouns.errors import InvalidSettings, did_you_mean

__all__ = ["Table", "shown"]

Choice = TypeVar("Choice", bound=str)
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def shown(value: object) -> str:
    """The value as TOML writes it, short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = '"' + value.encode("unicode_escape").decode() + '"'
    elif isinstance(value, Mapping):
        text = "a table"
    else:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"


class Table:
    """One table of the file, with the keys that it may have.

    table = Table({"floor": 0.1}, "headway.toml", ("tasks", "route"), known=("floor",))
    table.number("floor", 0.02, low=0, high=0.5)    # 0.1
    """

    def __init__(
        self, values: Mapping[str, Any], file: str, path: Sequence[str], known: Iterable[str], *, hint: str = ""
    ) -> None:
        self._values = values
        self._file = file
        self._path = tuple(path)
        for key in values:
            if key not in known:
                # A value that is not understood may be a secret: only its key is named.
                raise InvalidSettings(
                    f"{file}: there is no setting {self.at(key)}.",
                    code="settings_unknown_key",
                    hint=" ".join(filter(None, (did_you_mean(key, known), hint))),
                )

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def raw(self, key: str) -> Any:
        return self._values[key]

    def at(self, *keys: str) -> str:
        """The path of a key in this table, as TOML writes it."""
        parts = (*self._path, *keys)
        return ".".join(each if _BARE.match(each) else '"' + each + '"' for each in parts)

    def error(self, keys: str | Sequence[str], expected: str, value: object = ..., hint: str = "") -> InvalidSettings:
        """The error that names the place, the value (unless it is left out) and what was expected."""
        path = self.at(keys) if isinstance(keys, str) else self.at(*keys)
        if value is ...:
            value = self._values.get(keys) if isinstance(keys, str) else None
        seen = "cannot be used" if value is None else f"is {shown(value)}"
        end = "" if expected[-1] in ".?" else "."
        return InvalidSettings(
            f"{self._file}: {path} {seen}, expected {expected}{end}", code="settings_bad_value", hint=hint
        )

    def within(self, keys: Sequence[str], error: InvalidSettings) -> InvalidSettings:
        """Another room's error, with the place in this file before it."""
        return InvalidSettings(f"{self._file}: {self.at(*keys)}: {error.message}", code=error.code, hint=error.hint)

    def missing(self, key: str, expected: str) -> InvalidSettings:
        return InvalidSettings(
            f"{self._file}: {self.at(key)} is missing, expected {expected}.", code="settings_missing_key"
        )

    def number(
        self, key: str, default: float, *, low: float = -math.inf, high: float = math.inf, above: bool = False
    ) -> float:
        """A finite number from low (or above it) to high."""
        if key not in self._values:
            return default
        value = self._values[key]
        expected = _span("a number", low, high, above)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, expected)
        try:
            found = float(value)
        except OverflowError:
            raise self.error(key, expected) from None
        if not math.isfinite(found) or not low <= found <= high or (above and found <= low):
            raise self.error(key, expected)
        return found

    def whole(self, key: str, default: int, *, low: int, high: int) -> int:
        """A whole number from low to high."""
        if key not in self._values:
            return default
        value = self._values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(key, _span("a whole number", low, high, False))
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false")
        return value

    def text(self, key: str, default: str) -> str:
        """Words: not empty, at most 500 characters, no control characters."""
        if key not in self._values:
            return default
        return self.words(key, self._values[key])

    def words(self, keys: str | Sequence[str], value: object) -> str:
        """A value somewhere in this table, as words."""
        if not isinstance(value, str):
            raise self.error(keys, 'text in quotes, such as "name"', value)
        if not value.strip() or len(value) > 500 or any(ord(each) < 32 or ord(each) == 127 for each in value):
            raise self.error(keys, "text that is not empty, at most 500 characters without control characters", value)
        return value

    def one_of(self, key: str, choices: Sequence[Choice], default: Choice) -> Choice:
        """One of some words."""
        if key not in self._values:
            return default
        value = self._values[key]
        for each in choices:
            if value == each:
                return each
        listed = ", ".join(f'"{each}"' for each in choices)
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise self.error(key, f"one of {listed}", value, hint if hint.startswith("Did") else "")

    def words_list(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of different words."""
        if key not in self._values:
            return default
        value = self._values[key]
        if not isinstance(value, list):
            raise self.error(key, 'a list of texts, such as ["small", "large"]', value)
        found = tuple(self.words((key, str(place)), each) for place, each in enumerate(value))
        twice = next((each for each in found if found.count(each) > 1), None)
        if twice is not None:
            raise self.error(key, f"different names, and {twice!r} stands there twice", value)
        return found

    def table(self, key: str) -> Mapping[str, Any]:
        """A table under this one; empty where there is none."""
        value = self._values.get(key, {})
        if not isinstance(value, Mapping):
            raise self.error(key, "a table", value)
        return value

    def below(self, key: str, name: str, known: Iterable[str], *, hint: str = "") -> Table:
        """The table `key.name`, to be read in turn."""
        value = self.table(key)[name]
        if not isinstance(value, Mapping):
            raise self.error((key, name), f"a table with {', '.join(known)}", value)
        return Table(value, self._file, (*self._path, key, name), known, hint=hint)

    def inner(self, keys: Sequence[str], value: Mapping[str, Any], known: Iterable[str]) -> Table:
        """A table written inline."""
        return Table(value, self._file, (*self._path, *keys), known)

    def url(self, key: str) -> str:
        """An http or https address. It is never repeated in a message: it may hold a password."""
        expected = "an address such as http://127.0.0.1:11434/v1"
        if key not in self._values:
            raise self.missing(key, expected)
        value = self._values[key]
        if not isinstance(value, str):
            raise self.error(key, expected, value)
        try:
            parts = urlsplit(value)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise self.error(key, expected, None) from None
        if parts.scheme not in ("http", "https"):
            raise self.error(key, f"{expected}: only http and https are spoken", None)
        if not host or any(each.isspace() or ord(each) < 32 for each in value):
            raise self.error(key, expected, None)
        if "@" in parts.netloc:
            raise self.error(
                key, "an address without user or password", None, hint="Name a variable with key_env instead."
            )
        if parts.query or parts.fragment:
            raise self.error(key, "an address without '?' and '#'", None)
        return value.rstrip("/")

    def variable(self, key: str) -> str:
        """The name of an environment variable; a pasted key is refused without being repeated."""
        if key not in self._values:
            return ""
        value = self._values[key]
        if not isinstance(value, str) or _VARIABLE.match(value) is None:
            raise self.error(
                key,
                "the name of an environment variable, such as LARGE_API_KEY",
                None,
                "The key itself is never written here.",
            )
        return value


def _span(what: str, low: float, high: float, above: bool) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"{what} above {low:g} and up to {high:g}" if above else f"{what} from {low:g} to {high:g}"
    if math.isfinite(low):
        return f"{what} above {low:g}" if above else f"{what} of {low:g} or more"
    return f"a finite {what[2:]}"
