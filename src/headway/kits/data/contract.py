"""The contract of formats: recognise their own rows, read them the same way each time, never raise on invalid rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from headway.kits.data.formats import Format, Item
from headway.kits.data.records import Options, Problem, Record, Records, Skipped
from headway.nouns import errors

_STRANGE: tuple[dict[str, Any], ...] = ({}, {"something": "else"}, {"id": None, "action": [], "reward": "much"})


def format_contract(
    format: Format,
    rows: Sequence[Mapping[str, Any]],
    *,
    options: Options | None = None,
    among: Sequence[Format] = (),
) -> None:
    """`rows` are examples of the format, in the order of a file; at least one of them is a decision.

    `among`: other formats in use; none that is tried earlier may recognise these rows.
    """
    given = options or Options(name="example")
    lines = [(number, dict(row)) for number, row in enumerate(rows, 1)]
    earlier = [other for other in among if other.name != format.name and other.priority < format.priority]
    for row in rows:
        for other in earlier:
            assert not other.looks(dict(row)), f"{other.name} recognises a row of {format.name}: {row}"
    assert sum(map(format.looks, map(dict, rows))) * 2 > len(rows), f"{format.name} does not recognise its own rows"
    for row in _STRANGE:
        assert isinstance(format.looks(dict(row)), bool), f"{format.name}.looks does not return a bool for {row}"

    items = list(_each(format.read(lines, given)))
    assert items == list(_each(format.read([(number, dict(row)) for number, row in enumerate(rows, 1)], given))), (
        "a second reading gives a different result"
    )
    problems = [item for item in items if isinstance(item, Problem)]
    assert not problems, f"{format.name} cannot read its own example: {problems[0]}"
    records = [item for item in items if isinstance(item, Record)]
    assert records, f"{format.name} finds no decision in its own example"
    for record in records:
        _is_record(record, len(rows))
    _survives(format, given)


def _each(items: Iterable[Item]) -> Iterator[Record | Skipped | Problem]:
    for item in items:
        yield from item if isinstance(item, Records) else (item,)


def _is_record(record: Record, count: int) -> None:
    names = [candidate.name for candidate in record.candidates]
    where = f"line {record.line}"
    assert 1 <= record.line <= count, f"{where} is not a line of the example"
    assert record.action in names, f"{where}: the action {record.action!r} is not among the candidates {names}"
    assert len(set(names)) == len(names), f"{where}: a candidate appears twice: {names}"
    if record.probabilities is not None:
        assert len(record.probabilities) == len(names), f"{where}: a probability per candidate is expected"
        assert math.isclose(math.fsum(record.probabilities), 1.0, abs_tol=1e-6), f"{where}: they do not sum to 1"
        assert record.probabilities[names.index(record.action)] > 0.0, f"{where}: the action has probability 0"
    for signal in record.signals:
        assert math.isfinite(signal.value), f"{where}: the signal {signal.name} is {signal.value!r}"


def _survives(format: Format, options: Options) -> None:
    """A problem is passed on, and a strange row is reported, not raised."""
    broken = Problem(1, "", "the line is truncated")
    items = list(format.read([broken], options))
    assert items == [broken], f"{format.name} does not pass on a line that could not be read: {items}"
    for row in _STRANGE:
        with suppress(errors.InvalidInput):  # options that do not fit the file are refused as a whole
            for item in format.read([(1, dict(row))], options):
                assert isinstance(item, (Record, Records, Skipped, Problem)), f"{format.name} gives {item!r}"
