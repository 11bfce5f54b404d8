"""The decisions of a task and what came of them as columns, in blocks of 65,536 numbers of the store.

    frame = TaskFrame(database, task_id)
    for block in frame.blocks():                       # in the order of the store, in bounded memory
        block.reward[block.leads & (block.settled <= upto)]
    seal(database, task_id)                            # stores the columns of whole blocks

Whoever asks about many decisions reads columns, and makes a record only of the rows that it needs (`Query.outcomes`).
A block is stored as two packed arrays, `decided` and `outcomes`, and one with a byte per row for every way to split the
rows. Stored columns are a cache: they are written once no further decision can get a number of the block, hold no text
and no hash of one, and are dropped by every deletion, as is what learners keep beside them. A block that is missing,
damaged or of another version is read from rows, and stored again by the next `seal`.

Outcomes change later, but their log is only appended to. A mark says up to which row of it the stored outcomes hold at
least, and a reader applies the rows after it, twice if need be: no new reward or withdrawal makes a stored block wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.nouns import ELSEWHERE, Candidate, Floats, Situation, errors
from headway.observe.database import Connection, Database, Row, chunks, placeholders
from headway.observe.rows import BLOCK, LEADS, decode_candidates, situation_of

_VERSION = b"1"
_PAGE = 16_384
_TOGETHER = 2000  # decisions whose texts are read at once
_MARK, HEAD, PROOF = -1, -2, -3  # under which the mark is stored, what is said of the first rows, and of proofs
_MOST_SETS = 100_000  # that are remembered: they may be unique per decision
_LATE = 20_000  # rows of the outcome log that a reader may have to apply

Whole = NDArray[np.int64]
Codes = NDArray[np.int32]
Small = NDArray[np.int8]
Flags = NDArray[np.bool_]
_Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Columns with one element per decision, by its number. Interned values are the store's numbers."""

    seq: Whole
    at: Whole  # microseconds
    candidates: Codes  # the candidate set …
    action: Codes  # … and the place of the action in it
    propensity: Floats  # 0 if unknown
    known: Flags  # the probabilities of all candidates are stored
    policy: Codes
    config: Codes
    exploration: Codes
    role: Codes
    source: Small  # an index of SOURCES
    leads: Flags  # it counts: see `rows.LEADS`
    settled: Whole  # the number of the present outcome in its log; 0 without one
    first: Whole  # the number of the first outcome
    reward: Floats  # NaN without one
    weight: Floats
    status: Small  # an index of STATUSES
    clipped: Flags

    def __len__(self) -> int:
        return int(self.seq.size)

    def part(self, start: int, stop: int) -> Block:
        """Consecutive rows."""
        return Block(**{name: getattr(self, name)[start:stop] for name in _NAMES})

    def where(self, chosen: Flags | Whole) -> Block:
        """Only these rows."""
        return Block(**{name: getattr(self, name)[chosen] for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Block))
_DECIDED, _OUTCOMES = _NAMES[:12], _NAMES[12:]
_LOG = ("log", "decision", "reward", "weight", "status", "clipped")
_TYPES: Mapping[str, type[np.generic]] = {
    **dict.fromkeys(("seq", "at", "settled", "first", "log", "decision"), np.int64),
    **dict.fromkeys(("candidates", "action", "policy", "config", "exploration", "role"), np.int32),
    **dict.fromkeys(("propensity", "reward", "weight"), np.float64),
    **dict.fromkeys(("source", "status"), np.int8),
    **dict.fromkeys(("known", "leads", "clipped"), np.bool_),
}
_READ_DECIDED = (
    "SELECT d.seq, d.at, d.candidate_set_id, d.action, d.propensity, length(d.probabilities) > 0, d.policy_id, "
    f"d.config_id, d.exploration_id, d.role_id, d.source, {LEADS} FROM decisions d "
    "WHERE d.task_id = ? AND d.seq >= ? AND d.seq < ? ORDER BY d.seq"
)
_READ_LOG = "SELECT seq, decision, reward, COALESCE(weight, 1.0), status, clipped FROM settled WHERE "


