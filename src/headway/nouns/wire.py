"""Records as JSON, the same for HTTP and for `--json`: a dataclass is written as its fields, in their order.

since: Time                               # seconds inside, RFC 3339 in JSON
reply: IfKnown[ReplyText] = None          # no key while it is None
evidence: Internal[Evidence]              # never in JSON
@served
def running(self) -> bool: ...            # a property that JSON has after the fields

wire_name = "PolicyRow"                   # what openapi.json calls it, if not by its class

document(status)                          # plain values: dicts, lists, texts and numbers
converter(TaskStatus)                     # what turns such a record into values that msgspec encodes
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["IfKnown", "Internal", "Time", "WireField", "converter", "document", "is_record", "served", "wire_fields"]

T = TypeVar("T")
Convert = Callable[[Any], Any]
Time = Annotated[float, "time"]
IfKnown = Annotated[T | None, "if known"]
Internal = Annotated[T, "internal"]

if TYPE_CHECKING:
    served = property
else:

    class served(property):  # noqa: N801 — a decorator
        """A property that is part of the record's JSON."""


class WireField(NamedTuple):
    """A key of a record's JSON. `optional`: it is left out while the value is None, which `kind` is without."""

    name: str
    kind: Any
    optional: bool = False


class _Unimported(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, _: Any) -> Any:
        return cls


class _Unread(metaclass=_Unimported):
    """Stands for a type that is imported for the type checker alone: its values are looked at when they are written."""


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        if name.startswith("_"):
            raise KeyError(name)
        return getattr(builtins, name, _Unread)


def _hints(kind: Any) -> dict[str, Any]:
    known = _Names()
    for base in reversed(getattr(kind, "__mro__", (kind,))):
        known |= vars(sys.modules[base.__module__])
    return get_type_hints(kind, localns=known, include_extras=True)


@cache
def wire_fields(kind: type) -> tuple[WireField, ...]:
    """The keys of a record's JSON: its fields, then its served properties."""
    hints, keys = _hints(kind), []
    for name in _names(kind):
        marks = getattr(hints[name], "__metadata__", ())
        if "if known" in marks:
            keys.append(WireField(name, get_args(get_args(hints[name])[0])[0], True))
        elif "internal" not in marks:
            keys.append(WireField(name, hints[name]))
    for base in reversed(kind.__mro__):
        for name, each in vars(base).items():
            if not TYPE_CHECKING and isinstance(each, served):
                keys.append(WireField(name, _hints(each.fget)["return"]))
    return tuple(keys)


def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else kind.__struct_fields__


def is_record(kind: Any) -> bool:
    """Whether it is a dataclass or a msgspec.Struct."""
    return isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "__struct_fields__"))


def converter(kind: Any) -> Convert | None:
    """What turns a value of this type into one that msgspec encodes; None: it does so by itself."""
    if kind == Time:
        from headway.nouns.times import rfc3339  # as in `document`, here: `import headway` takes a tenth less

        return rfc3339
    if kind is _Unread:
        return _convert_later
    if is_record(kind):
        return _record_converter(kind)
    inner = [convert for convert in map(converter, get_args(kind)) if convert is not None]
    if not inner:
        return None
    each, origin = inner[0] if len(inner) == 1 else _convert_later, get_origin(kind)
    if origin is Annotated:
        return each
    if origin in (Union, UnionType):
        return lambda value: None if value is None else each(value)
    if issubclass(origin, Mapping):
        return lambda values: {name: each(value) for name, value in values.items()}
    return lambda values: [each(value) for value in values]


def _convert_later(value: Any) -> Any:
    if is_record(type(value)):
        convert = converter(type(value))
        return value if convert is None else convert(value)
    if isinstance(value, Mapping):
        return {name: _convert_later(item) for name, item in value.items()}
    return [_convert_later(item) for item in value] if isinstance(value, list | tuple) else value


@cache
def _record_converter(kind: type) -> Convert | None:
    keys = [(key.name, key.optional, converter(key.kind)) for key in wire_fields(kind)]
    if tuple(name for name, *_ in keys) == _names(kind) and not any(optional or each for _, optional, each in keys):
        return None

    def convert_record(record: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, optional, convert in keys:
            value = getattr(record, name)
            if not (optional and value is None):
                values[name] = value if convert is None else convert(value)
        return values

    return convert_record


def document(record: Any) -> dict[str, Any]:
    """The JSON object of a record, as it reads back from JSON."""
    import json

    convert = converter(type(record))
    read: dict[str, Any] = json.loads(json.dumps(record if convert is None else convert(record), default=_plain))
    return read


def _plain(item: Any) -> Any:
    """A record as its fields, a numpy scalar as Python's own number, a path as text."""
    if is_record(type(item)):
        return {name: getattr(item, name) for name in _names(type(item))}
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, Set):
        return list(item)
    return item.item() if hasattr(item, "item") else str(item)
