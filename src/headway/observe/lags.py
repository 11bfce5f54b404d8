"""How long outcomes keep changing: corrections, withdrawals, second raters, flags and metrics that come later.

    lags = change_lags(project.database, project.query, "route", names=frozenset({"reward"}), reward_after_s=86_400.0,
                       now=project.clock())
    lags.final          # action → seconds after which 99% of its outcomes have changed for the last time
    lags.window         # action → seconds within which 99% of its outcomes came, where more than 1% came too late

A change counts from the moment at which the outcome was known: by its signals, or by silence after `reward_after_s`.
Each is weighed by the decisions that were followed at least that long (Kaplan-Meier), so that a young log does not look
as if nothing ever changed; a single change of a rare action proves nothing.

Not covered: changes later than the oldest decision is old (`seen_s`), and files without the times of their signals
(`untimed`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headway.nouns import SOURCES
from headway.observe.database import Database, chunks, placeholders
from headway.observe.draws import OPEN_SHARE
from headway.observe.frame import TaskFrame
from headway.observe.rows import LEADS, dumps, loads
from headway.observe.units import has_units

if TYPE_CHECKING:
    from headway.observe.query import Query

Seconds = NDArray[np.float64]

_MOST = 10_000  # decisions that are read, in blocks spread over the log
_BLOCK = 64
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ChangeLags:
    """What a log shows about the times at which outcomes change."""

    seen_s: float = 0.0  # the age of the oldest decision: no change later than that could be seen
    until: float = 0.0  # the time up to which changes could be seen
    untimed: int = 0  # decisions from files whose signals have no time of their own
    final: dict[str, float] = field(default_factory=dict)  # only actions whose outcomes change
    window: dict[str, float] = field(default_factory=dict)  # only actions with more than 1% of late outcomes

    @property
    def slowest(self) -> tuple[str, float]:
        """The action whose outcomes change for longest, and for how long."""
        return max(self.final.items(), key=lambda item: item[1], default=("", 0.0))


def change_lags(
    database: Database, query: Query, task: str, *, names: Collection[str], reward_after_s: float, now: float,
    required: Collection[str] = (),
) -> ChangeLags:  # fmt: skip
    """Reads a sample of a task's draws with the times of the signals `names`; of all signals without any.

    An outcome is known once all `required` signals have come, or the first of `names` where none is required.
    """
    rows = _sample(database, query, task)
    if not rows:
        return ChangeLags()
    at = np.array([row[2] for row in rows], dtype=np.int64)
    imported = np.array([bool(row[5]) for row in rows])
    known, last = _signal_times(database, query, rows, names, required)
    heard = last >= 0
    until = int(now * 1e6)
    if imported.all():  # nothing is added to a file after it was written
        until = int(max(at.max(), last.max()))
    sets = query.frame(task).sets([row[3] for row in rows])
    action = np.array([sets[row[3]][row[4]] for row in rows])
    age = np.maximum(until - at, 0) / 1e6
    came = np.where(known >= 0, np.maximum(known - at, 0) / 1e6, np.inf)
    changed = np.where(heard, np.maximum(last - at, 0) / 1e6, 0.0)
    changed[changed <= np.minimum(came, reward_after_s)] = 0.0
    late = np.where(np.isfinite(came) & (came > reward_after_s), came, 0.0)
    final: dict[str, float] = {}
    window: dict[str, float] = {}
    for name in np.unique(action).tolist():
        of = action == name
        for lags, longest in ((changed, final), (late, window)):
            if lag := _settled_by(lags[of], age[of]):
                longest[name] = lag
    timed = bool((last[heard & imported] > at[heard & imported]).any())
    return ChangeLags(
        seen_s=float(age.max()),
        until=until / 1e6,
        untimed=0 if timed else int((heard & imported).sum()) * query.counts(task).decisions // len(rows),
        final=final,
        window=window,
    )


def _settled_by(lags: Seconds, age: Seconds) -> float:
    """The time after which at most 1% of the rows change, by Kaplan-Meier; `lags` is 0 for rows that did not."""
    events = np.sort(lags[lags > 0.0])[::-1]
    if not events.size:
        return 0.0
    ages = np.sort(age)
    followed = ages.size - np.searchsorted(ages, events, side="left")
    shares = 1.0 / np.maximum(followed, 1.0 / OPEN_SHARE)
    later = 1.0 - np.exp(np.cumsum(np.log1p(-shares)))
    over = np.flatnonzero(later > OPEN_SHARE * (1.0 + 1e-9))
    return float(events[over[0]]) if over.size else 0.0


def _sample(database: Database, query: Query, task: str) -> list[tuple[Any, ...]]:
    every = max(1, query.counts(task).decisions // _MOST)
    sql = (
        "SELECT d.seq, d.id, d.at, d.candidate_set_id, d.action, i.decision IS NOT NULL, d.episode FROM decisions d "
        "LEFT JOIN imported i ON i.decision = d.id "
        f"WHERE d.task_id = ? AND (d.seq / {_BLOCK}) % ? = 0 AND {LEADS} ORDER BY d.seq"
    )
    return list(database.query(sql, (query.name_id("task", task), every)))


def _signal_times(
    database: Database,
    query: Query,
    rows: Sequence[tuple[Any, ...]],
    names: Collection[str],
    required: Collection[str],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[n], [n]; when each outcome was known first, and when its last signal came; -1: never."""
    numbers = {name: query.name_id("signal", name) for name in {*names, *required}}
    only = f" AND g.name_id IN ({', '.join(map(str, numbers.values()))})" if names else ""
    needed = {numbers[name] for name in required}
    at_once = {numbers[name] for name in ("failed", "safety_flag") if name in numbers}
    first: list[dict[int, int]] = [{} for _ in rows]
    last = np.full(len(rows), -1, dtype=np.int64)
    for start in range(0, len(rows), _PAGE):
        page = range(start, min(len(rows), start + _PAGE))
        for place, name, began, ended in _page_times(database, rows, page, only):
            first[place][name] = min(began, first[place].get(name, began))
            last[place] = max(last[place], ended)
    known = np.full(len(rows), -1, dtype=np.int64)
    for place, times in enumerate(first):
        moments = [time for name, time in times.items() if name in at_once or not needed]
        if needed and needed <= times.keys():
            moments.append(max(times[name] for name in needed))
        if moments:
            known[place] = min(moments)
    return known, last