class TaskFrame:
    """The columns of one task, for one reader. What is not stored is read once, so that every pass sees the same."""

    def __init__(self, database: Database, task_id: int, task: str = "") -> None:
        self._database, self._task_id, self.task = database, task_id, task
        self._open: dict[int, Block] = {}  # blocks that were read from rows
        self._open_parts: dict[tuple[int, str], bytes] = {}
        self._late: _Columns | None = None
        self._names, self._configs = dict[int, str](), dict[int, str]()
        self._dropped = _count_dropped(database)
        self._sets: dict[int, tuple[Candidate, ...]] = {}
        self._offered: dict[int, tuple[str, ...]] = {}
        self._sound: set[tuple[int, str, bytes]] = set()  # what was compared with its hash

    def blocks(self, *, after: int = 0) -> Iterator[Block]:
        """The rows, block by block, from the one with this decision on."""
        for number in self.numbers(after // BLOCK):
            columns = self.stored_columns(number) if number not in self._open else None
            if columns is not None:
                self._late = self.late() if self._late is None else self._late
                yield _with(columns, self._late)
                continue
            if number not in self._open:
                self._open[number] = self.read(number)
            yield self._open[number]

    def actions(self, block: Block) -> tuple[Whole, list[str]]:
        """The action of every row, as an index of the names of those that were taken, sorted."""
        pairs = block.candidates.astype(np.int64) << 32 | block.action
        different, places = np.unique(pairs, return_inverse=True)
        taken = [(pair >> 32, pair & 0xFFFFFFFF) for pair in different.tolist()]
        sets = self.sets(different >> 32)
        own = [sets[number][place] if number in sets else "" for number, place in taken]  # "": deleted since
        names = sorted(set(own))
        codes = {name: code for code, name in enumerate(names)}
        return np.array([codes[name] for name in own], dtype=np.int64)[places], names

    def parts(self, block: Block, by: str, part_of: Callable[[Whole], bytes]) -> Small:
        """The part of every row of a whole block: `part_of` gives those of decisions, by their numbers."""
        number = int(block.seq[0]) // BLOCK
        data = self._open_parts.get((number, by)) or self.stored(number, f"part {by}")
        if data is None or len(data) != len(block):
            data = part_of(block.seq)
            self._open_parts[number, by] = data
            if number not in self._open:
                with suppress(errors.Unavailable):  # a full disk: the next reader computes them again
                    self.keep(number, {f"part {by}": data}, instead="part kin%" if by.startswith("kin") else "")
        return np.frombuffer(data, dtype=np.int8)

    def situations(self, seqs: Sequence[int]) -> Iterator[tuple[int, bytes, Situation]]:
        """(number, id, situation) of these decisions, in any order; those that were deleted since are left out."""
        for chunk in chunks(seqs, _TOGETHER):
            for seq, raw, episode, step, text, state, role in self._database.query(
                "SELECT d.seq, d.id, e.name, d.step, d.text, d.state, d.role_id FROM decisions d "
                f"LEFT JOIN episodes e ON e.id = d.episode WHERE d.seq IN ({placeholders(chunk)})",
                chunk,
            ):
                yield seq, raw, situation_of(seq, self.task, episode, step, text, state, self.name(role))

    def claimed(self, block: Block) -> Flags:
        """Which rows something else made: their probabilities are what a client or a file says."""
        return np.isin(block.config, self._ids("SELECT id FROM configs WHERE hash IN ({})", [ELSEWHERE]))

    def config(self, number: int) -> str:
        """The hash of a configuration."""
        if number not in self._configs:
            self._configs.update(self._database.query("SELECT id, hash FROM configs WHERE id = ?", (number,)))
        return self._configs.setdefault(number, "")  # deleted since

    def under(self, block: Block, among: Flags, accepts: Callable[[str], bool]) -> Flags:
        """Which of these rows were decided under a configuration that is accepted, by its hash."""
        different = np.unique(block.config[among]).tolist()
        return among & np.isin(block.config, [number for number in different if accepts(self.config(number))])

    def undated(self, block: Block) -> Flags:
        """Which rows something else made, without a date of their own."""
        dated = self._ids("SELECT id FROM names WHERE kind = 'exploration' AND name IN ({})", [ELSEWHERE])
        return self.claimed(block) & ~np.isin(block.exploration, dated)

    def made_by(self, block: Block, hashes: Collection[str]) -> Flags:
        """Which rows a policy with one of these hashes decided."""
        return np.isin(block.policy, self._ids("SELECT id FROM policies WHERE hash IN ({})", list(hashes)))

    def _ids(self, sql: str, values: Sequence[str]) -> list[int]:
        found = (self._database.query(sql.format(placeholders(chunk)), chunk) for chunk in chunks(values))
        return [int(row[0]) for rows in found for row in rows]

    def name(self, number: int) -> str:
        """The name of a role, a key or a policy that was assigned."""
        if number not in self._names:
            self._names.update(self._database.query("SELECT id, name FROM names WHERE id = ?", (number,)))
        return self._names.setdefault(number, "")  # deleted since

    # -- rows

    def numbers(self, number: int = 0) -> Iterator[int]:
        """The numbers of the blocks that have any rows, from one on."""
        while True:
            rows = self._database.query(
                "SELECT MIN(seq) FROM decisions WHERE task_id = ? AND seq >= ?", (self._task_id, number * BLOCK)
            )
            if rows[0][0] is None:
                return
            number = int(rows[0][0]) // BLOCK
            yield number
            number += 1

    def read(self, number: int) -> Block:
        """A block from its rows."""
        end = number * BLOCK + BLOCK
        pages = [(first, min(first + _PAGE, end)) for first in range(number * BLOCK, end, _PAGE)]
        decided = [_columns(_DECIDED, self._page(_READ_DECIDED, *page)) for page in pages]
        # The + makes both engines look the decisions of a page up, instead of reading the whole log of the task.
        by_decision = f"{_READ_LOG} +task_id = ? AND decision >= ? AND decision < ?"
        log = [_columns(_LOG, self._page(by_decision, *page)) for page in pages]
        columns = _joined(_LOG, log)
        order = np.argsort(columns["log"])
        return _with(_joined(_DECIDED, decided), {name: column[order] for name, column in columns.items()})

    def mark(self) -> int:
        """The row of the outcome log up to which stored outcomes hold at least."""
        rows = self._database.query("SELECT data FROM blocks WHERE task_id = ? AND name = 'mark'", (self._task_id,))
        return int(bytes(rows[0][0])) if rows else 0

    def late(self) -> _Columns:
        """The outcome log after the mark."""
        sql = f"{_READ_LOG} task_id = ? AND seq > ? ORDER BY seq LIMIT ?"
        pages = self._database.pages(sql, (self._task_id,), after=self.mark(), size=_PAGE)
        return _joined(_LOG, [_columns(_LOG, page) for page in pages])

    def _page(self, sql: str, first: int, end: int) -> list[Row]:
        return self._database.query(sql, (self._task_id, first, end))

    def sets(self, numbers: Whole | Codes | Sequence[int]) -> Mapping[int, tuple[str, ...]]:
        """The names of the candidates of these sets."""
        if len(self._offered) > _MOST_SETS:
            self._offered.clear()
        if not set(np.asarray(numbers).tolist()) <= self._offered.keys():
            for number, candidates in self.candidates(numbers).items():
                self._offered[number] = tuple([candidate.name for candidate in candidates])
        return self._offered

    def candidates(self, numbers: Whole | Codes | Sequence[int]) -> Mapping[int, tuple[Candidate, ...]]:
        """The candidates of these sets."""
        if len(self._sets) > _MOST_SETS:
            self._sets.clear()
        for chunk in chunks(sorted(set(np.asarray(numbers).tolist()) - self._sets.keys())):
            for number, body in self._database.query(
                f"SELECT id, body FROM candidate_sets WHERE id IN ({placeholders(chunk)})", chunk
            ):
                self._sets[number] = decode_candidates(body)
        return self._sets

    # -- stored columns

    def stored_columns(self, number: int) -> _Columns | None:
        """The columns of a block as they are stored; None if it must be read."""
        decided, outcomes = self.stored(number, "decided"), self.stored(number, "outcomes")
        if decided is None or outcomes is None:
            return None
        columns = _unpacked(_DECIDED, decided) | _unpacked(_OUTCOMES, outcomes)
        return columns if columns["seq"].size == columns["settled"].size else None

    def stored(self, number: int, name: str) -> bytes | None:
        """None if it is not stored, damaged, or of another version."""
        rows = self._database.query(
            "SELECT hash, data FROM blocks WHERE task_id = ? AND number = ? AND name = ?",
            (self._task_id, number, name),
        )
        if not rows:
            return None
        digest, data = bytes(rows[0][0]), bytes(rows[0][1])
        if (number, name, digest) not in self._sound and digest != _digest(self._task_id, number, name, data):
            return None
        self._sound.add((number, name, digest))
        return data

    def keep(self, number: int, columns: Mapping[str, bytes], *, instead: str = "") -> bool:
        """Store columns of a block, unless all were dropped since this frame was opened.

        `instead`: those that they replace, as a pattern.
        """
        with self._database.transaction() as connection:
            if _count_dropped(connection) != self._dropped:
                return False
            if instead:
                connection.execute(
                    "DELETE FROM blocks WHERE task_id = ? AND number = ? AND name LIKE ?",
                    (self._task_id, number, instead),
                )
            for name, data in columns.items():
                connection.execute(
                    "INSERT INTO blocks (task_id, number, name, hash, data) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT (task_id, number, name) DO UPDATE SET hash = excluded.hash, data = excluded.data",
                    (self._task_id, number, name, _digest(self._task_id, number, name, data), data),
                )
        return True

    def is_whole(self, number: int) -> bool:
        """Whether this block is stored."""
        return number not in self._open


def seal(
    database: Database, task_id: int, *, check: bool = False, progress: Callable[[int], None] | None = None
) -> int:
    """Store the columns of whole blocks that are not stored, and bring stored outcomes up to date if many came.

    `check` also replaces blocks that cannot be read. Returns how many blocks were stored.
    """
    frame, stored = TaskFrame(database, task_id), 0
    last = int(database.query("SELECT COALESCE(MAX(seq), 0) FROM decisions")[0][0])
    mark = int(database.query("SELECT COALESCE(MAX(seq), 0) FROM settled WHERE task_id = ?", (task_id,))[0][0])
    sql = "SELECT number FROM blocks WHERE task_id = ? AND name = 'outcomes'"
    known = {int(number) for (number,) in database.query(sql, (task_id,))}
    sql = "SELECT COUNT(*) FROM settled WHERE task_id = ? AND seq > ?"
    many = bool(known) and int(database.query(sql, (task_id, frame.mark()))[0][0]) > _LATE
    late = frame.late() if many else _columns(_LOG, ())
    touched = set(np.unique(late["decision"] // BLOCK).tolist())
    for number in frame.numbers():
        if number >= last // BLOCK:
            break
        columns = frame.stored_columns(number) if number in known and (check or number in touched) else None
        if number in known and number not in touched and (columns is not None or not check):
            continue
        block = frame.read(number) if columns is None else _with(columns, late)
        if not frame.keep(number, {"decided": _packed(block, _DECIDED), "outcomes": _packed(block, _OUTCOMES)}):
            return stored  # a deletion came in between
        stored += 1
        if progress is not None:
            progress(int(block.seq[-1]))
    if touched or (stored and not known):
        frame.keep(_MARK, {"mark": str(mark).encode()})
    return stored


def _count_dropped(database: Database | Connection) -> int:
    sql = "SELECT COALESCE(MAX(number), 0) FROM blocks WHERE task_id = 0"
    rows = database.query(sql) if isinstance(database, Database) else database.execute(sql).fetchall()
    return int(rows[0][0])


# -- columns


def _columns(names: Sequence[str], rows: Sequence[Row]) -> _Columns:
    values = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: np.array(column, dtype=_TYPES[name]) for name, column in zip(names, values, strict=True)}


def _joined(names: Sequence[str], some: Sequence[_Columns]) -> _Columns:
    return {name: np.concatenate([np.empty(0, _TYPES[name]), *(one[name] for one in some)]) for name in names}


def joined(blocks: Sequence[Block]) -> Block:
    """The rows of several blocks in one."""
    return Block(**_joined(_NAMES, [{name: getattr(block, name) for name in _NAMES} for block in blocks]))


def _with(columns: _Columns, log: _Columns) -> Block:
    """The block with the rows of the outcome log that are about its decisions; the last one of each counts."""
    seq = columns["seq"]
    outcomes: _Columns = {name: columns.get(name, _no_outcome(name, seq.size)) for name in _OUTCOMES}
    places = np.minimum(np.searchsorted(seq, log["decision"]), max(seq.size - 1, 0))
    about = np.flatnonzero(seq[places] == log["decision"]) if seq.size else np.empty(0, dtype=np.int64)
    if about.size:
        outcomes = {name: column.copy() for name, column in outcomes.items()}
        first, places = outcomes["first"], places[about]
        earliest = np.full(seq.size, np.iinfo(np.int64).max)
        np.minimum.at(earliest, places, log["log"][about])
        new = (first == 0) & (earliest < np.iinfo(np.int64).max)
        first[new] = earliest[new]
        # Of several values for one place, numpy keeps the last one.
        outcomes["settled"][places] = log["log"][about]
        for name in ("reward", "weight", "status", "clipped"):
            outcomes[name][places] = log[name][about]
    return Block(**{**columns, **outcomes})


def _no_outcome(name: str, count: int) -> NDArray[Any]:
    value = {"reward": np.nan, "weight": 1.0}.get(name, 0)
    return np.full(count, value, dtype=_TYPES[name])


def _packed(block: Block, names: Sequence[str]) -> bytes:
    return b"".join(np.ascontiguousarray(getattr(block, name)).tobytes() for name in names)


def _unpacked(names: Sequence[str], data: bytes) -> _Columns:
    sizes = [np.dtype(_TYPES[name]).itemsize for name in names]
    count, start, columns = len(data) // sum(sizes), 0, {}
    for name, size in zip(names, sizes, strict=True):
        columns[name] = np.frombuffer(data, dtype=_TYPES[name], count=count, offset=start)
        start += size * count
    return columns


def _digest(task_id: int, number: int, name: str, data: bytes) -> bytes:
    about = f"{task_id} {number} {name}".encode()
    return blake2b(data, digest_size=16, key=_VERSION, salt=blake2b(about, digest_size=16).digest()).digest()
