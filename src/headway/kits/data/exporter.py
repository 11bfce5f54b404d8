"""Export decisions with their signals and outcomes to a file: JSON lines, Parquet or CSV.

    manifest = export(database, query, Path("route.jsonl"), ExportFilter(tasks=("route",), since=1.7e9), format="jsonl")

Streams in bounded memory, up to the last decision at the start of the export. The file appears complete or not at all.
A manifest next to it (`route.jsonl.manifest.json`) lists its content: counts, filters, reward versions, SHA-256.

A CSV cell that a spreadsheet would run as a formula is prefixed with an apostrophe. Details that kits store with a
decision are under `details`, by kit and name, in base64. Not covered: withdrawn and replaced signals (only live signals
are exported), policies and the ledger.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from headway.files import open_regular
from headway.kits.data.export_files import (
    FORMATS,
    GROUP_BYTES,
    Columns,
    FormatWriter,
    Record,
    Write,
    replacing,
    writing,
)
from headway.kits.data.headway_format import as_text
from headway.nouns import SOURCES, Progress, Source, errors, ids
from headway.observe import STATUSES, Database, DecisionFilter, Query, decode_candidates, loads, stored_rows

__all__ = ["FORMATS", "ExportFilter", "FormatWriter", "Write", "export"]

MANIFEST_FORMAT = 1
_PAGE = 2000
_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilter:
    """Which decisions to export, all by default. `since` is inclusive, `until` exclusive; in seconds since 1970."""

    tasks: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    role: str | None = None
    source: Source | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "tasks": list(self.tasks),
            "since": None if self.since is None else _time(self.since),
            "until": None if self.until is None else _time(self.until),
            "role": self.role,
            "source": self.source,
        }


def export(
    database: Database,
    query: Query,
    path: Path,
    wanted: ExportFilter,
    *,
    format: str = "jsonl",
    writer: FormatWriter | None = None,
    now: float,
    version: str = "",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the selected decisions to `path`, and the manifest next to it; returns the manifest.

    `writer` writes a format that a kit adds.
    """
    tally = _ExportTally()
    left_out: Counter[str] = Counter()
    try:
        with (
            replacing(path, overwrite=overwrite) as scratch,
            writing(scratch, format, writer, database, left_out) as write,
        ):
            for page in _ExportReader(database, query, details=writer is None).pages(wanted):
                write(page)
                tally.add(page)
                if progress is not None:
                    progress("export", tally.total, None)
        manifest = {
            "format": MANIFEST_FORMAT,
            "file": path.name,
            "file_format": format,
            "bytes": path.stat().st_size,
            "sha256": _sha256(path),
            **tally.manifest(left_out),
            "filters": wanted.to_json(),
            "exported_at": _time(now),
            "headway": version,
        }
        with replacing(path.with_name(f"{path.name}.manifest.json")) as scratch:
            scratch.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise errors.Unavailable(
            f"{str(path)!r} could not be written: {error.strerror}.",
            code="disk_full" if error.errno == 28 else "export_not_written",
            hint="Check the folder, its permissions and the free space; no partial file remains.",
        ) from error
    return manifest


class _ExportTally:
    """Counts of the exported records, for the manifest."""

    def __init__(self) -> None:
        self.total = self.details = 0
        self.first: str | None = None
        self.last: str | None = None
        names = ("source", "task", "role", "status", "reward_version")
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in names}

    def add(self, page: Columns) -> None:
        self.total += len(page["id"])
        self.first = self.first or page["at"][0]
        self.last = page["at"][-1]
        for name, counter in self.counts.items():
            counter.update([value or "none" for value in page[name]])
        self.details += sum(len(by_name) for details in filter(None, page["details"]) for by_name in details.values())

    def manifest(self, left_out: Counter[str]) -> dict[str, Any]:
        return {
            "decisions": self.total - left_out.total(),
            "details": self.details,
            "left_out": dict(sorted(left_out.items())),  # the format cannot express these; other counts include them
            "first_at": self.first,
            "last_at": self.last,
            **{f"by_{name}": dict(sorted(counter.items())) for name, counter in self.counts.items()},
        }