def _page_times(
    database: Database, rows: Sequence[tuple[Any, ...]], page: range, only: str
) -> list[tuple[int, int, int, int]]:
    """(place of the draw, signal, first time, last time) of its own signals, its repeats' and its episode's."""
    own = {bytes(rows[place][1]): [place] for place in page}
    columns = "g.name_id, MIN(g.at), MAX(g.at) FROM signals g"
    queries = [(own, f"SELECT g.subject, {columns} WHERE g.subject IN ({{}}){only} GROUP BY 1, 2")]
    episodes: dict[bytes, list[int]] = {}
    for place in page:
        if rows[place][6] is not None:
            episodes.setdefault(bytes(rows[place][6]), []).append(place)
    units = has_units(database)
    if episodes or units:
        repeats = {bytes(rows[place][1]): [place] for place in page if units or rows[place][6] is not None}
        joined = f"SELECT f.draw, {columns} JOIN decisions f ON f.id = g.subject WHERE f.draw IN ({{}}){only}"
        queries.append((repeats, f"{joined} GROUP BY 1, 2"))
    if episodes:
        queries.append((episodes, queries[0][1]))
        if units:  # the steps of episodes that are one unit
            queries.append((episodes, f"{joined} GROUP BY 1, 2".replace("f.draw", "f.unit")))
    return [
        (place, name, began, ended)
        for places, sql in queries
        for subject, name, began, ended in database.query(sql.format(placeholders(list(places))), list(places))
        for place in places[bytes(subject)]
    ]


_CONTENT = "d.text, d.step, d.candidate_set_id, d.probabilities, d.action, d.seed"
_LEAST = 5  # pairs that repeat one another before anything is called a copy


@dataclass(frozen=True, slots=True)
class SameMoment:
    """Pairs of decisions from elsewhere with the same time, to tell copies from times that are too coarse.

    `usual`: how often any two of the decisions have the same content, at whatever time.
    """

    pairs: int = 0
    equal: int = 0  # pairs with the same content too
    usual: float = 0.0

    @property
    def copies(self) -> bool:
        """Whether decisions of one moment are copies: they repeat one another far more often than any two do."""
        return self.equal >= _LEAST and self.equal >= self.pairs * max(0.5, 3.0 * self.usual)


def first_signals(database: Database, keys: Sequence[bytes]) -> list[float]:
    """The time of each decision's first signal that counts, by the ids in the store; NaN without one."""
    first: dict[bytes, int] = {}
    for chunk in chunks(keys, 1000):
        first.update(
            database.query(
                f"SELECT g.subject, MIN(g.at) FROM signals g WHERE g.subject IN ({placeholders(chunk)}) "
                "AND g.withdrawn_by IS NULL AND g.value IS NOT NULL GROUP BY g.subject",
                chunk,
            )
        )
    return [first[key] / 1e6 if key in first else float("nan") for key in keys]


def same_moment(database: Database, frame: TaskFrame, *, but: Collection[str] = ()) -> SameMoment:
    """How decisions that something else made share their times and contents, `but` fields of the state apart."""
    imported = SOURCES.index("imported")
    rows = [
        np.stack([block.seq, block.at])[:, block.leads & ((block.source == imported) | frame.claimed(block))]
        for block in frame.blocks()
    ]
    seqs, times = np.concatenate([np.empty((2, 0), dtype=np.int64), *rows], axis=1)
    together = _pairs(times)
    if not together:
        return SameMoment()
    alike: list[int] = []
    usual: list[int] = []
    for chunk in chunks(seqs.tolist(), 2000):
        sql = f"SELECT d.at, d.state, {_CONTENT} FROM decisions d WHERE d.seq IN ({placeholders(chunk)})"
        for at, state, *content in database.query(sql, chunk):
            kept = dumps({name: value for name, value in loads(state).items() if name not in but}) if but else state
            usual.append(hash((kept, *content)))
            alike.append(hash((at, usual[-1])))
    count = len(usual)
    return SameMoment(together, _pairs(alike), _pairs(usual) / (count * (count - 1) / 2))


def _pairs(values: ArrayLike) -> int:
    """How many pairs of these are equal."""
    _, counts = np.unique(np.array(values, dtype=np.int64), return_counts=True)
    return int((counts * (counts - 1) // 2).sum())
