"""Requests and episodes: several decisions with one outcome.

A request is a decision and the attempts that followed it; its action and propensity are those of the first one. An
episode is the decisions of one name, in a task with `unit = "episode"`. Every decision of a unit is stored, and the
first one counts (`rows.LEADS`): its outcome is the whole unit's.

    unit_signals(database, subjects)         # what was said about the units of these decisions, folded
    fold_attempts(connection)                # attempts that an older version stored as decisions with a link

Money, time and tokens are added up; the cost is missing if that of any attempt is unknown. Of everything else the last
word counts: of the last attempt or step that has it, and of the episode itself before any of its steps. A unit has
failed if its last attempt or step has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from headway.nouns import errors, ids
from headway.observe.database import Connection, Database, chunks, placeholders
from headway.observe.rows import LEADS, STATUSES
from headway.observe.totals import forget_blocks, forget_totals

ATTEMPT, PROXY = "attempt", "proxy:"  # the signal that links, and its rater: whoever links can hide a decision
SUMMED = ("cost_usd", "latency_s", "prompt_tokens", "completion_tokens", "cached_tokens")
_FAILED = "failed"
_UNKNOWN = {"cost_unknown": "cost_usd"}  # a sum without a part that nobody knows would be too small
_Place = tuple[int, int]  # position, and the store's number, which tells attempts with the same position apart
_FIRST: _Place = (0, 0)
_WHOLE: _Place = (2**62, 0)  # the place of what is said of an episode as a whole
_PENDING = STATUSES.index("pending")
_LIVE = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"

UnitSignal = tuple[int, int, float]  # rater, signal, value
_Given = tuple[_Place, int, int, float]  # place, rater, signal, value


def has_units(database: Database) -> bool:
    """Whether any decision shares its outcome: 5 µs, so that others pay nothing else."""
    return bool(database.query("SELECT 1 FROM decisions WHERE unit IS NOT NULL LIMIT 1"))


def unit_signals(database: Database, subjects: Collection[bytes]) -> dict[bytes, list[UnitSignal]]:
    """What was said of the units of these decisions, by decision; those that are alone are not included."""
    if not subjects or not has_units(database):
        return {}
    unit_of: dict[bytes, bytes] = {}
    for chunk in chunks(list(subjects)):
        marks = placeholders(chunk)
        rows = database.query(
            f"SELECT id, unit FROM decisions WHERE id IN ({marks}) AND unit IS NOT NULL "
            f"UNION SELECT unit, unit FROM decisions WHERE unit IN ({marks})",
            (*chunk, *chunk),
        )
        unit_of.update((bytes(decision), bytes(unit)) for decision, unit in rows)
    names: Mapping[int, str] = dict(database.query("SELECT id, name FROM names WHERE kind = 'signal'"))
    folded: dict[bytes, list[UnitSignal]] = {}
    for chunk in chunks(sorted(set(unit_of.values()))):
        folded |= _folded(database, chunk, names)
    return {decision: folded.get(unit, []) for decision, unit in unit_of.items()}


def whole_signals(database: Database, draws: Sequence[bytes]) -> dict[bytes, list[tuple[int, float]]]:
    """What was said (signal, value) of draws with attempts or steps: these are folded, and repeats added."""
    if not draws or not has_units(database):
        return {}
    lead_of = {bytes(raw): bytes(raw) for raw in draws}
    repeats = f"SELECT id, draw FROM decisions WHERE draw IN ({placeholders(draws)}) AND position IS NULL"
    lead_of.update((bytes(raw), bytes(lead)) for raw, lead in database.query(repeats, draws))
    units = {raw: said for raw, said in unit_signals(database, lead_of).items() if raw in lead_of}
    whole: dict[bytes, list[tuple[int, float]]] = {lead_of[raw]: [] for raw in units}
    for raw, said in units.items():
        whole[lead_of[raw]] += [(name, value) for _, name, value in said]
    alone = [raw for raw, lead in lead_of.items() if lead in whole and raw not in units]
    for chunk in chunks(alone):
        only = f"g.subject IN ({placeholders(chunk)}) AND {_LIVE}"
        rows = database.query(f"SELECT g.subject, g.name_id, g.value FROM signals g WHERE {only}", chunk)
        for raw, name, value in rows:
            whole[lead_of[bytes(raw)]].append((name, value))
    for chunk in chunks([*whole]):  # of a conversation; in the unit already if that is the episode
        rows = database.query(
            "SELECT d.id, g.name_id, g.value FROM decisions d JOIN signals g ON g.subject = d.episode "
            f"WHERE d.id IN ({placeholders(chunk)}) AND (d.unit IS NULL OR d.unit <> d.episode) AND {_LIVE}",
            chunk,
        )
        for raw, name, value in rows:
            whole[bytes(raw)].append((name, value))
    return whole


def _folded(database: Database, units: Sequence[bytes], names: Mapping[int, str]) -> dict[bytes, list[UnitSignal]]:
    marks = placeholders(units)
    places = (
        f"SELECT unit, COALESCE(position, 0) AS place, seq FROM decisions WHERE unit IN ({marks}) ORDER BY place, seq"
    )
    last: dict[bytes, _Place] = {bytes(unit): (position, seq) for unit, position, seq in database.query(places, units)}
    given: dict[bytes, list[_Given]] = {}
    for unit, position, seq, *rest in database.query(
        "SELECT d.unit, COALESCE(d.position, 0), d.seq, g.rater_id, g.name_id, g.value FROM decisions d "
        f"JOIN signals g ON g.subject = d.id WHERE d.unit IN ({marks}) AND {_LIVE} UNION ALL "
        "SELECT g.subject, -1, 0, g.rater_id, g.name_id, g.value FROM signals g "
        f"WHERE g.subject IN ({marks}) AND {_LIVE}",
        (*units, *units),
    ):
        whole = _WHOLE if ids.is_episode(ids.text(bytes(unit))) else _FIRST
        given.setdefault(bytes(unit), []).append(((position, seq) if position >= 0 else whole, *rest))
    return {unit: list(_counting(rows, last[unit], names)) for unit, rows in given.items()}


def _counting(given: Sequence[_Given], last: _Place, names: Mapping[int, str]) -> Iterator[UnitSignal]:
    """The signals of a unit that count; those of each rater that are added up, as their sum."""
    latest: dict[int, _Place] = {}
    for place, _, name, _ in given:
        latest[name] = max(place, latest.get(name, _FIRST))
    unknown = {(rater, _UNKNOWN[said]) for _, rater, name, _ in given if (said := names.get(name, "")) in _UNKNOWN}
    sums: dict[tuple[int, int], list[float]] = {}
    for place, rater, name, value in sorted(given):
        known = names.get(name, "")
        if (rater, known) in unknown and latest[name] < _WHOLE:
            continue
        if known in SUMMED and latest[name] < _WHOLE:
            sums.setdefault((rater, name), []).append(value)
        elif place == latest[name] and (known != _FAILED or place >= last):
            yield rater, name, value
    for (rater, name), values in sums.items():
        yield rater, name, sum(values)


def unpriced(database: Database, requests: Collection[bytes], cost: int) -> set[bytes]:
    """Those of these requests whose cost is not known: an attempt has no cost, and was not refused with an error.

    `cost` is the number of its signal. An answer with a status from 400 costs nothing.
    """
    unknown: set[bytes] = set()
    status = database.query("SELECT id FROM names WHERE kind = 'signal' AND name = 'http_status'")
    for chunk in chunks(list(requests)):
        marks = placeholders(chunk)
        rows = database.query(
            f"SELECT COALESCE(d.unit, d.id) FROM decisions d WHERE (d.id IN ({marks}) OR d.unit IN ({marks})) "
            f"AND NOT EXISTS (SELECT 1 FROM signals g WHERE g.subject = d.id AND {_LIVE} "
            "AND (g.name_id = ? OR (g.name_id = ? AND g.value >= 400)))",
            (*chunk, *chunk, cost, status[0][0] if status else 0),
        )
        unknown.update(bytes(unit) for (unit,) in rows)
    return unknown


def decisions_about(database: Database, after: int) -> list[int]:
    """The numbers of the decisions that signals after this one may be about, also by their unit or draw."""
    said = [bytes(row[0]) for row in database.query("SELECT DISTINCT subject FROM signals WHERE seq > ?", (after,))]
    about: set[bytes] = set(said)
    for chunk in chunks(said):
        rows = database.query(f"SELECT unit, draw FROM decisions WHERE id IN ({placeholders(chunk)})", chunk)
        about.update(bytes(one) for row in rows for one in row if one is not None)
    found: set[int] = set()
    for chunk in chunks(sorted(about)):
        for column in ("id", "unit", "draw", "episode"):
            rows = database.query(f"SELECT seq FROM decisions WHERE {column} IN ({placeholders(chunk)})", chunk)
            found.update(int(seq) for (seq,) in rows)
    return sorted(found)


# -- decisions that share one result although each is a unit: steps of an episode that is rated as a whole

_LATEST = 1000  # decisions


def rated_as_a_whole(database: Database, task_id: int, names: Sequence[int]) -> bool:
    """Whether any of the latest decisions of a task shares its result with other steps of its episode."""
    counts = f" AND g.name_id IN ({placeholders(names)})" if names else ""
    latest = f"SELECT d.episode FROM decisions d WHERE d.task_id = ? AND d.unit IS NULL AND {LEADS} ORDER BY d.seq DESC"
    rows = database.query(
        f"SELECT 1 FROM ({latest} LIMIT {_LATEST}) AS l JOIN signals g ON g.subject = l.episode "
        f"WHERE g.withdrawn_by IS NULL AND g.value IS NOT NULL{counts} "
        "AND 1 < (SELECT COUNT(*) FROM decisions o WHERE o.episode = l.episode AND o.draw IS NULL) LIMIT 1",
        (task_id, *names),
    )
    return bool(rows)


def shared_results(database: Database, task_id: int, names: Sequence[int]) -> frozenset[int]:
    """Which draws of a task share a result; `names` are the signals that count, all if there are none."""
    counts = f" AND g.name_id IN ({placeholders(names)})" if names else ""
    steps = database.query(
        "SELECT d.seq FROM episodes e JOIN decisions d ON d.episode = e.id AND d.unit IS NULL "
        f"AND {LEADS} WHERE e.task_id = ? "
        "AND 1 < (SELECT COUNT(*) FROM decisions o WHERE o.episode = e.id AND o.draw IS NULL) "
        "AND EXISTS (SELECT 1 FROM signals g WHERE g.subject = e.id AND g.withdrawn_by IS NULL "
        f"AND g.value IS NOT NULL{counts})",
        (task_id, *names),
    )
    return frozenset(row[0] for row in steps)


# -- attempts that were stored as decisions


def fold_attempts(connection: Connection, decisions: Sequence[bytes] | None = None) -> None:
    """Make requests of attempts that the proxy linked, of these decisions or of all; the caller's transaction.

    An attempt names the one before. It does not count from now on: the first one settles for it.
    """
    rows = _linked(connection, decisions)
    folded: list[bytes] = []
    for raw, task, seq, label in rows:
        with suppress(errors.InvalidInput):
            before = ids.raw(ids.parse_decision(label))
            found = connection.execute(
                "SELECT unit, COALESCE(position, 0), draw, task_id, seq FROM decisions WHERE id = ?", (before,)
            ).fetchone()
            unit, position, draw, of_task, earlier = found or (None, 0, None, task, 0)
            if of_task == task and earlier < seq:
                unit = unit or before
                connection.execute(
                    "UPDATE decisions SET unit = ?, position = ?, draw = COALESCE(draw, ?) WHERE id = ?",
                    (unit, position + 1, draw or unit, raw),
                )
                folded.append(raw)
    if folded:
        _unsettle(connection, folded)
        forget_totals(connection)
        if decisions is None:  # the signals of all first attempts are judged again
            connection.execute("DELETE FROM marks WHERE name = 'signals'")
        else:  # a store of that version had no blocks
            forget_blocks(connection)


def _linked(connection: Connection, decisions: Sequence[bytes] | None) -> list[Any]:
    only = "" if decisions is None else f" AND d.id IN ({placeholders(decisions)})"
    return connection.execute(
        "SELECT d.id, d.task_id, d.seq, g.label FROM signals g JOIN names n ON n.id = g.name_id "
        "JOIN names r ON r.id = g.rater_id JOIN decisions d ON d.id = g.subject WHERE n.kind = 'signal' "
        "AND n.name = ? AND r.kind = 'rater' AND r.name = ? AND g.label <> '' AND d.unit IS NULL "
        f"AND {_LIVE}{only} ORDER BY d.seq",
        (ATTEMPT, PROXY, *(decisions or ())),
    ).fetchall()


def _unsettle(connection: Connection, decisions: Sequence[bytes]) -> None:
    """Take the outcomes of these decisions back, by rows that replace them."""
    for chunk in chunks(decisions):
        connection.execute(
            "INSERT INTO settled (task_id, decision, status, version_id, clipped, replaces, at) "
            f"SELECT s.task_id, s.decision, {_PENDING}, s.version_id, 0, s.seq, s.at FROM settled s "
            f"JOIN decisions d ON d.seq = s.decision WHERE d.id IN ({placeholders(chunk)}) AND s.status <> {_PENDING} "
            "AND NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq)",
            chunk,
        )
