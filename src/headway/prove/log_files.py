"""Foreign logs: a Parquet, JSONL or CSV file with one row per logged decision.

    reward                       the outcome; empty if there is none
    propensity                   the probability with which the logged action was chosen, in (0, 1]
    target_probability           the candidate's probability of the same action
    baseline_probability         the current policy's (without it: against the policy that was logged)
    model_estimate_logged        a reward model's estimate for the logged action     these three
    model_estimate_target        … for the candidate: Σ_a π(a) q(a)                  together turn
    model_estimate_baseline      … for the current policy                            IPS into DR

Rows are in the order in which outcomes became known. The model must not be fitted on a row or on later ones.
Not covered: whole probability vectors, features, guards; import the log (`headway data import`) for those.
"""

from __future__ import annotations

import csv
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headway.nouns.errors import InvalidInput, UnknownName, did_you_mean
from headway.nouns.text_files import (
    EMPTY_WORDS,
    LONGEST,
    MOST_COLUMNS,
    BoundedLines,
    RowTooLong,
    open_text,
    text_form,
)
from headway.observe.ingest import parquet
from headway.prove.log import Floats

__all__ = ["ForeignChunk", "LogColumns", "digest_of", "header", "read_log"]

Batch = Mapping[str, list[Any]]
MODEL = ("model_estimate_logged", "model_estimate_target", "model_estimate_baseline")
ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignChunk:
    """Rows of a file as arrays [n]; `model` are q(A), Σ π q and Σ b q."""

    reward: Floats
    propensity: Floats
    target: Floats
    baseline: Floats
    model: tuple[Floats, Floats, Floats] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumns:
    """The names of the columns of a foreign log."""

    reward: str = "reward"
    propensity: str = "propensity"
    target: str = "target_probability"
    baseline: str | None = None


def read_log(
    path: Path, names: LogColumns | None = None, *, gaps: Counter[str] | None = None
) -> Iterator[ForeignChunk]:
    """Read the file in chunks; the first impossible value raises InvalidInput with its line and column.

    `gaps` counts the rows without a reward: empty ones, and those that say NaN.
    """
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        columns, batches = _parquet(path)
        first, word = 0, "row"
    elif name.endswith((".jsonl", ".ndjson")):
        columns, batches = _jsonl(path)
        first, word = 1, "line"
    elif name.endswith(".csv"):
        columns, batches = _csv(path)
        first, word = 2, "line"
    else:
        raise InvalidInput(
            f"{path.name!r} is not a readable log.",
            code="bad_log_file",
            hint="Give a .parquet, .jsonl or .csv file (the last two also as .gz).",
        )
    used = _columns(path, columns, names or LogColumns())
    for batch in batches(list(used.values())):
        arrays = {role: _numbers(path, batch, column, first, word) for role, column in used.items()}
        chunk = ForeignChunk(
            reward=arrays["reward"],
            propensity=arrays["propensity"],
            target=arrays["target"],
            baseline=arrays.get("baseline", arrays["propensity"]),
            model=(arrays[MODEL[0]], arrays[MODEL[1]], arrays[MODEL[2]]) if MODEL[0] in arrays else None,
        )
        _check(path, chunk, used, first, word)
        if gaps is not None:
            blank = sum(1 for entry in batch[used["reward"]] if _blank(entry))
            gaps["empty"] += blank
            gaps["NaN"] += int(np.isnan(chunk.reward).sum()) - blank
        first += chunk.reward.size
        yield chunk


def _columns(path: Path, columns: list[str], names: LogColumns) -> dict[str, str]:
    """Role → column name, for every column to read."""
    used = {"reward": names.reward, "propensity": names.propensity, "target": names.target}
    if names.baseline is not None:
        used["baseline"] = names.baseline
    elif "baseline_probability" in columns:
        used["baseline"] = "baseline_probability"
    model = [column for column in columns if column.startswith("model_estimate")]
    for needed in model:
        if needed not in MODEL:
            raise UnknownName(
                f"{path.name}: a log has no column {needed!r}.",
                code="bad_log_column",
                hint=did_you_mean(needed, MODEL),
            )
    wanted = MODEL if "baseline" in used else MODEL[:2]
    if model:
        used |= {column: column for column in MODEL if column in columns or column in wanted}
        if MODEL[2] not in used:
            raise InvalidInput(
                f"{path.name} has model estimates but no baseline to compare with.",
                code="bad_log_column",
                hint=f"Add {MODEL[2]!r} (of the logged policy: Σ_a μ(a) q(a)), or omit all model_estimate_* columns.",
            )
    for role, column in used.items():
        if column not in columns:
            option = f"--{role} COLUMN" if role in ("reward", "propensity", "target", "baseline") else "the column"
            raise UnknownName(
                f"{path.name} has no column {column!r}.",
                code="bad_log_column",
                hint=f"Name it with {option}. {did_you_mean(column, columns)}",
            )
    return used


def _check(path: Path, chunk: ForeignChunk, used: Mapping[str, str], first: int, word: str) -> None:
    rules = [
        ("propensity", chunk.propensity, (chunk.propensity > 0.0) & (chunk.propensity <= 1.0), "in (0, 1]"),
        ("target", chunk.target, (chunk.target >= 0.0) & (chunk.target <= 1.0), "in [0, 1]"),
        ("baseline", chunk.baseline, (chunk.baseline >= 0.0) & (chunk.baseline <= 1.0), "in [0, 1]"),
        ("reward", chunk.reward, ~np.isinf(chunk.reward), "a finite number, or empty"),
    ]
    rules += [
        (name, values, np.isfinite(values), "a finite number")
        for name, values in zip(MODEL, chunk.model or (), strict=False)
    ]
    for role, values, ok, expected in rules:
        if not ok.all():
            row = int(np.argmin(ok))
            what = f"{used.get(role, role)} is {float(values[row])!r}"
            raise InvalidInput(
                f"{path.name} {word} {first + row}: {what}, expected {expected}.",
                code="bad_log_value",
                hint="Nothing was estimated. Correct the row, or omit it.",
            )


