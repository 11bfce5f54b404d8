"""The latest decisions of a task with their outcomes, kept in memory: for checks that run every few seconds.

    served = ServedRows(database, query, "route")
    served.update()                    # reads what was decided and settled since the last call
    rows = served.mature()             # in the order of the decisions, up to the maturity mark, with an outcome

A check must not read every decision again. Nothing here is needed after a restart: the first `update` reads the latest
`MOST` decisions. Decisions that were deleted meanwhile stay until then, without their texts.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.nouns import SOURCES, Floats
from headway.observe.database import Database, placeholders
from headway.observe.draws import Draws
from headway.observe.query import Query
from headway.observe.rows import LEADS, STATUSES, decode_candidates

MOST = 50_000  # decisions that are kept; older ones are forgotten
_ACTIONS = 50  # the most frequent ones are told apart; the others count as one
_LIKELY = 0.5  # of the highest probability: below it, an action was drawn to explore
_PENDING = STATUSES.index("pending")
_SEQ, _AT, _ACTION, _ROLE, _LIKELY_DRAW, _OWN, _CONFIG = range(7)

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatureRows:
    """Decisions with a reward, by the time of the decision: one element per row."""

    seq: Whole
    at: Floats  # seconds
    action: Whole  # an index of `actions`
    role: Whole  # an index of `roles`
    likely: NDArray[np.bool_]  # a likely choice of the policy; otherwise it was drawn to explore
    own: NDArray[np.bool_]  # the current policy's draw, not a canary's
    config: Whole  # the store's number of the configuration
    reward: Floats
    actions: tuple[str, ...]
    roles: tuple[str, ...]

    def rated(self, rewards: Sequence[float]) -> MatureRows:
        """The rows with other rewards, without those that have none (NaN)."""
        given = np.array(rewards)
        kept = np.flatnonzero(np.isfinite(given))
        columns = ("seq", "at", "action", "role", "likely", "own", "config")
        return replace(self, reward=given[kept], **{name: getattr(self, name)[kept] for name in columns})

    def outside(self, spans: Sequence[tuple[float, float]]) -> MatureRows:
        """The rows that were not decided within these times."""
        out = np.zeros(self.at.size, dtype=np.bool_)
        for since, until in spans:
            out |= (self.at >= since) & (self.at <= until)
        return self.rated(np.where(out, np.nan, self.reward).tolist()) if out.any() else self

    def configurations(self) -> list[int]:
        """The store's numbers of the configurations, in ascending order."""
        numbers: list[int] = np.unique(self.config).tolist()
        return numbers

    def by_configuration(self, values: Mapping[int, int]) -> Whole:
        """[n]; the value of the row's configuration."""
        return np.array([values[number] for number in self.config.tolist()], dtype=np.int64)

    def changes_before(self, times: Sequence[float]) -> Whole:
        """[n]; how many of these times are not after the decision."""
        return np.searchsorted(times, self.at, side="right")

    def first_from(self, moment: float) -> int:
        """The first row that was not decided before a moment."""
        return int(np.searchsorted(self.at, moment))