# -- reading

_ROW = (
    "d.id, d.task_id, d.episode, d.step, d.at, d.text, d.state, d.candidate_set_id, d.probabilities, d.action, "
    "d.propensity, d.policy_id, d.seed, d.config_id, d.exploration_id, d.source, d.role_id, d.key_id, d.draw, "
    "d.assigned_id, d.state_seq, d.unit, d.position, "
    f"COALESCE(s.status, {STATUSES.index('pending')}), s.reward, COALESCE(s.clipped, 0), COALESCE(s.weight, 1.0), "
    "s.version_id, s.seq"
)


class _ExportReader:
    """Reads what is exported, column by column."""

    def __init__(self, database: Database, query: Query, *, details: bool) -> None:
        self._database, self._query, self._details = database, query, details
        self._known: dict[str, dict[Any, Any]] = {}

    def pages(self, wanted: ExportFilter) -> Iterator[Columns]:
        """The selected decisions in the order of the store, a value of each field per decision, in bounded memory."""
        one = wanted.tasks[0] if len(wanted.tasks) == 1 else None  # which an index finds in the order of the store
        since, until = wanted.since, wanted.until
        chosen = DecisionFilter(task=one, since=since, until=until, role=wanted.role, source=wanted.source)
        upto = int(self._database.query("SELECT MAX(seq) FROM decisions")[0][0] or 0)
        for rows in stored_rows(self._database, _ROW, chosen, tasks=() if one else wanted.tasks, upto=upto, size=_PAGE):
            try:
                page = self._columns(rows)
            except (ValueError, TypeError, KeyError, IndexError, OverflowError, struct.error) as error:
                for row in rows:
                    self._query.decision(ids.text(row[1]))  # says which one is damaged, and how
                raise errors.Damaged(
                    f"A row from {rows[0][0]} to {rows[-1][0]} of the store is damaged: {error}.",
                    code="store_damaged",
                    hint="Run `headway doctor`; restore the store from a backup.",
                ) from error
            sizes = self._sizes([row[1] for row in rows])
            start = 0
            while start < len(rows):  # fewer together where details are large
                stop, size = start + 1, sizes.get(rows[start][1], 0)
                while stop < len(rows) and (size := size + sizes.get(rows[stop][1], 0)) <= GROUP_BYTES:
                    stop += 1
                some = {name: column[start:stop] for name, column in page.items()}
                some["details"] = [
                    as_text(self._query.all_details(ids.text(row[1]))) if row[1] in sizes else {}
                    for row in rows[start:stop]
                ]
                yield some
                start = stop

    def _sizes(self, raw: Sequence[bytes]) -> dict[bytes, int]:
        """The size of the details of these decisions, of those that have any."""
        sql = "SELECT decision, SUM(length(data)) FROM details WHERE decision IN ({}) GROUP BY decision"
        return {} if not self._details else dict(self._database.query_in(sql, raw))

    def _columns(self, rows: Sequence[Sequence[Any]]) -> Columns:
        (_, raw, task, episode, step, at, text, state, offered, chances, action, propensity, policy, seed, config,
         exploration, source, role, key, draw, assigned, state_seq, unit, position, status, reward, clipped, weight,
         version, settled) = map(list, zip(*rows, strict=True))  # fmt: skip
        identifiers = list(map(ids.text, raw))
        sets = self._found("candidate_sets", "body", offered, _offered)
        policies = self._found("policies", "ref, hash", policy)
        configs = self._found("configs", "hash, body", config, lambda digest, body: (digest, _encoder_of(body)))
        episodes = self._found("episodes", "name", episode)
        names = self._found("names", "name", [*task, *exploration, *role, *key, *assigned, *version])
        signals = self._signals([*raw, *{one for one in episode if one is not None}])
        if not (
            min(action) >= 0
            and 0.0 <= min(propensity) <= max(propensity) <= 1.0
            and set(map(type, text)) <= {str}
            and all(one is None or one >= 0 for one in step)
        ):
            raise ValueError("a value is none")
        states = [{} if one == "{}" else loads(one) for one in state]
        probabilities = [list(struct.unpack(f"<{len(one) // 8}d", one)) for one in chances]
        if not all(
            not one or len(one) == len(sets[place][0]) for one, place in zip(probabilities, offered, strict=True)
        ):
            raise ValueError("a probability is none")
        return {
            "id": identifiers,
            "task": [names[one] for one in task],
            "at": _times(at),
            "text": text,
            "state": states,
            "episode": [episodes.get(one) for one in episode],
            "step": step,
            "role": [names[one] for one in role],
            "candidates": [sets[place][0] for place in offered],
            "probabilities": probabilities,
            "action": [sets[place][1][one] for place, one in zip(offered, action, strict=True)],
            "propensity": [one or None for one in propensity],
            "policy": [policies[one][0] for one in policy],
            "policy_hash": [policies[one][1] for one in policy],
            "config_hash": [configs[one][0] for one in config],
            "encoder": [configs[one][1] for one in config],
            "exploration": [names[one] for one in exploration],
            "seed": [one & 0xFFFFFFFFFFFFFFFF for one in seed],
            "source": [SOURCES[one] for one in source],
            "draw": [ids.text(one) if one else None for one in draw],
            "unit": [ids.text(one) if one else None for one in unit],
            "position": [one or 0 for one in position],
            "assigned": [names.get(one) for one in assigned],
            "state_seq": state_seq,
            "key": [names[one] for one in key],
            # the draw settles for its repeats, and the first attempt for the others
            "status": [
                STATUSES[one] if repeats is None else "repeats" if of is None else "attempt"
                for one, repeats, of in zip(status, draw, unit, strict=True)
            ],
            "reward": reward,
            "clipped": list(map(bool, clipped)),
            "weight": weight,
            "reward_version": [names.get(one) for one in version],
            "settled": [None if STATUSES[one] == "pending" else seq for one, seq in zip(status, settled, strict=True)],
            "signals": [signals.get(one, []) for one in raw],
            "episode_signals": [signals.get(one, []) for one in episode],
        }

    def _found(self, table: str, columns: str, values: Iterable[Any], of: Callable[..., Any] | None = None) -> Any:
        """Interned values by their number."""
        known = self._known.setdefault(table, {})
        if len(known) > _REMEMBERED:
            known.clear()
        missing = {value for value in values if value is not None} - known.keys()
        for number, *found in self._database.query_in(f"SELECT id, {columns} FROM {table} WHERE id IN ({{}})", missing):
            known[number] = of(*found) if of is not None else found if len(found) > 1 else found[0]
        return known

    def _signals(self, subjects: Sequence[bytes]) -> dict[bytes, list[Record]]:
        """Live signals by decision or episode."""
        rows = list(
            self._database.query_in(
                "SELECT g.subject, g.name_id, g.value, g.label, g.rater_id, g.key, g.at FROM signals g "
                "WHERE g.subject IN ({}) AND g.withdrawn_by IS NULL AND g.value IS NOT NULL ORDER BY g.seq",
                subjects,
            )
        )
        names = self._found("names", "name", [number for row in rows for number in (row[1], row[4])])
        signals: dict[bytes, list[Record]] = {}
        for (subject, name, value, label, rater, key, _), at in zip(
            rows, _times([row[6] for row in rows]), strict=True
        ):
            row = {
                "name": names[name],
                "value": value,
                "label": label or "",
                "rater": names[rater],
                "key": key,
                "at": at,
            }
            signals.setdefault(subject, []).append(row)
        return signals


def _offered(body: str) -> tuple[list[Any], list[str]]:
    """Candidates as they are exported, and their names."""
    candidates = decode_candidates(body)
    return [{"name": one.name, **one.features} if one.features else one.name for one in candidates], [
        one.name for one in candidates
    ]


def _encoder_of(config: str) -> str:
    return str(loads(config).get("encoder", ""))


def _times(microseconds: Sequence[int]) -> list[str]:
    times: list[str] = np.datetime_as_string(np.array(microseconds, dtype="M8[us]"), unit="us").tolist()
    return [f"{time}Z" for time in times]


def _sha256(path: Path) -> str:
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
