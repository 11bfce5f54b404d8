"""Who gave the rewards: the raters behind a page of settled decisions, read with few queries.

    told = RaterSignals(database, names)            # names of the signals that count; None: all
    told.of([(id, task, episode, status), …])   # per row: rater → (signal, value)

A reward comes from the decision's own signals, those of the decisions that repeat its draw, and those of its episode.
What one rater alone said is not read: without that rater nothing is left of it. Where the store knows one rater only,
nothing is read at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headway.nouns.ids import episode_id, id_bytes
from headway.nouns.records import Status
from headway.observe.database import Database

__all__ = ["RaterSignals", "SignalsByRater"]

SignalsByRater = Mapping[str, Sequence[tuple[str, float]]]
_NOBODY: SignalsByRater = {}
_CHUNK = 1000
_BY_SIGNALS = ("rewarded", "failed")
_LIVE = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"


class RaterSignals:
    """The raters of rows of one task, for one reading of it."""

    def __init__(self, database: Database, names: Collection[str] | None = None) -> None:
        self._database = database
        rows = database.query("SELECT id, kind, name FROM names WHERE kind IN ('rater', 'signal')")
        self._names = {number: name for number, _, name in rows}
        raters = [name for _, kind, name in rows if kind == "rater"]
        self._only: SignalsByRater | None = {raters[0]: ()} if len(raters) == 1 else None
        self._alone: dict[int, SignalsByRater] = {number: {name: ()} for number, kind, name in rows if kind == "rater"}
        counting = [number for number, kind, name in rows if kind == "signal" and (names is None or name in names)]
        self._counting = "" if names is None else f" AND g.name_id IN ({', '.join(map(str, counting)) or '0'})"

    def of(self, rows: Sequence[tuple[bytes, str, str | None, Status]]) -> list[SignalsByRater]:
        """For rows (id, task, episode, status): what each rater said; nothing where no signal settled it."""
        if self._only is not None:
            return [self._only if status in _BY_SIGNALS else _NOBODY for *_, status in rows]
        found: dict[bytes, SignalsByRater] = {}
        for start in range(0, len(rows), _CHUNK):
            page = [row for row in rows[start : start + _CHUNK] if row[3] in _BY_SIGNALS]
            found |= self._apart([row[0] for row in page if row[2] is None])
            found |= self._episodes(
                [(row[0], id_bytes(episode_id(row[1], row[2]))) for row in page if row[2] is not None]
            )
        return [found.get(row[0], _NOBODY) if row[3] in _BY_SIGNALS else _NOBODY for row in rows]

    def _apart(self, ids: Sequence[bytes]) -> dict[bytes, SignalsByRater]:
        """Decisions outside of episodes: one look says who rated alone, another what several said."""
        found: dict[bytes, SignalsByRater] = {}
        several: list[bytes] = []
        if not ids:
            return found
        alone = self._alone
        for subject, first, last in self._database.query(
            f"SELECT g.subject, MIN(g.rater_id), MAX(g.rater_id) FROM signals g WHERE g.subject IN ({_marks(ids)}) "
            f"AND {_LIVE}{self._counting} GROUP BY g.subject",
            ids,
        ):
            if first == last:
                found[subject] = alone.get(first) or {self._name(first): ()}
            else:
                several.append(subject)
        for subject, told in self._told("g.subject", "signals g", several).items():
            found[subject] = self._said(told)
        return found

    def _episodes(self, rows: Sequence[tuple[bytes, bytes]]) -> dict[bytes, SignalsByRater]:
        """Decisions (id, episode) that others may repeat: their own signals, the repeated ones' and the episode's."""
        ids = [row[0] for row in rows]
        given = self._told("g.subject", "signals g", ids)
        for draw, told in self._told("f.draw", "decisions f JOIN signals g ON g.subject = f.id", ids).items():
            given.setdefault(draw, []).extend(told)
        whole = self._told("g.subject", "signals g", sorted({row[1] for row in rows}))
        for draw, episode in rows:
            if episode in whole:
                given.setdefault(draw, []).extend(whole[episode])
        return {draw: self._said(told) for draw, told in given.items()}

    def _told(self, key: str, tables: str, ids: Sequence[bytes]) -> dict[bytes, list[tuple[int, int, float]]]:
        """By `key`, among `ids`: (rater, signal, value) of every live signal that counts."""
        given: dict[bytes, list[tuple[int, int, float]]] = {}
        if not ids:
            return given
        for subject, rater, name, value in self._database.query(
            f"SELECT {key}, g.rater_id, g.name_id, g.value FROM {tables} WHERE {key} IN ({_marks(ids)}) "
            f"AND {_LIVE}{self._counting}",
            ids,
        ):
            given.setdefault(subject, []).append((rater, name, value))
        return given

    def _said(self, told: Sequence[tuple[int, int, float]]) -> SignalsByRater:
        first = told[0][0]
        if all(each[0] == first for each in told):
            return self._alone.get(first) or {self._name(first): ()}
        said: dict[str, list[tuple[str, float]]] = {}
        for rater, name, value in told:
            said.setdefault(self._name(rater), []).append((self._name(name), value))
        return {rater: tuple(sorted(said[rater])) for rater in sorted(said)}

    def _name(self, number: int) -> str:
        """Interned after this reading began, perhaps."""
        known = self._names.get(number)
        if known is None:
            rows = self._database.query("SELECT name FROM names WHERE id = ?", (number,))
            known = self._names[number] = str(rows[0][0])
        return known


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
