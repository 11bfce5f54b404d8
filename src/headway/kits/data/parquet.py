"""Parquet files in batches of bounded size. A few bytes of such a file can stand for gigabytes of text.

    for batch in batches(file): batch.to_pylist()

Text columns are read with their dictionary and measured before they are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from headway.nouns import errors

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray


LONGEST_ROW = 32 << 20  # bytes
_ROWS = 2000
_BYTES = 64 << 20  # of a batch


def batches(file: IO[bytes] | Path, columns: Sequence[str] | None = None, *, rows: int = _ROWS) -> Iterator[Any]:
    """Record batches of at most `rows` rows and about 64 MB. ValueError if that is not possible."""
    with _translated():
        yield from _bounded(file, columns, rows)


def _bounded(file: IO[bytes] | Path, columns: Sequence[str] | None, rows: int) -> Iterator[Any]:
    table = _opened(file)
    texts = [field.name for field in table.schema_arrow if _is_text(field.type)]
    table = _opened(file, read_dictionary=texts)
    before = 0
    for batch in table.iter_batches(batch_size=min(rows, _typical(table.metadata)), columns=columns):
        start = size = 0
        for place, length in enumerate(_lengths(batch).tolist()):
            if length > LONGEST_ROW:
                yield _decoded(batch.slice(start, place - start))
                raise ValueError(f"row {before + place + 1} is longer than {LONGEST_ROW:,} bytes")
            if size + length > _BYTES:
                yield _decoded(batch.slice(start, place - start))
                start, size = place, 0
            size += length
        before += batch.num_rows
        yield _decoded(batch.slice(start))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if type(error).__module__ != "pyarrow.lib":
            raise
        raise ValueError(str(error)) from error


def _opened(file: IO[bytes] | Path, **options: Any) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise errors.MissingExtra("Reading Parquet", "pyarrow", "parquet") from error
    return parquet.ParquetFile(file, **options)


def _typical(metadata: Any) -> int:
    """Rows per batch: fewer if they are large (exported details)."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    largest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    return int(max(1, _BYTES // max(1, largest)))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_binary(kind))


def _lengths(batch: Any) -> NDArray[int64]:
    """Bytes of each row in its columns of text; of other columns, where they are large."""
    import numpy as np
    from pyarrow import compute, types

    total = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if types.is_dictionary(column.type) and _is_text(column.type.value_type):
            lengths = compute.take(compute.binary_length(column.dictionary), column.indices)
        elif _is_text(column.type) or types.is_large_string(column.type) or types.is_large_binary(column.type):
            lengths = compute.binary_length(column)
        elif types.is_nested(column.type) and column.nbytes > LONGEST_ROW:
            total += [column.slice(place, 1).nbytes for place in range(len(column))]
            continue
        else:
            continue
        total += np.asarray(lengths.fill_null(0), np.int64)
    return total


def _decoded(batch: Any) -> Any:
    """The batch without dictionaries, which are slow to read value by value."""
    from pyarrow import RecordBatch, types

    columns = [column.dictionary_decode() if types.is_dictionary(column.type) else column for column in batch.columns]
    return RecordBatch.from_arrays(columns, names=batch.schema.names)
