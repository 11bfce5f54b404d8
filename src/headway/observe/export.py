"""Decisions with their signals and outcomes, as a file: JSON lines, Parquet or CSV.

    manifest = export(database, query, Path("route.jsonl"), Wanted(tasks=("route",), since=1.7e9), format="jsonl")

Streams in bounded memory, up to the decision that was the last one when it began. The file appears whole or not at all,
and a manifest beside it (`route.jsonl.manifest.json`) says what is in it: counts, filters, reward versions, SHA-256.

A CSV cell that a spreadsheet would run as a formula gets an apostrophe before it. What kits keep beside a decision is
under `details`, by kit and name, in base64. Not covered: withdrawn and replaced signals (only what counts is exported),
policies and the ledger.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

from headway.nouns.errors import Conflict, InvalidInput, MissingExtra, Unavailable
from headway.nouns.ids import id_bytes
from headway.nouns.protocols import Progress
from headway.nouns.records import SOURCES, Decision, Source
from headway.observe.database import Database
from headway.observe.details import as_text, having_details
from headway.observe.details import read as read_details
from headway.observe.query import Query
from headway.observe.rows import DECISION_COLUMNS, DECISION_TABLES, STATUSES, decision_from_row, dumps, microseconds

__all__ = ["FORMATS", "Wanted", "Write", "Writer", "export", "records"]

FORMATS = ("jsonl", "parquet", "csv")
MANIFEST_FORMAT = 1
_PAGE = 1000
_MARKS = 500  # bound values per statement
_GROUP_ROWS, _GROUP_BYTES = 20_000, 8_000_000  # of a Parquet row group, whichever comes first
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

_T = TypeVar("_T")
Record = dict[str, Any]
_Outcome = tuple[str, float | None, bool, float, str | None]  # status, reward, clipped, weight, reward version
_NOTHING: _Outcome = ("pending", None, False, 1.0, None)
Write = Callable[[Sequence[Record]], None]
Writer = Callable[[IO[str], Database, Counter[str]], Write]  # of a format that a kit brings


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which decisions: all of them unless narrowed. `since` is included, `until` is not; both in seconds since 1970."""

    tasks: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    role: str | None = None
    source: Source | None = None


