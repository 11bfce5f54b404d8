"""Records as JSON: the fields, times as text, what is left out and what is added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import isclass
from pkgutil import walk_packages
from typing import TYPE_CHECKING

import msgspec
import numpy as np

import headway
from headway.nouns.wire import IfKnown, Internal, Time, converter, document, is_record, served, wire_fields
from headway.serve.app import endpoints

if TYPE_CHECKING:
    from headway.nouns.alarm import Alarm


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    at: Time
    until: Time | None = None
    note: IfKnown[str] = None
    rows: Internal[int] = 3

    @served
    def many(self) -> bool:
        return self.rows > 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    last: Look | None
    all: tuple[Look, ...]
    by_name: Mapping[str, Look]
    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Untyped:
    alarms: tuple[Alarm, ...]
    looks: Mapping[str, Alarm]


class Shown(msgspec.Struct):
    looks: list[Look]


def test_a_record_is_its_fields_with_times_as_text_and_served_properties() -> None:
    assert document(Look(at=1.5)) == {"at": "1970-01-01T00:00:01.500Z", "until": None, "many": True}
    assert document(Look(at=0.0, until=60.0, note="late", rows=0)) == {
        "at": "1970-01-01T00:00:00.000Z", "until": "1970-01-01T00:01:00.000Z", "note": "late", "many": False,
    }  # fmt: skip


def test_records_within_records_are_written_by_the_same_rule() -> None:
    look = Look(at=0.0)
    one = document(look)
    looks = Looks(last=None, all=(look,), by_name={"first": look}, value=np.float64(0.5))
    assert document(looks) == {"last": None, "all": [one], "by_name": {"first": one}, "value": 0.5}
    convert = converter(Shown)
    assert convert is not None
    assert json.loads(msgspec.json.encode(convert(Shown([look])))) == {"looks": [one]}


def test_values_whose_type_is_not_imported_are_looked_at() -> None:
    look = Look(at=0.0)
    assert document(Untyped(alarms=(look,), looks={"a": look})) == {  # type: ignore[arg-type]  # any record
        "alarms": [document(look)],
        "looks": {"a": document(look)},
    }


def test_plain_records_are_left_to_msgspec() -> None:
    @dataclass
    class Plain:
        name: str
        counts: dict[str, int]

    assert converter(Plain) is converter(list[Plain]) is converter(str) is None


def test_every_record_and_answer_of_the_package_can_be_written() -> None:
    for module in walk_packages(headway.__path__, "headway."):
        if module.name.startswith(("headway.nouns", "headway.observe", "headway.cli", "headway.project")):
            for record in vars(import_module(module.name)).values():
                if isclass(record) and is_record(record) and record.__module__ == module.name:
                    wire_fields(record)
    for endpoint in endpoints():
        converter(endpoint.gives)
