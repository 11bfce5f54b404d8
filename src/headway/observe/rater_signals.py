"""The raters behind a page of settled decisions, read with few queries.

    reader = RaterSignals(database, names)          # names of the signals that count; None: all
    reader.of([(id, task, episode, status), …])     # per row: rater → (signal, value)

A reward comes from the signals of the decision, of the decisions that repeat its draw, and of its episode. Values are
not read if a decision has only one rater: without that rater it has no reward. If the store knows only one rater,
nothing is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headway.nouns import Status, ids
from headway.observe.database import Database, placeholders
from headway.observe.units import unit_signals

SignalsByRater = Mapping[str, Sequence[tuple[str, float]]]
_NOBODY: SignalsByRater = {}
_CHUNK = 1000
_BY_SIGNALS = ("rewarded", "failed")
_LIVE = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"


class RaterSignals:
    """The raters of the rows of one task; create a new one for each pass over the rows."""

    def __init__(self, database: Database, names: Collection[str] | None = None) -> None:
        self._database = database
        rows = database.query("SELECT id, kind, name FROM names WHERE kind IN ('rater', 'signal')")
        self._names = {number: name for number, _, name in rows}
        raters = [name for _, kind, name in rows if kind == "rater"]
        self._only: SignalsByRater | None = {raters[0]: ()} if len(raters) == 1 else None
        self._alone: dict[int, SignalsByRater] = {number: {name: ()} for number, kind, name in rows if kind == "rater"}
        counting = [number for number, kind, name in rows if kind == "signal" and (names is None or name in names)]
        self._counts = None if names is None else frozenset(counting)
        self._counting = "" if names is None else f" AND g.name_id IN ({', '.join(map(str, counting)) or '0'})"

    def of(self, rows: Sequence[tuple[bytes, str, str | None, Status]]) -> list[SignalsByRater]:
        """For rows (id, task, episode, status): the signals by rater; empty if no signal settled the row."""
        if self._only is not None:
            return [self._only if status in _BY_SIGNALS else _NOBODY for *_, status in rows]
        raters: dict[bytes, SignalsByRater] = {}
        for start in range(0, len(rows), _CHUNK):
            page = [row for row in rows[start : start + _CHUNK] if row[3] in _BY_SIGNALS]
            raters |= self._outside_episodes([row[0] for row in page if row[2] is None])
            raters |= self._episodes(
                [(row[0], ids.raw(ids.episode(row[1], row[2]))) for row in page if row[2] is not None]
            )
        return [raters.get(row[0], _NOBODY) if row[3] in _BY_SIGNALS else _NOBODY for row in rows]

    def _outside_episodes(self, subjects: Sequence[bytes]) -> dict[bytes, SignalsByRater]:
        """Decisions outside episodes: one query finds those with a single rater, another the values of the rest."""
        raters: dict[bytes, SignalsByRater] = {}
        several: list[bytes] = []
        if not subjects:
            return raters
        alone = self._alone
        for subject, first, last in self._database.query(
            f"SELECT g.subject, MIN(g.rater_id), MAX(g.rater_id) FROM signals g "
            f"WHERE g.subject IN ({placeholders(subjects)}) AND {_LIVE}{self._counting} GROUP BY g.subject",
            subjects,
        ):
            if first == last:
                raters[subject] = alone.get(first) or {self._name(first): ()}
            else:
                several.append(subject)
        for subject, ratings in self._ratings("g.subject", "signals g", several).items():
            raters[subject] = self._by_rater(ratings)
        return raters | self._units(subjects)

    def _units(self, subjects: Sequence[bytes]) -> dict[bytes, SignalsByRater]:
        """Decisions that are one unit with others: the signals of the whole unit."""
        counting = {
            unit: [(rater, name, value) for rater, name, value in given if self._counts is None or name in self._counts]
            for unit, given in unit_signals(self._database, subjects).items()
        }
        return {unit: self._by_rater(given) for unit, given in counting.items() if given}

    def _episodes(self, rows: Sequence[tuple[bytes, bytes]]) -> dict[bytes, SignalsByRater]:
        """Decisions (id, episode) in episodes: their own signals, those of their repeats and those of the episode."""
        subjects = [row[0] for row in rows]
        ratings = self._ratings("g.subject", "signals g", subjects)
        for draw, repeated in self._ratings(
            "f.draw", "decisions f JOIN signals g ON g.subject = f.id", subjects
        ).items():
            ratings.setdefault(draw, []).extend(repeated)
        of_episode = self._ratings("g.subject", "signals g", sorted({row[1] for row in rows}))
        for draw, episode in rows:
            if episode in of_episode:
                ratings.setdefault(draw, []).extend(of_episode[episode])
        return {draw: self._by_rater(rows) for draw, rows in ratings.items()} | self._units(subjects)

    def _ratings(self, key: str, tables: str, subjects: Sequence[bytes]) -> dict[bytes, list[tuple[int, int, float]]]:
        """By `key`, among `subjects`: (rater, signal, value) of every live signal that counts."""
        ratings: dict[bytes, list[tuple[int, int, float]]] = {}
        if not subjects:
            return ratings
        for subject, rater, name, value in self._database.query(
            f"SELECT {key}, g.rater_id, g.name_id, g.value FROM {tables} WHERE {key} IN ({placeholders(subjects)}) "
            f"AND {_LIVE}{self._counting}",
            subjects,
        ):
            ratings.setdefault(subject, []).append((rater, name, value))
        return ratings

    def _by_rater(self, ratings: Sequence[tuple[int, int, float]]) -> SignalsByRater:
        first = ratings[0][0]
        if all(rating[0] == first for rating in ratings):
            return self._alone.get(first) or {self._name(first): ()}
        by_rater: dict[str, list[tuple[str, float]]] = {}
        for rater, name, value in ratings:
            by_rater.setdefault(self._name(rater), []).append((self._name(name), value))
        return {rater: tuple(sorted(by_rater[rater])) for rater in sorted(by_rater)}

    def _name(self, number: int) -> str:
        """A name; read from the store if it was interned after this reader was made."""
        known = self._names.get(number)
        if known is None:
            rows = self._database.query("SELECT name FROM names WHERE id = ?", (number,))
            known = self._names[number] = str(rows[0][0])
        return known
