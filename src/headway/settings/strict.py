"""A table of headway.toml → a msgspec struct: the struct declares each key once, this reads it strictly.

    class WatchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        interval_s: Annotated[float, Meta(gt=0, le=86_400)] = 30.0

    keys_of(WatchSettings)                                        # ("interval_s",)
    read(WatchSettings, SettingsTable({"interval_s": 0}, …))      # InvalidSettings: … is 0, expected a number above 0 …

Type and `Meta` define a valid value, `Setting` adds what they cannot. Booleans, numbers, text, literals, lists of
text and structs get messages of their own; any other type is converted by msgspec, whose message is given a place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from headway.settings.table import SettingsTable

S = TypeVar("S", bound=Struct)
Special = Callable[[SettingsTable, Mapping[str, Any]], Any]
_NO_SPECIAL: Mapping[str, Special] = MappingProxyType({})
_PLAIN = frozenset({"gt", "ge", "le"})  # bounds that SettingsTable knows how to explain
_META = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Properties of a key besides its type: `Annotated[float, Setting(acts=True)]`."""

    expected: str = ""  # of a required key, for the message that it is missing
    acts: bool = False  # changes how a task acts: part of the configuration that is stored with a decision
    some: bool = False  # only tasks of some kinds have the key: those that name it in `Kind.keys`
    reader: Callable[[SettingsTable, str], Any] | None = None  # a text with its own grammar
    inside: bool = False  # not a key of the file: the table's name


Text = str
Url = Annotated[str, Setting(expected="an address such as http://127.0.0.1:11434/v1", reader=SettingsTable.url)]
Variable = Annotated[str, Setting(reader=SettingsTable.variable)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """One key of a struct, taken apart."""

    name: str
    type: Any  # as annotated, for msgspec
    base: Any  # without Annotated and None
    bounds: Mapping[str, Any]
    setting: Setting = field(default_factory=Setting)
    required: bool = False
    default: Any = None


@lru_cache(maxsize=64)
def fields_of(struct: type[Struct]) -> tuple[SettingField, ...]:
    """The keys of a struct, in the order in which they are declared."""
    return tuple(_field(info) for info in msgspec.structs.fields(struct))


def keys_of(struct: type[Struct]) -> tuple[str, ...]:
    """The names that a table of this struct may have."""
    return tuple(key.name for key in fields_of(struct) if not key.setting.inside)


def _field(info: msgspec.structs.FieldInfo) -> SettingField:
    base, setting, bounds = _apart(info.type)
    if get_origin(base) in (Union, UnionType):
        members = [member for member in get_args(base) if member is not NoneType]
        if len(members) == 1:  # TOML has no null: None only means that the key is absent
            base, inner, more = _apart(members[0])
            setting, bounds = setting or inner, {**more, **bounds}
    return SettingField(
        name=info.name,
        type=info.type,
        base=base,
        bounds=bounds,
        setting=setting or Setting(),
        required=info.required,
        default=info.default,
    )


def _apart(annotated: Any) -> tuple[Any, Setting | None, dict[str, Any]]:
    if get_origin(annotated) is not Annotated:
        return annotated, None, {}
    base, *notes = get_args(annotated)
    setting = next((note for note in reversed(notes) if isinstance(note, Setting)), None)
    bounds = {
        name: getattr(note, name)
        for note in notes
        if isinstance(note, Meta)
        for name in _META
        if getattr(note, name) is not None
    }
    return base, setting, bounds


def read(struct: type[S], table: SettingsTable, special: Mapping[str, Special] = _NO_SPECIAL, **given: Any) -> S:
    """The struct that a table declares. `special` reads keys whose value depends on others, from those read before."""
    values: dict[str, Any] = dict(given)
    for key in fields_of(struct):
        if key.name in given:
            continue
        if key.name in special:
            values[key.name] = special[key.name](table, values)
        elif key.name in table:
            values[key.name] = value_of(table, key)
        elif key.required:
            raise table.missing(key.name, key.setting.expected or _expected(key))
    try:
        return struct(**values)
    except ValueError as error:  # a struct's own __post_init__
        raise table.error((), str(error) or f"what {struct.__name__} allows", None) from None


def value_of(table: SettingsTable, key: SettingField) -> Any:
    """The value of one key, by its type."""
    base, bounds = key.base, key.bounds
    if key.setting.reader is not None:
        return key.setting.reader(table, key.name)
    if not bounds.keys() <= _PLAIN:
        return _converted(table, key)
    if base is bool:
        return table.value(key.name, bool, _expected(key))
    if base in (int, float):
        low, high = bounds.get("gt", bounds.get("ge", -math.inf)), bounds.get("le", math.inf)
        if base is float:
            return table.number(key.name, low=low, high=high, above="gt" in bounds)
        if "gt" not in bounds:
            return table.whole(key.name, low=low, high=high)
    if base is str:
        return table.text(key.name)
    if get_origin(base) is Literal:
        return table.one_of(key.name, get_args(base))
    if base == tuple[str, ...]:
        return table.texts(key.name)
    if isinstance(base, type) and issubclass(base, Struct):
        return read(base, table.inner((key.name,), table.table(key.name), keys_of(base)))
    return _converted(table, key)


def _converted(table: SettingsTable, key: SettingField) -> Any:
    try:
        return msgspec.convert(table.values[key.name], key.type, strict=True)
    except msgspec.ValidationError as error:
        # "Expected `int` >= 3 - at `$[0].a`"
        expected, _, place = str(error).partition(" - at `$")
        path: Sequence[str] = [part for part in place.rstrip("`").replace("[", ".").replace("]", "").split(".") if part]
        expected = expected.removeprefix("Expected ").replace("`", "")
        raise table.error((key.name, *path), expected, None if path else table.values[key.name]) from None


def _expected(key: SettingField) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return names.get(key.base, "a value")
