"""Decisions as SAGE routing rows, schema "1", one JSON object per line, in SAGE's spelling.

An imported row is exported byte for byte, except for a reward that was replaced since. Any other decision between two
candidates becomes a row with the first as primary and the second as fallback model. Decisions that the format cannot
represent (no reward, or not two candidates) are skipped and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import IO, Any

from headway.kits.formats.sage import FIELDS
from headway.nouns import ids
from headway.observe import Database

Record = dict[str, Any]
_MARKS = 500


def writer(file: IO[str], database: Database, left_out: Counter[str]) -> Callable[[Sequence[Record]], None]:
    """A function that writes pages of exported records as routing rows."""

    def write(page: Sequence[Record]) -> None:
        rest = _rest(database, [record["id"] for record in page])
        for record in page:
            row, why = _row(record, rest.get(record["id"]))
            if row is None:
                left_out[why] += 1
            else:
                file.write(f"{json.dumps(row, ensure_ascii=False)}\n")

    return write


def _rest(database: Database, decisions: Sequence[str]) -> dict[str, Record]:
    rests: dict[str, Record] = {}
    for start in range(0, len(decisions), _MARKS):
        some = [ids.raw(id_) for id_ in decisions[start : start + _MARKS]]
        rows = database.query(
            "SELECT i.decision, i.rest FROM imported i JOIN imports f ON f.id = i.import_id "
            f"WHERE f.format = 'sage-routing' AND i.decision IN ({', '.join('?' * len(some))})",
            some,
        )
        rests.update({ids.text(bytes(raw)): json.loads(rest) for raw, rest in rows if rest is not None})
    return rests


def _row(record: Record, rest: Record | None) -> tuple[Record | None, str]:
    signals = {signal["name"]: signal["value"] for signal in record["signals"]}
    if rest is not None:
        return _imported_row(rest, signals)
    reward = record["reward"] if record["reward"] is not None else signals.get("reward")
    if reward is None:
        return None, "no reward"
    names = [one if isinstance(one, str) else one["name"] for one in record["candidates"]]
    if len(names) != 2:
        return None, "not two candidates"
    session, _, task = (record["episode"] or "").partition("/")
    state = record["state"]
    values = (
        "1",
        session,
        task or record["id"],
        record["role"],
        record["at"],
        state.get("task_complexity_score", 0.0),
        state.get("primary_failure_count", 0),
        names.index(record["action"]),
        names[0],
        names[1],
        record["action"],
        reward,
        bool(signals.get("terminal", 1.0)),
        record["reward_version"] or "",
        "synthetic" if record["source"] == "synthetic" else "real",
        state,
    )
    return dict(zip(FIELDS, values, strict=True)), ""


def _imported_row(rest: Record, signals: Record) -> tuple[Record | None, str]:
    """The row as it was imported, with the reward that it has now."""
    if rest.get("reward") is not None and "reward" not in signals:
        return None, "reward withdrawn"
    if "reward" in signals and signals["reward"] != rest.get("reward"):
        rest["reward"] = signals["reward"]
    return rest, ""
