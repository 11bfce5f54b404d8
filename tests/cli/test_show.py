"""One record, two forms: the text that people read and the document that --json prints."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, document_of, renders, show
from headway.cli.written import counts, day, interval, minute, number, percent, short


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    field: str
    apples: int
    weight: float | None
    file: Path = Path("harvest.csv")


_HARVEST = RecordTable[Harvest](
    Column.text("field", lambda row: row.field),
    Column.value("apples", lambda row: row.apples),
    Column.value("weight", lambda row: row.weight, 1),
)


@renders(Harvest)
def _harvest(out: Output, harvest: Harvest) -> None:
    _HARVEST.print(out, [harvest])


@dataclass(frozen=True, slots=True)
class Silent:
    name: str

    def document(self) -> dict[str, object]:
        return {"named": self.name}


def _shown(record: object, *, as_json: bool, **more: object) -> str:
    stream = io.StringIO()
    out = Output(json=as_json, out=stream, err=stream)
    show(out, record, **more)
    out.finish()
    return stream.getvalue()


def test_the_text_of_a_record_comes_from_its_renderer() -> None:
    lines = _shown(Harvest(field="north", apples=1234, weight=None), as_json=False).splitlines()
    assert lines == ["field  apples  weight", "north   1,234       –"]


def test_the_document_of_a_record_has_its_fields_and_the_added_keys() -> None:
    printed = _shown(Harvest(field="north", apples=3, weight=0.5), as_json=True, synthetic=2)
    assert json.loads(printed) == {
        "field": "north",
        "apples": 3,
        "weight": 0.5,
        "file": "harvest.csv",
        "synthetic": 2,
    }


def test_a_record_may_write_its_own_document() -> None:
    assert document_of(Silent("north")) == {"named": "north"}


def test_a_record_without_a_renderer_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="Silent has no renderer"):
        _shown(Silent("north"), as_json=False)


def test_a_type_has_one_renderer() -> None:
    with pytest.raises(AssertionError, match="Harvest has a renderer already"):
        renders(Harvest)(_harvest)


def test_a_table_without_rows_prints_nothing() -> None:
    stream = io.StringIO()
    _HARVEST.print(Output(out=stream, err=stream), [])
    assert stream.getvalue() == ""


def test_values_are_written_the_same_way_everywhere() -> None:
    assert (number(1234), number(0.12345), number(None), number(float("nan")), number(True)) == (
        "1,234",
        "0.123",
        "–",
        "–",
        "True",
    )
    assert (percent(0.256), percent(0.256, 1), percent(None)) == ("26%", "25.6%", "")
    assert interval(-0.012, 0.07) == "[-0.012, +0.070]"
    assert counts({"real": 1200, "mined": 3}) == "1,200 real, 3 mined"
    assert (day(0.0), day(None), minute(60.0), minute(None)) == ("1970-01-01", "–", "1970-01-01 00:01", None)
    assert (short("abc", 3), short("abcd", 3)) == ("abc", "ab…")
