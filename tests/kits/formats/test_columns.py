"""Plain rows of a table are read as columns; the records are those that reading row by row gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, strategies as st

from headway.kits.data import ImportedSignal, Options, Problem, Record, Records, Row, Wrong, flat, shown
from headway.kits.formats import columns
from headway.kits.formats.columns import read_columns

_ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, "", " ", "0.5", "true", "nan", "ü", "a\0b", "\ud800", "x" * 201, "2026-06-01T12:00:00Z"]),
    st.sampled_from([True, False, 0, -0.0, 1, 2**53, 10**400, 1e308, 1e12, float("nan"), float("inf"), -1.0]),
    st.sampled_from([[], ["a"], ["a", 1], {}, {"deep": 1}]),
)
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "action": st.sampled_from(["a", "b", "c"]),
    "text": st.text("abc ", max_size=12),
    "candidates": st.sampled_from([["a", "b", "c"], ["a", "b"], "a|b|c", '["a", "b"]', None]),
    "propensity": st.sampled_from([0.25, 0.5, 1.0, None]),
    "reward": st.floats(-5, 5) | st.none(),
    "failed": st.sampled_from([0.0, 1.0, None]),
    "signal.cost": st.floats(0, 1e9),
    "at": st.floats(0, 1e11, exclude_max=True) | st.none(),
    "id": st.text("xyz1", max_size=4) | st.none(),
    "role": st.sampled_from(["coder", "reviewer", None]),
    "episode": st.sampled_from(["e1", None]),
    "step": st.integers(0, 9),
    "source": st.sampled_from(["mined", "synthetic", "real", "", None]),
    "idempotency_key": st.sampled_from(["k", None]),
    "size": st.integers(-9, 9) | st.floats(0, 1),
    "kind": st.sampled_from(["one", "two", "3", None]),
    "extra": st.sampled_from([1, None]),
}
_MAPPED = {"signal.cost": "signal.cost", "state.size": "size", "state.kind": "kind"}


@st.composite
def _tables(draw: st.DrawFn) -> list[Row | Problem]:
    names = draw(st.sets(st.sampled_from(sorted(_PLAIN))).map(lambda some: sorted({*some, "action", "propensity"})))
    names = [*names, *(name for name in _MAPPED.values() if name not in names)]
    table: list[Row | Problem] = []
    for line in range(1, draw(st.integers(1, 6)) + 1):
        row = {name: draw(_PLAIN[name]) for name in names}
        if draw(st.integers(0, 3)) == 0:
            row[draw(st.sampled_from(names))] = draw(_ODD)
        table.append(Problem(line, "", "not JSON") if draw(st.integers(0, 20)) == 0 else (line, row))
    return table


def _record(plan: Any, line: int, row: dict[str, Any]) -> Record:
    """The slow reference."""
    action = plan._text(row, "action")
    if not 0 < len(action) <= 2000:
        field = plan._label["action"]
        raise Wrong(field, f"{field} is {shown(action)}, expected 1 to 2,000 characters.")
    left: list[str] = []
    candidates, probabilities = plan._chances([row], [action])[0]
    values = {ours: row[theirs] for ours, theirs in plan._state if row.get(theirs) is not None}
    at = plan._moment(row)
    signals = []
    for name, ours in plan._signals:
        value = plan._number(row, ours)
        if value is not None:
            signals.append(ImportedSignal(name=name, value=value, at=at))
    return Record(
        line=line,
        origin=plan._name(row, "id"),
        idempotency_key=plan._name(row, "idempotency_key"),
        action=action,
        candidates=candidates,
        text=plan._text(row, "text"),
        state=flat(values, "state", left=left, words=True) if values else {},
        role=plan._name(row, "role"),
        episode=plan._name(row, "episode") or None,
        step=plan._step(row),
        at=at,
        probabilities=probabilities,
        source=columns._source(plan._name(row, "source")),
        signals=tuple(signals),
        ignored=(*left, *[name for name in row if name not in plan._used and row[name] is not None]),
    )


def _by_row(table: list[Row | Problem], options: Options) -> Iterator[Record | Problem]:
    good = [item for item in table if not isinstance(item, Problem)]
    names = list(dict.fromkeys(name for _, row in good for name in row))
    plan = columns._Plan(columns._mapping(names, options), options) if good else None
    for item in table:
        if isinstance(item, Problem):
            yield item
        elif plan is not None:
            try:
                yield _record(plan, *item)
            except Wrong as wrong:
                yield Problem(item[0], wrong.field, wrong.message, wrong.cure)


@given(_tables(), st.sampled_from([(), ("a", "b", "c")]))
def test_columns_hold_the_records_that_reading_row_by_row_gives(
    table: list[Row | Problem], candidates: tuple[str, ...]
) -> None:
    options = Options(columns=_MAPPED, candidates=candidates)
    items = list(read_columns(table, options))
    each = [one for item in items for one in (item if isinstance(item, Records) else (item,))]
    assert list(map(repr, each)) == list(map(repr, _by_row(table, options)))


def test_a_table_without_anything_wrong_makes_no_record() -> None:
    table: list[Row | Problem] = [
        (line, {"action": "a", "propensity": "0.5", "candidates": "a|b", "text": f"ü {line}", "at": "2026-06-01"})
        for line in range(1, 5000)
    ]
    items = list(read_columns(table, Options()))
    assert [type(item) for item in items] == [Records] * 3
    assert sum(len(item) for item in items if isinstance(item, Records)) == 4999
