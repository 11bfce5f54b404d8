"""The files that an export writes: JSON lines, CSV, Parquet, or the format of a kit."""

from __future__ import annotations

import csv
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from headway.files import open_regular
from headway.kits.data.cell import guarded
from headway.nouns import errors
from headway.observe import Database, dumps

FORMATS = ("jsonl", "parquet", "csv")
_GROUP_ROWS, GROUP_BYTES = 20_000, 8_000_000  # limits of a Parquet row group, whichever is reached first

Record = dict[str, Any]
Columns = dict[str, list[Any]]  # a value of each field per decision
Write = Callable[[Columns], None]
FormatWriter = Callable[[IO[str], Database, Counter[str]], Callable[[Sequence[Record]], None]]  # that a kit adds


@contextmanager
def replacing(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A temporary file next to `path` that replaces it if the block succeeds, and is deleted if it fails."""
    if path.exists() and not overwrite:
        raise errors.Conflict(
            f"{str(path)!r} already exists.", code="file_exists", hint="Choose another name, or overwrite it (--force)."
        )
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)  # mode 0600
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        with os.fdopen(open_regular(scratch, follow=True), "rb") as file:
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def writing(
    path: Path, format: str, writer: FormatWriter | None, database: Database, left_out: Counter[str]
) -> Iterator[Write]:
    if format == "parquet":
        with _parquet(path) as write:
            yield write
    elif writer is not None:
        with path.open("w", encoding="utf-8", newline="") as file:
            own = writer(file, database, left_out)
            yield lambda page: own(_records(page))
    elif format in ("jsonl", "csv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            yield _jsonl(file) if format == "jsonl" else _csv(file)
    else:
        raise errors.InvalidInput(f"The format is {format!r}, expected one of {', '.join(FORMATS)}.", code="bad_format")


def _records(page: Columns) -> list[Record]:
    return [dict(zip(page, row, strict=True)) for row in zip(*page.values(), strict=True)]


def _jsonl(file: IO[str]) -> Write:
    def write(page: Columns) -> None:
        file.writelines(f"{dumps(record)}\n" for record in _records(page))

    return write


def _csv(file: IO[str]) -> Write:
    rows = csv.writer(file)
    rows.writerow(_COLUMNS)

    def write(page: Columns) -> None:
        rows.writerows(zip(*(map(_cell, page[name]) for name in _COLUMNS), strict=True))

    return write


def _cell(value: object) -> object:
    """A CSV cell: numbers unchanged, structures as JSON, and no text that a spreadsheet would run as a formula."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return guarded(value if isinstance(value, str) else dumps(value))


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise errors.MissingExtra("Writing Parquet", "pyarrow", "parquet") from None
    text, real = arrow.string(), arrow.float64()
    signal = arrow.struct([(name, real if name == "value" else text) for name in _SIGNAL])
    special: Mapping[str, Any] = {
        "step": arrow.int64(),
        "probabilities": arrow.list_(real),
        "propensity": real,
        "reward": real,
        "weight": real,
        "clipped": arrow.bool_(),
        "seed": arrow.uint64(),
        "state_seq": arrow.int64(),
        "position": arrow.int64(),
        "settled": arrow.int64(),
        "signals": arrow.list_(signal),
        "episode_signals": arrow.list_(signal),
    }
    schema = arrow.schema([(name, special.get(name, text)) for name in _COLUMNS])
    with parquet.ParquetWriter(path, schema, compression="zstd") as file:
        waiting: list[Any] = []

        def flush() -> None:
            if waiting:
                file.write_table(arrow.concat_tables(waiting))
                waiting.clear()

        def write(page: Columns) -> None:
            texts = {name: list(map(dumps, page[name])) for name in ("state", "candidates", "details")}
            waiting.append(arrow.Table.from_pydict(page | texts, schema=schema))
            if sum(map(len, waiting)) >= _GROUP_ROWS or sum(table.nbytes for table in waiting) >= GROUP_BYTES:
                flush()

        yield write
        flush()


_SIGNAL = ("name", "value", "label", "rater", "key", "at")
_COLUMNS = (
    "id", "task", "at", "text", "state", "episode", "step", "role", "candidates", "probabilities", "action",
    "propensity", "policy", "policy_hash", "config_hash", "encoder", "exploration", "seed", "source", "draw",
    "unit", "position",
    "assigned", "state_seq", "key", "status", "reward", "clipped", "weight", "reward_version", "settled", "signals",
    "episode_signals", "details",
)  # fmt: skip
