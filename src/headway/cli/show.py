"""How a record is printed: as JSON from its fields, as text by the renderer of its type.

    @renders(Promotion)
    def _promotion(out: Output, promotion: Promotion) -> None:
        out.line(f"{promotion.task} now {promotion.current} (was {promotion.was}).")

    session.show(promotion)              # the text, or with --json the document
    session.show(verdict, synthetic=12)  # the document gets one more key

A renderer is next to the command that shows the record; a table declares its columns once:

    TASKS = RecordTable(Column.text("task", lambda task: task.task), Column.value("n", lambda task: task.decisions))
    TASKS.print(out, status.tasks)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

from headway.cli.output import Output
from headway.cli.written import NONE, day as days, minute, number, short
from headway.nouns import document as wire_document

Record = TypeVar("Record")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class _Form:
    """The two forms of a record type."""

    text: Callable[[Output, Any], None]
    document: Callable[[Any], Mapping[str, Any]] | None


_FORMS: dict[str, _Form] = {}  # by the name of the class, which is unique in the package
_SHARED = {"Verdict": "headway.cli.verdict"}  # shown by several commands: the renderer is imported on first use


def renders(
    kind: type[Record] | str, *, document: Callable[[Record], Mapping[str, Any]] | None = None
) -> Callable[[Callable[[Output, Record], None]], Callable[[Output, Record], None]]:
    """Declares how records of this type are written as text, and as JSON where that differs from their fields.

    The name of a class will do, where importing it would make `--help` slower.
    """
    name = kind if isinstance(kind, str) else kind.__name__

    def declare(write: Callable[[Output, Record], None]) -> Callable[[Output, Record], None]:
        assert name not in _FORMS, f"{name} has a renderer already"
        _FORMS[name] = _Form(write, document)
        return write

    return declare


def show(out: Output, record: object, **more: Any) -> None:
    """Print a record: its text, or its document with --json; `more` adds keys to the document."""
    if out.json:
        out.document({**document_of(record), **more})
    else:
        render(out, record)


def render(out: Output, record: object) -> None:
    """The text of a record."""
    form = _form(record)
    assert form is not None, f"{type(record).__name__} has no renderer"
    form.text(out, record)


def document_of(record: Any) -> dict[str, Any]:
    """The JSON object of a record: by its renderer's rule, its own `document()`, or its fields."""
    form = _form(record)
    if form is not None and form.document is not None:
        return dict(form.document(record))
    if hasattr(record, "document"):
        return dict(record.document())
    return wire_document(record)


def _form(record: object) -> _Form | None:
    name = type(record).__name__
    if name in _SHARED:
        import_module(_SHARED[name])
    return _FORMS.get(name)


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A heading, and the cell of a row."""

    name: str
    cell: Callable[[Row], object]
    right: bool = False

    @classmethod
    def text(cls, name: str, cell: Callable[[Row], object], *, limit: int = 0) -> Column[Row]:
        """A column of text, cut to `limit` characters; a dash for None."""

        def written(row: Row) -> object:
            item = cell(row)
            return NONE if item is None else short(str(item), limit) if limit else item

        return cls(name, written)

    @classmethod
    def time(cls, name: str, cell: Callable[[Row], float | None], *, day: bool = False) -> Column[Row]:
        """A column of times to the minute, or of days; a dash for None."""
        return cls.text(name, lambda row: (days if day else minute)(cell(row)))

    @classmethod
    def value(cls, name: str, cell: Callable[[Row], object], digits: int = 3) -> Column[Row]:
        """A column of numbers, aligned to the right."""
        return cls(name, lambda row: number(cell(row), digits), right=True)


class RecordTable(Generic[Row]):
    """The columns of one kind of row."""

    def __init__(self, *columns: Column[Row]) -> None:
        self._columns = columns

    def print(self, out: Output, rows: Iterable[Row]) -> None:
        """Print the rows; nothing without rows."""
        cells = [[column.cell(row) for column in self._columns] for row in rows]
        if cells:
            right = [column.name for column in self._columns if column.right]
            out.table([column.name for column in self._columns], cells, right=right)
