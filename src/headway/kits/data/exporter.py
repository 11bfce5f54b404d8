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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from headway.files import open_regular
from headway.kits.data.export_files import FORMATS, GROUP_BYTES, FormatWriter, Record, Write, replacing, writing
from headway.kits.data.headway_format import as_text, having_details
from headway.nouns import Decision, Progress, Source, errors, ids
from headway.observe import STATUSES, Database, DecisionFilter, Query, stored_decisions

__all__ = ["FORMATS", "ExportFilter", "FormatWriter", "Write", "export", "records"]

MANIFEST_FORMAT = 1
_PAGE = 1000

# status, reward, clipped, weight, reward version, number of the row
_Outcome = tuple[str, float | None, bool, float, str | None, int | None]
_NOTHING: _Outcome = ("pending", None, False, 1.0, None, None)


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
            for page in _pages(records(database, query, wanted, details=writer is None)):
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

    def add(self, page: Sequence[Record]) -> None:
        self.total += len(page)
        self.first = self.first or page[0]["at"]
        self.last = page[-1]["at"]
        for record in page:
            for name, counter in self.counts.items():
                counter[record[name] or "none"] += 1
            self.details += sum(map(len, record["details"].values()))

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


def records(database: Database, query: Query, wanted: ExportFilter, *, details: bool = True) -> Iterator[Record]:
    """One flat record per selected decision, in the order of the store, in bounded memory."""
    chosen = DecisionFilter(since=wanted.since, until=wanted.until, role=wanted.role, source=wanted.source)
    upto = int(database.query("SELECT MAX(seq) FROM decisions")[0][0] or 0)
    found = stored_decisions(database, chosen, tasks=wanted.tasks, upto=upto, size=_PAGE)
    while decisions := list(islice(found, _PAGE)):
        outcomes = _outcomes(database, [decision.seq for decision in decisions])
        episodes = {
            decision.situation.episode: _episode(decision)
            for decision in decisions
            if decision.situation.episode is not None
        }
        signals = _signals(database, [*(decision.id for decision in decisions), *episodes.values()])
        detailed = having_details(database, [decision.id for decision in decisions]) if details else set()
        for decision in decisions:
            status, reward, clipped, weight, reward_version, settled = outcomes.get(decision.seq, _NOTHING)
            of_episode = _episode(decision) if decision.situation.episode is not None else ""
            yield _record(decision) | {
                "status": _status(decision, status),
                "reward": reward,
                "clipped": clipped,
                "weight": weight,
                "reward_version": reward_version,
                "settled": settled,
                "signals": signals.get(decision.id, []),
                "episode_signals": signals.get(of_episode, []),
                "details": as_text(query.all_details(decision.id)) if ids.raw(decision.id) in detailed else {},
            }


def _record(decision: Decision) -> Record:
    situation = decision.situation
    return {
        "id": decision.id,
        "task": decision.task,
        "at": _time(decision.at),
        "text": situation.text,
        "state": dict(situation.state),
        "episode": situation.episode,
        "step": situation.step,
        "role": situation.role,
        "candidates": [
            {"name": candidate.name, **candidate.features} if candidate.features else candidate.name
            for candidate in decision.candidates
        ],
        "probabilities": list(decision.probabilities),
        "action": decision.action,
        "propensity": decision.propensity or None,
        "policy": decision.policy,
        "policy_hash": decision.policy_hash,
        "config_hash": decision.config_hash,
        "encoder": decision.encoder,
        "exploration": decision.exploration,
        "seed": decision.seed,
        "source": decision.source,
        "draw": decision.draw_id or None,
        "unit": decision.unit or None,
        "position": decision.position,
        "assigned": decision.assigned or None,
        "state_seq": decision.state_seq,
        "key": decision.key,
    }


def _status(decision: Decision, status: str) -> str:
    """The draw settles for its repeats, and the first attempt for the others."""
    return "attempt" if decision.draw_id and decision.unit else "repeats" if decision.draw_id else status


def _episode(decision: Decision) -> str:
    return ids.episode(decision.task, decision.situation.episode or "")


def _outcomes(database: Database, seqs: Sequence[int]) -> dict[int, _Outcome]:
    """The current outcome, by decision."""
    outcomes: dict[int, _Outcome] = {}
    for decision, code, reward, clipped, weight, version, seq in database.query_in(
        "SELECT s.decision, s.status, s.reward, s.clipped, COALESCE(s.weight, 1.0), v.name, s.seq FROM settled s "
        "JOIN names v ON v.id = s.version_id WHERE s.decision IN ({}) ORDER BY s.seq",
        seqs,
    ):
        status = STATUSES[code]
        place = None if status == "pending" else seq
        outcomes[decision] = (status, reward, bool(clipped), weight, version, place)
    return outcomes


def _signals(database: Database, subjects: Sequence[str]) -> dict[str, list[Record]]:
    """Live signals by decision or episode id."""
    signals: dict[str, list[Record]] = {}
    for subject, name, value, label, rater, key, at in database.query_in(
        "SELECT g.subject, n.name, g.value, g.label, r.name, g.key, g.at FROM signals g "
        "JOIN names n ON n.id = g.name_id JOIN names r ON r.id = g.rater_id "
        "WHERE g.subject IN ({}) AND g.withdrawn_by IS NULL AND g.value IS NOT NULL ORDER BY g.seq",
        map(ids.raw, subjects),
    ):
        row = {
            "name": name, "value": value, "label": label or "", "rater": rater, "key": key, "at": _time(at / 1e6)
        }  # fmt: skip
        signals.setdefault(ids.text(subject), []).append(row)
    return signals


def _pages(rows: Iterable[Record]) -> Iterator[list[Record]]:
    page: list[Record] = []
    size = 0
    for row in rows:
        page.append(row)
        size += sum(len(text) for by_name in row["details"].values() for text in by_name.values())
        if len(page) == _PAGE or size > GROUP_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def _sha256(path: Path) -> str:
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
