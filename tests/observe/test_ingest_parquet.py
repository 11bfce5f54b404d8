"""Parquet files that are larger than they look."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from headway.kits.data.files import rows_of
from headway.kits.data.parquet import LONGEST_ROW, batches
from headway.kits.data.records import Problem


def written(path: Path, lengths: list[int]) -> Path:
    """A row per length: small on disk, as equal texts are stored once."""
    texts = pa.array(["a" * length for length in sorted(set(lengths))])
    places = pa.array([sorted(set(lengths)).index(length) for length in lengths], pa.int32())
    table = pa.table({"prompt": pa.DictionaryArray.from_arrays(places, texts), "n": list(range(len(lengths)))})
    parquet.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 100_000
    return path


def test_a_small_file_of_long_texts_is_read_in_small_batches(tmp_path: Path) -> None:
    path = written(tmp_path / "log.parquet", [20 << 20] * 9)
    sizes = [batch.num_rows for batch in batches(path)]
    assert sizes == [3, 3, 3]
    assert [row[1]["n"] for row in rows_of(path) if not isinstance(row, Problem)] == list(range(9))


def test_a_row_that_is_too_long_ends_the_reading_and_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "log.parquet", [5, 5, LONGEST_ROW + 1, *[40_000_000] * 500])
    first, second, problem = rows_of(path)
    assert (first, second) == ((1, {"prompt": "aaaaa", "n": 0}), (2, {"prompt": "aaaaa", "n": 1}))
    assert isinstance(problem, Problem)
    assert (problem.line, "row 3 is longer than 33,554,432 bytes" in problem.message) == (3, True)


def test_nulls_and_lists_keep_their_places(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    parquet.write_table(pa.table({"a": ["x", None, "x"], "b": [[1.0, 2.0], None, []], "c": [b"z", b"", None]}), path)
    rows = [row[1] for row in rows_of(path) if not isinstance(row, Problem)]
    assert [tuple(row.values()) for row in rows] == [("x", [1, 2], b"z"), (None, None, b""), ("x", [], None)]