def export(
    database: Database,
    query: Query,
    path: Path,
    wanted: Wanted,
    *,
    format: str = "jsonl",
    writer: Writer | None = None,
    now: float,
    version: str = "",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write what is wanted to `path` and return the manifest that was written beside it.

    `writer` writes a format that is not one of ours.
    """
    if path.exists() and not overwrite:
        raise Conflict(
            f"{str(path)!r} exists already.", code="file_exists", hint="Choose another name, or overwrite it (--force)."
        )
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in ("source", "task", "role", "status", "reward_version")
    }
    total, first, last = 0, None, None
    details = 0
    left_out: Counter[str] = Counter()
    try:
        with _whole(path) as scratch, _writing(scratch, format, writer, database, left_out) as write:
            for page in _pages(records(database, query, wanted, details=writer is None)):
                write(page)
                total += len(page)
                first = first or page[0]["at"]
                last = page[-1]["at"]
                for each in page:
                    for name, counter in counts.items():
                        counter[each[name] or "none"] += 1
                    details += sum(map(len, each["details"].values()))
                if progress is not None:
                    progress("export", total, None)
        manifest = {
            "format": MANIFEST_FORMAT,
            "file": path.name,
            "file_format": format,
            "bytes": path.stat().st_size,
            "sha256": _sha256(path),
            "decisions": total - left_out.total(),
            "details": details,
            "left_out": dict(sorted(left_out.items())),  # what the format cannot say; the other counts include it
            "first_at": first,
            "last_at": last,
            **{f"by_{name}": dict(sorted(counter.items())) for name, counter in counts.items()},
            "filters": {
                "tasks": list(wanted.tasks),
                "since": None if wanted.since is None else _time(wanted.since),
                "until": None if wanted.until is None else _time(wanted.until),
                "role": wanted.role,
                "source": wanted.source,
            },
            "exported_at": _time(now),
            "headway": version,
        }
        with _whole(path.with_name(f"{path.name}.manifest.json")) as scratch:
            scratch.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise Unavailable(
            f"{str(path)!r} could not be written: {error.strerror}.",
            code="disk_full" if error.errno == 28 else "export_not_written",
            hint="Check the folder, its permissions and the space on the disk; nothing was left behind.",
        ) from error
    return manifest


# -- reading


def records(database: Database, query: Query, wanted: Wanted, *, details: bool = True) -> Iterator[Record]:
    """What is wanted, one flat record per decision, in the store's order, in bounded memory."""
    where, values = _where(query, wanted)
    end = int(database.query("SELECT MAX(seq) FROM decisions")[0][0] or 0)
    sql = (
        f"SELECT {DECISION_COLUMNS} FROM {DECISION_TABLES} WHERE {where} AND d.seq <= ? AND d.seq > ? "
        "ORDER BY d.seq LIMIT ?"
    )
    for page in database.pages(sql, (*values, end), after=0, size=_PAGE):
        decisions = [decision_from_row(row) for row in page]
        outcomes = _outcomes(database, [each.seq for each in decisions])
        episodes = {each.situation.episode: _episode(each) for each in decisions if each.situation.episode is not None}
        signals = _signals(database, [*(each.id for each in decisions), *episodes.values()])
        detailed = having_details(database, [each.id for each in decisions]) if details else set()
        for each in decisions:
            status, reward, clipped, weight, reward_version = outcomes.get(each.seq, _NOTHING)
            of_episode = _episode(each) if each.situation.episode is not None else ""
            yield _record(each) | {
                "status": "repeats" if each.draw_id else status,  # the draw settles for all that repeat it
                "reward": reward,
                "clipped": clipped,
                "weight": weight,
                "reward_version": reward_version,
                "signals": signals.get(each.id, []),
                "episode_signals": signals.get(of_episode, []),
                "details": as_text(read_details(database, each.id)) if id_bytes(each.id) in detailed else {},
            }


def _where(query: Query, wanted: Wanted) -> tuple[str, list[Any]]:
    parts, values = ["1 = 1"], []
    if wanted.tasks:
        parts.append(f"d.task_id IN ({', '.join('?' * len(wanted.tasks))})")
        values += [query.name_id("task", each) for each in wanted.tasks]
    for sign, bound in ((">=", wanted.since), ("<", wanted.until)):
        if bound is not None:
            parts.append(f"d.at {sign} ?")
            values.append(microseconds(bound))
    if wanted.role is not None:
        parts.append("d.role_id = ?")
        values.append(query.name_id("role", wanted.role))
    if wanted.source is not None:
        parts.append("d.source = ?")
        values.append(SOURCES.index(wanted.source))
    return " AND ".join(parts), values


def _record(each: Decision) -> Record:
    situation = each.situation
    return {
        "id": each.id,
        "task": each.task,
        "at": _time(each.at),
        "text": situation.text,
        "state": dict(situation.state),
        "episode": situation.episode,
        "step": situation.step,
        "role": situation.role,
        "candidates": [
            {"name": candidate.name, **candidate.features} if candidate.features else candidate.name
            for candidate in each.candidates
        ],
        "probabilities": list(each.probabilities),
        "action": each.action,
        "propensity": each.propensity if each.propensity_known else None,
        "policy": each.policy,
        "policy_hash": each.policy_hash,
        "config_hash": each.config_hash,
        "encoder": each.encoder,
        "exploration": each.exploration,
        "seed": each.seed,
        "source": each.source,
        "draw": each.draw_id or None,
        "assigned": each.assigned or None,
        "state_seq": each.state_seq,
        "key": each.key,
    }


def _episode(decision: Decision) -> str:
    from headway.nouns.ids import episode_id

    return episode_id(decision.task, decision.situation.episode or "")


def _outcomes(database: Database, seqs: Sequence[int]) -> dict[int, _Outcome]:
    """The outcome that stands, by decision."""
    found: dict[int, _Outcome] = {}
    for some in _slices(seqs):
        rows = database.query(
            "SELECT s.decision, s.status, s.reward, s.clipped, COALESCE(s.weight, 1.0), v.name FROM settled s "
            f"JOIN names v ON v.id = s.version_id WHERE s.decision IN ({', '.join('?' * len(some))}) ORDER BY s.seq",
            some,
        )
        for decision, status, reward, clipped, weight, version in rows:
            found[decision] = (STATUSES[status], reward, bool(clipped), weight, version)
    return found


def _signals(database: Database, subjects: Sequence[str]) -> dict[str, list[Record]]:
    """Live signals by decision or episode id."""
    from headway.nouns.ids import id_text

    found: dict[str, list[Record]] = {}
    for some in _slices(subjects):
        rows = database.query(
            "SELECT g.subject, n.name, g.value, g.label, r.name, g.key, g.at FROM signals g "
            "JOIN names n ON n.id = g.name_id JOIN names r ON r.id = g.rater_id "
            f"WHERE g.subject IN ({', '.join('?' * len(some))}) AND g.withdrawn_by IS NULL AND g.value IS NOT NULL "
            "ORDER BY g.seq",
            [id_bytes(each) for each in some],
        )
        for subject, name, value, label, rater, key, at in rows:
            row = {
                "name": name,
                "value": value,
                "label": label or "",
                "rater": rater,
                "key": key,
                "at": _time(at / 1e6),
            }
            found.setdefault(id_text(subject), []).append(row)
    return found


def _slices(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(values), _MARKS):
        yield values[start : start + _MARKS]


def _pages(rows: Iterable[Record]) -> Iterator[list[Record]]:
    page: list[Record] = []
    heavy = 0
    for each in rows:
        page.append(each)
        heavy += sum(len(text) for by_name in each["details"].values() for text in by_name.values())
        if len(page) == _PAGE or heavy > _GROUP_BYTES:
            yield page
            page, heavy = [], 0
    if page:
        yield page


# -- writing


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file beside `path` that takes its place when the block ends well, and disappears when it does not."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)  # 0600: it may hold users' words
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def _writing(
    path: Path, format: str, writer: Writer | None, database: Database, left_out: Counter[str]
) -> Iterator[Write]:
    if format == "parquet":
        with _parquet(path) as write:
            yield write
    elif writer is not None:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield writer(file, database, left_out)
    elif format in ("jsonl", "csv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            yield _jsonl(file) if format == "jsonl" else _csv(file)
    else:
        raise InvalidInput(f"The format is {format!r}, expected one of {', '.join(FORMATS)}.", code="bad_format")


def _jsonl(file: IO[str]) -> Write:
    def write(page: Sequence[Record]) -> None:
        file.writelines(f"{dumps(each)}\n" for each in page)

    return write


def _csv(file: IO[str]) -> Write:
    rows = csv.writer(file)
    rows.writerow(_COLUMNS)

    def write(page: Sequence[Record]) -> None:
        rows.writerows([_cell(each[name]) for name in _COLUMNS] for each in page)

    return write


def _cell(value: object) -> object:
    """Numbers as they are, structures as JSON, and no text that a spreadsheet would take for a formula."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else dumps(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtra("Writing Parquet", "pyarrow", "parquet") from None
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

        def write(page: Sequence[Record]) -> None:
            rows = [each | {name: dumps(each[name]) for name in ("state", "candidates", "details")} for each in page]
            waiting.append(arrow.Table.from_pylist(rows, schema=schema))
            if sum(map(len, waiting)) >= _GROUP_ROWS or sum(each.nbytes for each in waiting) >= _GROUP_BYTES:
                flush()

        yield write
        flush()


_SIGNAL = ("name", "value", "label", "rater", "key", "at")
_COLUMNS = (
    "id", "task", "at", "text", "state", "episode", "step", "role", "candidates", "probabilities", "action",
    "propensity", "policy", "policy_hash", "config_hash", "encoder", "exploration", "seed", "source", "draw",
    "assigned", "state_seq", "key", "status", "reward", "clipped", "weight", "reward_version", "signals",
    "episode_signals", "details",
)  # fmt: skip


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
