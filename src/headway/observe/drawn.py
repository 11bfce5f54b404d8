"""Decisions with what a policy is asked about them, as columns: the rows of a proof.

    drawn = read_drawn(frame, block)                   # of a few thousand rows of the frame
    drawn.situations, drawn.logged, drawn.rows.reward

No record is made: where one is needed (a rater is left out, a reward was cut), `Query.outcomes` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from headway.nouns import Candidate, Floats, Situation
from headway.observe.damage import damaged
from headway.observe.database import Database, chunks, placeholders
from headway.observe.frame import Block, Flags, TaskFrame, Whole, joined
from headway.observe.rater_signals import RaterSignals, SignalsByRater
from headway.observe.rows import STATUSES, dumps, situation_of

_PENDING = STATUSES.index("pending")
_COLUMNS = (
    "d.seq, d.id, e.name, d.step, d.text, d.state, d.role_id, d.seed, d.key_id, d.assigned_id, d.unit IS NOT NULL, "
    "d.probabilities"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRows:
    """One element per decision, in the order in which they were asked for."""

    rows: Block
    raw: Sequence[bytes]  # ids
    situations: Sequence[Situation]
    sets: Mapping[int, tuple[Candidate, ...]]  # candidates, by the store's number of the set
    logged: Floats  # [row, candidate]; the probabilities of its own candidates, then zeros
    seeds: Sequence[int]
    keys: Sequence[str]
    assigned: Sequence[str]
    in_unit: Flags  # it has its outcome together with other decisions
    said: Sequence[SignalsByRater] = ()  # where raters were asked for
    _GONE: ClassVar[int] = -1  # instead of its number in the outcome log

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def candidates(self) -> list[tuple[Candidate, ...]]:
        sets = self.sets
        return [sets[number] for number in self.rows.candidates.tolist()]

    @property
    def gone(self) -> Flags:
        """Which rows stand in for one that was deleted."""
        gone: Flags = self.rows.settled == self._GONE
        return gone

    def among(self, numbers: Collection[int]) -> Flags:
        """Which rows have one of these numbers."""
        return np.isin(self.rows.seq, list(numbers)) if numbers else np.zeros(len(self), dtype=np.bool_)

    def only_chosen(self, among: Flags, known: dict[tuple[str, int], bool]) -> Flags:
        """Which of some rows have the probability of the chosen action only, by what came before them.

        The store then holds equal probabilities for all other actions. Who once sent others sends them all; `known`
        says it by key and policy, and is brought up to date.
        """
        alone, rows = np.zeros(len(self), dtype=np.bool_), np.arange(len(self))
        counts = np.array(list(map(len, self.candidates)), dtype=np.int64)
        rest = np.arange(self.logged.shape[1]) < counts[:, None]
        rest[rows, self.rows.action] = False
        least = np.where(rest, self.logged, np.inf).min(axis=1, initial=np.inf)
        most = np.where(rest, self.logged, -np.inf).max(axis=1, initial=-np.inf)
        asked = among & (counts >= 3)
        first = self.logged[rows, np.where(self.rows.action == 0, min(1, self.logged.shape[1] - 1), 0)]
        several = asked & (most - least > 1e-12)
        chosen = asked & ~several & (np.abs(self.logged[rows, self.rows.action] - first) > 1e-12)
        for who in dict.fromkeys(zip(self.keys, self.rows.policy.tolist(), strict=True)):
            own = asked & np.array([key == who[0] for key in self.keys]) & (self.rows.policy == who[1])
            ends, starts = np.flatnonzero(own & several), np.flatnonzero(own & chosen)
            end = int(ends[0]) if ends.size else len(self)
            start = -1 if known.get(who) else int(starts[0]) if starts.size and who not in known else len(self)
            alone |= own & (rows > start) & (rows <= end)
            if ends.size or start < len(self):
                known[who] = not ends.size
        return alone

    def stand_in(self, place: int, action: int) -> DrawnRows:
        """A row for a deleted one: as this one, but with another action, and nothing came of it."""
        row = self.part(place, place + 1)
        nothing = {"reward": [np.nan], "status": [STATUSES.index("censored")], "settled": [self._GONE], "first": [0]}
        changed = {"action": [action], "propensity": row.logged[0, [action]], "clipped": [False], **nothing}
        columns = {name: np.array(value, getattr(row.rows, name).dtype) for name, value in changed.items()}
        return replace(row, rows=replace(row.rows, **columns), said=({},) if self.said else ())

    def part(self, start: int, stop: int) -> DrawnRows:
        """Consecutive rows."""
        return self.where(np.arange(start, min(stop, len(self))))

    def where(self, chosen: Flags | Whole) -> DrawnRows:
        """Only these rows."""
        places = np.arange(len(self))[chosen].tolist()
        if places == list(range(len(self))):
            return self
        lists: dict[str, Any] = {
            name: [getattr(self, name)[place] for place in places]
            for name in ("raw", "situations", "seeds", "keys", "assigned")
        }
        said = [self.said[place] for place in places] if self.said else ()
        rows, logged, in_unit = self.rows.where(chosen), self.logged[chosen], self.in_unit[chosen]
        return replace(self, rows=rows, logged=logged, in_unit=in_unit, said=said, **lists)

    def as_choices(self, offered: tuple[Candidate, ...], shares: Sequence[float], first: Sequence[bool]) -> DrawnRows:
        """The rows as choices between two others: the first one had these shares, and was drawn in these rows."""
        share, drawn = np.array(shares, dtype=np.float64), np.array(first, dtype=np.bool_)
        rows = replace(
            self.rows,
            candidates=np.zeros(len(self), dtype=np.int32),
            action=np.where(drawn, 0, 1).astype(np.int32),
            propensity=np.where(drawn, share, 1.0 - share),
        )
        return replace(self, rows=rows, sets={0: offered}, logged=np.stack([share, 1.0 - share], axis=1))

    def first_of(self, seen: set[int], among: Flags, but: Collection[str]) -> DrawnRows:
        """The rows without those `among` them that repeat one whose content was `seen`, `but` fields of state apart.

        Copies share everything but the id: also the seed, by which our own draws differ.
        """
        kept = np.ones(len(self), dtype=np.bool_)
        for place in np.flatnonzero(among).tolist():
            situation, rows = self.situations[place], self.rows
            state = dumps({name: value for name, value in situation.state.items() if name not in but})
            names = tuple(candidate.name for candidate in self.sets[int(rows.candidates[place])])
            what = (situation.text, state, situation.step, names, self.logged[place].tobytes(), int(rows.action[place]))
            code = hash(
                (int(rows.at[place]), what, self.seeds[place], repr(rows.reward[place]), int(rows.status[place]))
            )
            kept[place] = code not in seen
            seen.add(code)
        return self.where(kept)

    def without_outcome(self, chosen: Flags) -> DrawnRows:
        """The same rows; of some of them nothing is known but the draw."""
        if not chosen.any():
            return self
        rows = replace(
            self.rows,
            reward=np.where(chosen, np.nan, self.rows.reward),
            status=np.where(chosen, _PENDING, self.rows.status).astype(np.int8),
            clipped=self.rows.clipped & ~chosen,
        )
        said = [{} if gone else one for one, gone in zip(self.said, chosen.tolist(), strict=True)] if self.said else ()
        return replace(self, rows=rows, said=said)


def join_drawn(some: Sequence[DrawnRows]) -> DrawnRows:
    """The rows of several in one."""
    if len(some) == 1:
        return some[0]
    width = max(one.logged.shape[1] for one in some)
    lists: dict[str, Any] = {
        name: [value for one in some for value in getattr(one, name)]
        for name in ("raw", "situations", "seeds", "keys", "assigned", "said")
    }
    return DrawnRows(
        rows=joined([one.rows for one in some]),
        sets={number: candidates for one in some for number, candidates in one.sets.items()},
        logged=np.concatenate([np.pad(one.logged, ((0, 0), (0, width - one.logged.shape[1]))) for one in some]),
        in_unit=np.concatenate([one.in_unit for one in some]),
        **lists,
    )


def lacking(frame: TaskFrame, rows: Block, why: Callable[[tuple[Candidate, ...], str], str]) -> dict[str, Flags]:
    """By what rows lack, which do: `why` says it of candidates under a configuration, or nothing."""
    pairs = rows.config.astype(np.int64) << 32 | rows.candidates
    different, places = np.unique(pairs, return_inverse=True)
    sets = frame.candidates(different & 0xFFFFFFFF)
    found: dict[str, list[int]] = {}
    for place, pair in enumerate(different.tolist()):
        found.setdefault(why(sets[pair & 0xFFFFFFFF], frame.config(pair >> 32)), []).append(place)
    return {name: np.isin(places, own) for name, own in found.items() if name}


def read_drawn(database: Database, frame: TaskFrame, rows: Block, *, raters: RaterSignals | None = None) -> DrawnRows:
    """These rows of the frame, in this order, without those that were deleted since; with their raters if asked."""
    found: dict[int, Any] = {}
    for chunk in chunks(rows.seq.tolist(), 2000):
        sql = f"SELECT {_COLUMNS} FROM decisions d LEFT JOIN episodes e ON e.id = d.episode WHERE d.seq IN "
        found.update({row[0]: row for row in database.query(f"{sql}({placeholders(chunk)})", chunk)})
    seqs = rows.seq.tolist()
    if len(found) < len(seqs):
        rows = rows.where(np.array([seq in found for seq in seqs], dtype=np.bool_))
        seqs = rows.seq.tolist()
    wanted = [found[seq] for seq in seqs]
    names = {number: frame.name(number) for row in wanted for number in (row[6], row[8], row[9]) if number is not None}
    situations = [
        situation_of(seq, frame.task, episode, step, text, state, names[role])
        for seq, _, episode, step, text, state, role, *_ in wanted
    ]
    raw = [bytes(row[1]) for row in wanted]
    known = frame.candidates(rows.candidates)
    sets = {number: known[number] for number in set(rows.candidates.tolist())}
    said: Sequence[SignalsByRater] = ()
    if raters is not None:
        codes = rows.status.tolist()
        episodes = [situation.episode for situation in situations]
        said = raters.of([(one, frame.task, episode, STATUSES[code])
                          for one, episode, code in zip(raw, episodes, codes, strict=True)])  # fmt: skip
    return DrawnRows(
        rows=rows,
        raw=raw,
        situations=situations,
        sets=sets,
        logged=_logged(rows, [bytes(row[11]) for row in wanted], sets),
        seeds=[row[7] & 0xFFFFFFFFFFFFFFFF for row in wanted],
        keys=[names[row[8]] for row in wanted],
        assigned=["" if row[9] is None else names[row[9]] for row in wanted],
        in_unit=np.array([bool(row[10]) for row in wanted], dtype=np.bool_),
        said=said,
    )


def _logged(rows: Block, blobs: Sequence[bytes], sets: Mapping[int, tuple[Candidate, ...]]) -> Floats:
    """[row, candidate], checked as records are."""
    counts = np.array([len(sets[number]) for number in rows.candidates.tolist()], dtype=np.int64)
    logged = np.zeros((len(rows), int(counts.max(initial=1))))
    sizes = np.array([len(blob) for blob in blobs], dtype=np.int64)
    sound = (sizes == 8 * counts) | (sizes == 0)
    sound &= (rows.action >= 0) & (rows.action < counts) & (rows.propensity >= 0.0) & (rows.propensity <= 1.0)
    for size in np.unique(sizes[sound]).tolist():
        alike = np.flatnonzero(sound & (sizes == size))
        values = np.frombuffer(b"".join([blobs[place] for place in alike.tolist()]), dtype="<f8")
        logged[alike, : size // 8] = values.reshape(alike.size, -1)
    sound &= np.isfinite(logged).all(axis=1)
    if not sound.all():
        seq = int(rows.seq[np.flatnonzero(~sound)[0]])
        raise damaged(f"The decision in row {seq} of the store", "an action or a probability is none")
    return logged