class ServedRows:
    """What one task decided and how it went. Not thread-safe."""

    def __init__(self, database: Database, query: Query, task: str) -> None:
        self._database, self._query, self._task = database, query, task
        self._columns: Whole = np.empty((7, 0), dtype=np.int64)
        self._status: Whole = np.empty(0, dtype=np.int64)
        self._reward: Floats = np.empty(0)
        self._decided = self._settled = -1
        self._actions: dict[str, int] = {}
        self._roles: dict[int, int] = {}
        self._sets: dict[int, tuple[int, ...]] = {}
        self._canaries: dict[tuple[int, int], bool] = {}
        self.without: dict[int, dict[str, float]] = {}  # decision → key → reward without its signals; filled by alarms

    def update(self) -> bool:
        """Read what is new; whether an outcome is."""
        settled, task_id = self._settled, self._query.name_id("task", self._task)
        if not task_id:
            return False
        if settled < 0:
            self._decided = self._first(task_id)
            settled = self._query.last_settled(self._task)
            self._add_decisions(task_id)
            rows = self._database.query(
                "SELECT s.seq, s.decision, s.reward, s.status FROM settled s "
                "WHERE s.decision > ? AND s.task_id = ? AND s.seq <= ? ORDER BY s.decision, s.seq",
                (int(self._columns[_SEQ, 0]) - 1 if self._status.size else 0, task_id, settled),
            )
        else:
            self._add_decisions(task_id)
            rows = self._database.query(
                "SELECT s.seq, s.decision, s.reward, s.status FROM settled s "
                "WHERE s.task_id = ? AND s.seq > ? ORDER BY s.seq",
                (task_id, settled),
            )
            settled = int(rows[-1][0]) if rows else settled
        self._settled = settled
        self._add_outcomes(rows)
        return bool(rows)

    def mature(self) -> MatureRows:
        """The rows that may be compared: early outcomes are not a random choice of all (`headway.observe.draws`)."""
        order = np.lexsort((self._columns[_SEQ], self._columns[_AT]))
        columns, status, reward = self._columns[:, order], self._status[order], self._reward[order]
        action, kept = _frequent(columns[_ACTION])
        draws = Draws(columns[_SEQ], columns[_AT], action, status != _PENDING)
        usable = np.flatnonzero(np.isfinite(reward[: draws.mature()]))
        columns, names = columns[:, usable], tuple(self._actions)
        return MatureRows(
            seq=columns[_SEQ],
            at=columns[_AT] / 1e6,
            action=action[usable],
            role=columns[_ROLE],
            likely=columns[_LIKELY_DRAW].astype(np.bool_),
            own=columns[_OWN].astype(np.bool_),
            config=columns[_CONFIG],
            reward=reward[usable],
            actions=tuple(names[number] for number in kept),
            roles=self._role_names(),
        )

    def configurations(self, numbers: Sequence[int]) -> dict[int, str]:
        """The bodies of configurations, by the store's number."""
        sql = f"SELECT id, body FROM configs WHERE id IN ({placeholders(numbers)})"
        return dict(self._database.query(sql, numbers)) if numbers else {}

    def _first(self, task_id: int) -> int:
        """The decision after which to read: the latest `MOST` follow it."""
        rows = self._database.query(
            "SELECT seq FROM decisions WHERE task_id = ? ORDER BY seq DESC LIMIT 1 OFFSET ?", (task_id, MOST)
        )
        return int(rows[0][0]) if rows else 0

    def _add_decisions(self, task_id: int) -> None:
        sources = ", ".join(str(SOURCES.index(source)) for source in ("mined", "imported"))
        pages = self._database.pages(
            "SELECT d.seq, d.at, d.candidate_set_id, d.action, d.probabilities, d.role_id, d.assigned_id, d.policy_id, "
            f"d.config_id FROM decisions d WHERE d.task_id = ? AND {LEADS} AND d.source NOT IN ({sources}) "
            "AND d.seq > ? ORDER BY d.seq LIMIT ?",
            (task_id,),
            after=self._decided,
            size=20_000,
        )
        rows = [self._row(row) for page in pages for row in page]
        if not rows:
            return
        self._decided = rows[-1][_SEQ]
        added = np.array(rows, dtype=np.int64).T
        self._columns = np.concatenate([self._columns, added], axis=1)[:, -MOST:]
        self._status = np.concatenate([self._status, np.full(len(rows), _PENDING)])[-MOST:]
        self._reward = np.concatenate([self._reward, np.full(len(rows), np.nan)])[-MOST:]

    def _row(self, row: Any) -> tuple[int, ...]:
        seq, at, candidates, action, blob, role, assigned, policy, config = row
        probabilities = struct.unpack(f"<{len(blob) // 8}d", blob)
        likely = not probabilities or probabilities[action] >= _LIKELY * max(probabilities)
        own = assigned is None or not self._canary(assigned, policy)
        if candidates not in self._sets:
            body = self._database.query("SELECT body FROM candidate_sets WHERE id = ?", (candidates,))[0][0]
            names = [candidate.name for candidate in decode_candidates(body)]
            self._sets[candidates] = tuple(self._actions.setdefault(name, len(self._actions)) for name in names)
        number = self._sets[candidates][action]
        return seq, at, number, self._roles.setdefault(role, len(self._roles)), likely, own, config

    def _canary(self, assigned: int, policy: int) -> bool:
        """Whether a draw was assigned to another policy than the current one."""
        key = (assigned, policy)
        if key not in self._canaries:
            rows = self._database.query(
                "SELECT 1 FROM names a JOIN policies p ON p.ref = a.name WHERE a.id = ? AND p.id = ?", key
            )
            self._canaries[key] = not rows
        return self._canaries[key]

    def _add_outcomes(self, rows: list[Any]) -> None:
        """The last row about a decision counts."""
        if not rows or not self._status.size:
            return
        for row in rows:
            self.without.pop(int(row[1]), None)
        seqs = self._columns[_SEQ]
        _, decisions, rewards, statuses = zip(*rows, strict=True)
        wanted = np.array(decisions, dtype=np.int64)
        places = np.minimum(np.searchsorted(seqs, wanted), seqs.size - 1)
        known = seqs[places] == wanted
        self._reward[places[known]] = np.array([np.nan if value is None else value for value in rewards])[known]
        self._status[places[known]] = np.array(statuses, dtype=np.int64)[known]

    def _role_names(self) -> tuple[str, ...]:
        names: dict[int, str] = dict(self._database.query("SELECT id, name FROM names WHERE kind = 'role'"))
        return tuple(names.get(number, "") for number in self._roles)


def _frequent(action: Whole) -> tuple[Whole, list[int]]:
    """The actions renumbered by how often they were taken, and their old numbers; rare ones become the last number."""
    counts = np.bincount(action) if action.size else np.empty(0, dtype=np.int64)
    kept = np.argsort(-counts, kind="stable")[:_ACTIONS]
    renumbered = np.full(counts.size, len(kept), dtype=np.int64)
    renumbered[kept] = np.arange(len(kept))
    return renumbered[action], kept.tolist()