def _numbers(path: Path, batch: Mapping[str, list[Any]], column: str, first: int, word: str) -> Floats:
    values = batch[column]
    try:
        plain = np.array([np.nan if value is None or value == "" else value for value in values], dtype=np.float64)
        if plain.ndim == 1:  # lists of equal lengths make a table
            return plain
    except (TypeError, ValueError, OverflowError):  # words for "no value", decimal commas
        pass
    numbers = np.empty(len(values))
    for row, entry in enumerate(values):
        try:
            numbers[row] = np.nan if _blank(entry) else _number(entry)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"{path.name} {word} {first + row}: {column} is {repr(entry)[:200]}, which is not a number.",
                code="bad_log_value",
                hint="Nothing was estimated. Correct the row, or omit it.",
            ) from None
    return numbers


def _blank(entry: Any) -> bool:
    return entry is None or (isinstance(entry, str) and entry.strip().lower() in EMPTY_WORDS)


def _number(entry: Any) -> float:
    """A number as people write it: 0.5, 0,5, true."""
    if isinstance(entry, str):
        text = entry.strip()
        if text.lower() in ("true", "false"):
            return float(text.lower() == "true")
        return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    return float(entry)


def header(path: Path) -> list[str]:
    """The columns of a log file."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        return _parquet(path)[0]
    return _jsonl(path)[0] if name.endswith((".jsonl", ".ndjson")) else _csv(path)[0]


def _csv(path: Path) -> tuple[list[str], Callable[[list[str]], Iterator[Batch]]]:
    form = text_form(path)

    def rows() -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
        with open_text(path, form.encoding) as file:
            lines = BoundedLines(file)
            reader = csv.reader(lines, delimiter=form.delimiter)
            line = 1
            while True:
                lines.start_row()
                with _readable(path, line):
                    row = next(reader, None)
                if row is None:
                    return
                yield line, row
                line += 1

    columns = next((row for _, row in rows()), [])
    if len(columns) > MOST_COLUMNS:
        raise InvalidInput(
            f"{path.name} line 1: the header has {len(columns):,} columns, at most {MOST_COLUMNS:,} are allowed.",
            code="bad_log_value",
            hint="Remove the columns that say nothing about the decision.",
        )

    def batches(used: list[str]) -> Iterator[Batch]:
        where = {name: columns.index(name) for name in used}
        batch: list[list[str]] = []
        for line, row in islice(rows(), 1, None):
            if len(row) != len(columns):
                raise InvalidInput(
                    f"{path.name} line {line}: {len(row)} fields, the header has {len(columns)}.",
                    code="bad_log_value",
                    hint="Quote fields that contain commas.",
                )
            batch.append([row[at] for at in where.values()])
            if len(batch) == ROWS:
                yield dict(zip(where, map(list, zip(*batch, strict=True)), strict=True))
                batch = []
        if batch:
            yield dict(zip(where, map(list, zip(*batch, strict=True)), strict=True))

    return columns, batches


@contextmanager
def _readable(path: Path, line: int) -> Iterator[None]:
    """What cannot be read as text, as an error with its line."""
    try:
        yield
    except RowTooLong:
        why = f"it is longer than {LONGEST:,} characters"
    except (csv.Error, UnicodeError, EOFError, OSError, zlib.error) as error:
        why = f"it cannot be read: {error}"
    else:
        return
    raise InvalidInput(f"{path.name} line {line}: {why}.", code="bad_log_value", hint="Nothing was estimated.")


def _jsonl(path: Path) -> tuple[list[str], Callable[[list[str]], Iterator[Batch]]]:
    form = text_form(path, table=False)

    def rows() -> Iterator[dict[str, Any]]:
        with open_text(path, form.encoding) as file:
            lines, line = BoundedLines(file), 1
            while True:
                lines.start_row()
                with _readable(path, line):
                    text = next(lines, "")
                if not text:
                    return
                try:
                    row = json.loads(text)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise InvalidInput(
                        f"{path.name} line {line}: {text[:60].strip()!r} is not a JSON object.",
                        code="bad_log_value",
                        hint="JSONL has one object per line and no empty lines.",
                    )
                yield row
                line += 1

    columns = list(next(rows(), {}))

    def batches(used: list[str]) -> Iterator[Batch]:
        batch: list[list[Any]] = []
        for row in rows():
            batch.append([row.get(name) for name in used])
            if len(batch) == ROWS:
                yield dict(zip(used, map(list, zip(*batch, strict=True)), strict=True))
                batch = []
        if batch:
            yield dict(zip(used, map(list, zip(*batch, strict=True)), strict=True))

    return columns, batches


def _parquet(path: Path) -> tuple[list[str], Callable[[list[str]], Iterator[Batch]]]:
    def refused(error: Exception) -> InvalidInput:
        return InvalidInput(
            f"{str(path)!r} cannot be read as Parquet: {error}", code="bad_log_file", hint="Check the file."
        )

    try:
        columns = parquet.columns_of(path)
    except (OSError, ValueError) as error:
        raise refused(error) from error

    def batches(used: list[str]) -> Iterator[Batch]:
        try:
            for batch in parquet.batches(path, used, rows=ROWS):
                yield {name: batch.column(name).to_pylist() for name in used}
        except (ValueError, MemoryError) as error:
            raise refused(error) from error

    return columns, batches


def digest_of(path: Path) -> str:
    """SHA-256 of the file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
