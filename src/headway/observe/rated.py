"""Who gave the rewards: the raters behind a page of settled decisions, read with few queries.

    told = Told(database, names)            # names of the signals that count; None: all
    told.of([(id, task, episode, status), …])   # per row: rater → (signal, value)

A reward comes from the decision's own signals, those of the decisions that repeat its draw, and those of its episode.
What one rater alone said is not read: without that rater nothing is left of it. Where the store knows one rater only,
nothing is read at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from headway.nouns.ids import episode_id, id_bytes
from headway.nouns.records import Status
from headway.observe.database import Database

__all__ = ["Said", "Told"]

Said = Mapping[str, Sequence[tuple[str, float]]]
_NOBODY: Said = {}
_CHUNK = 1000
_LIVE = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"


class Told:
    """The raters of rows of one task, for one reading of it."""

    def __init__(self, database: Database, names: Collection[str] | None = None) -> None:
        self._database = database
        rows = database.query("SELECT id, kind, name FROM names WHERE kind IN ('rater', 'signal')")
        self._names = {number: name for number, _, name in rows}
        raters = [name for _, kind, name in rows if kind == "rater"]
        self._only: Said | None = {raters[0]: ()} if len(raters) == 1 else None
        self._alone: dict[int, Said] = {number: {name: ()} for number, kind, name in rows if kind == "rater"}
        counting = [number for number, kind, name in rows if kind == "signal" and (names is None or name in names)]
        self._counting = "" if names is None else f" AND g.name_id IN ({', '.join(map(str, counting)) or '0'})"

    def of(self, rows: Sequence[tuple[bytes, str, str | None, Status]]) -> list[Said]:
        """For rows (id, task, episode, status): what each rater said; nothing where no signal settled it."""
        if self._only is not None:
            return [self._only if status in ("rewarded", "failed") else _NOBODY for *_, status in rows]
        found: list[Said] = []
        for start in range(0, len(rows), _CHUNK):
            found += self._page(
                [row if row[3] in ("rewarded", "failed") else None for row in rows[start : start + _CHUNK]]
            )
        return found

    def _page(self, rows: Sequence[tuple[bytes, str, str | None, Status] | None]) -> list[Said]:
        given: dict[bytes, list[tuple[int, int, float]]] = {}
        ids = [row[0] for row in rows if row is not None]
        self._add(given, "g.subject", "signals g", "g.subject", ids)
        of_episode: dict[bytes, bytes] = {}
        for row in rows:
            if row is not None and row[2] is not None:
                of_episode[row[0]] = id_bytes(episode_id(row[1], row[2]))
        if of_episode:
            self._add(given, "f.draw", "decisions f JOIN signals g ON g.subject = f.id", "f.draw", list(of_episode))
            whole: dict[bytes, list[tuple[int, int, float]]] = {}
            self._add(whole, "g.subject", "signals g", "g.subject", sorted(set(of_episode.values())))
            for draw, episode in of_episode.items():
                if episode in whole:
                    given.setdefault(draw, []).extend(whole[episode])
        return [_NOBODY if row is None else self._said(given.get(row[0], ())) for row in rows]

    def _add(
        self, given: dict[bytes, list[tuple[int, int, float]]], key: str, tables: str, where: str, ids: Sequence[bytes]
    ) -> None:
        if not ids:
            return
        rows: Iterable[Sequence[Any]] = self._database.query(
            f"SELECT {key}, g.rater_id, g.name_id, g.value FROM {tables} "
            f"WHERE {where} IN ({', '.join('?' * len(ids))}) AND {_LIVE}{self._counting}",
            ids,
        )
        for subject, rater, name, value in rows:
            given.setdefault(subject, []).append((rater, name, value))

    def _said(self, told: Sequence[tuple[int, int, float]]) -> Said:
        if not told:
            return _NOBODY
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
