"""A table of headway.toml with its place in the file: every error about a setting is made here.

Each message names the file, the path of the key, the value and what was expected. A value that may be a secret is never
repeated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from headway.nouns import errors

Choice = TypeVar("Choice", bound=str)
T = TypeVar("T")
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}\Z")  # valid in a path, a URL and a table heading
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_URL = "an address such as http://127.0.0.1:11434/v1"


def quoted(value: object) -> str:
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


class SettingsTable:
    """One table of the file, with the keys that it may have.

    table = SettingsTable({"floor": 0.1}, "headway.toml", ("tasks", "route"), known=("floor",))
    table.number("floor", low=0, high=0.5)    # 0.1
    """

    def __init__(
        self, values: Mapping[str, Any], file: str, path: Sequence[str], known: Iterable[str], *, hint: str = ""
    ) -> None:
        self.values = values
        self._file = file
        self._path = tuple(path)
        for key in values:
            if key not in known:
                # A value that is not understood may be a secret: only its key is named.
                raise errors.InvalidSettings(
                    f"{file}: there is no setting {self.at(key)}.",
                    code="settings_unknown_key",
                    hint=" ".join(filter(None, (errors.did_you_mean(key, known), hint))),
                )

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def at(self, *keys: str) -> str:
        """The path of a key in this table, as TOML writes it."""
        return ".".join(part if _BARE.match(part) else f'"{part}"' for part in (*self._path, *keys))

    # -- errors

    def error(
        self, keys: str | Sequence[str], expected: str, value: object = ..., hint: str = ""
    ) -> errors.InvalidSettings:
        """The error that names the place, the value (None: not repeated) and what was expected."""
        path = self.at(keys) if isinstance(keys, str) else self.at(*keys)
        if value is ...:
            value = self.values.get(keys) if isinstance(keys, str) else None
        seen = "cannot be used" if value is None else f"is {quoted(value)}"
        end = "" if expected[-1] in ".?" else "."
        return errors.InvalidSettings(
            f"{self._file}: {path} {seen}, expected {expected}{end}", code="settings_bad_value", hint=hint
        )

    def within(self, keys: Sequence[str], error: errors.InvalidSettings) -> errors.InvalidSettings:
        """An error from another room, with the place in this file before it."""
        return errors.InvalidSettings(
            f"{self._file}: {self.at(*keys)}: {error.message}", code=error.code, hint=error.hint
        )

    def missing(self, key: str, expected: str) -> errors.InvalidSettings:
        return errors.InvalidSettings(
            f"{self._file}: {self.at(key)} is missing, expected {expected}.", code="settings_missing_key"
        )

    def misplaced(self, key: str, kinds: Sequence[str], kind: str) -> errors.InvalidSettings:
        """A key that tasks of another kind have."""
        right = " or ".join(map(quoted, kinds))
        return errors.InvalidSettings(
            f"{self._file}: {self.at(key)} is for tasks with kind = {right}; this one has kind = {quoted(kind)}.",
            code="settings_bad_value",
        )

    # -- values, each by the type that it must have

    def value(self, key: str, kind: type[T], expected: str) -> T:
        """The value as that type, by msgspec: a whole number is a number, true is neither."""
        try:
            return msgspec.convert(self.values[key], kind)
        except (msgspec.ValidationError, OverflowError):
            raise self.error(key, expected) from None

    def number(self, key: str, *, low: float = -math.inf, high: float = math.inf, above: bool = False) -> float:
        """A finite number from low (or above it) to high."""
        expected = _span("a number", low, high, above=above)
        number = self.value(key, float, expected)
        if not math.isfinite(number) or not low <= number <= high or (above and number <= low):
            raise self.error(key, expected)
        return number

    def whole(self, key: str, *, low: float = -math.inf, high: float = math.inf) -> int:
        """A whole number from low to high."""
        expected = _span("a whole number", low, high)
        whole = self.value(key, int, expected)
        if not low <= whole <= high:
            raise self.error(key, expected)
        return whole

    def text(self, keys: str | Sequence[str], value: object = ...) -> str:
        """Text: not empty, at most 500 characters, no control characters."""
        if value is ...:
            assert isinstance(keys, str), "a value deeper in the table is given"
            value = self.values[keys]
        if not isinstance(value, str):
            raise self.error(keys, 'text in quotes, such as "name"', value)
        if not value.strip() or len(value) > 500 or any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
            raise self.error(keys, "text of 1 to 500 characters, not all blank, without control characters", value)
        return value

    def passage(self, key: str) -> str:
        """Text of several lines, which may be empty."""
        value = self.values[key]
        if not isinstance(value, str) or len(value) > 100_000 or "\0" in value:
            raise self.error(key, "text of at most 100,000 characters", value if isinstance(value, str) else ...)
        return value

    def one_of(self, key: str, choices: Sequence[Choice], otherwise: Callable[[], str] = str) -> Choice:
        """One of several words. `otherwise` gives the hint for an unknown word."""
        value = self.values[key]
        for choice in choices:
            if value == choice:
                return choice
        listed = ", ".join(f'"{choice}"' for choice in choices)
        hint = errors.did_you_mean(value, choices) if isinstance(value, str) else ""
        raise self.error(key, f"one of {listed}", value, hint if hint.startswith("Did") else otherwise())

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of different texts."""
        value = self.values[key]
        if not isinstance(value, list):
            raise self.error(key, 'a list of texts, such as ["small", "large"]', value)
        texts = tuple(self.text((key, str(place)), item) for place, item in enumerate(value))
        twice = next((text for text in texts if texts.count(text) > 1), None)
        if twice is not None:
            raise self.error(key, f"each name once, and {twice!r} is there twice", value)
        return texts

    def url(self, key: str) -> str:
        """An http or https address. It is never repeated in a message: it may contain a password."""
        value = self.values[key]
        if not isinstance(value, str):
            raise self.error(key, _URL, value)
        try:
            parts = urlsplit(value)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise self.error(key, _URL, None) from None
        if parts.scheme not in ("http", "https"):
            raise self.error(key, f"{_URL}: only http and https are supported", None)
        if not host or any(letter.isspace() or ord(letter) < 32 for letter in value):
            raise self.error(key, _URL, None)
        if "@" in parts.netloc:
            raise self.error(
                key, "an address without user or password", None, hint="Name a variable with key_env instead."
            )
        if parts.query or parts.fragment:
            raise self.error(key, "an address without '?' and '#'", None)
        return value.rstrip("/")

    def variable(self, key: str) -> str:
        """The name of an environment variable; a pasted key is refused without being repeated."""
        value = self.values[key]
        if not isinstance(value, str) or _VARIABLE.match(value) is None:
            expected = "the name of an environment variable, such as LARGE_API_KEY"
            raise self.error(key, expected, None, "The key itself is never written here.")
        return value

    # -- tables in this one

    def table(self, key: str) -> Mapping[str, Any]:
        """A table under this one; empty if there is none."""
        value = self.values.get(key, {})
        if not isinstance(value, Mapping):
            raise self.error(key, "a table", value)
        return value

    def below(self, key: str, name: str, known: Iterable[str], *, hint: str = "") -> SettingsTable:
        """The table `key.name`."""
        value = self.table(key)[name]
        if not isinstance(value, Mapping):
            raise self.error((key, name), f"a table with {', '.join(known)}", value)
        return SettingsTable(value, self._file, (*self._path, key, name), known, hint=hint)

    def named(self, key: str, known: Iterable[str], *, hint: str = "") -> Iterator[tuple[str, SettingsTable]]:
        """The tables `key.NAME`, with their names."""
        for name in self.table(key):
            if NAME.match(name) is None:
                expected = "a name of at most 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit"
                raise self.error((key, name), expected, None)
            yield name, self.below(key, name, known, hint=hint)

    def filled(self, defaults: Mapping[str, Any]) -> SettingsTable:
        """This table with defaults for what it omits."""
        values = {**defaults, **self.values}
        return SettingsTable(values, self._file, self._path, values)

    def inner(self, keys: Sequence[str], value: Mapping[str, Any], known: Iterable[str]) -> SettingsTable:
        """A table written inline."""
        return SettingsTable(value, self._file, (*self._path, *keys), known)


def _span(what: str, low: float, high: float, *, above: bool = False) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"{what} above {low:g} and up to {high:g}" if above else f"{what} from {low:g} to {high:g}"
    if math.isfinite(low):
        return f"{what} above {low:g}" if above else f"{what} of {low:g} or more"
    if math.isfinite(high):
        return f"{what} up to {high:g}"
    return f"a finite {what[2:]}" if what == "a number" else what
