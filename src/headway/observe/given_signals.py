"""Every live signal of a task, by draw: what raters are compared by."""

from __future__ import annotations

from collections.abc import Callable

from headway.observe.database import Database, placeholders
from headway.observe.query import Query

Given = tuple[int, str, str, float]  # a live signal: draw, name, rater, value
_PAGE = 1000
_LIVE = "g.withdrawn_by IS NULL AND g.value IS NOT NULL"


def given(database: Database, query: Query, task: str, *, several: bool = False) -> list[Given]:
    """Every live signal of a task, by draw; `several` selects signals with more than one rater."""
    names: dict[int, str] = {}

    def name(identifier: int) -> str:
        known = names.get(identifier)
        if known is None:
            known = names[identifier] = database.query("SELECT name FROM names WHERE id = ?", (identifier,))[0][0]
        return known

    return signals_given(database, query.name_id("task", task), name, several=several)


def signals_given(database: Database, task_id: int, name_of: Callable[[int], str], *, several: bool) -> list[Given]:
    """Live signals by draw, as the settler reads them: its own, its repeats' and its episode's."""
    columns = "SELECT g.seq, g.name_id, g.rater_id, g.value"
    signals: list[Given] = []
    live = _LIVE
    if several:  # measured signals have one source, and there may be millions
        rows = database.query(
            f"SELECT g.name_id FROM signals g WHERE {live} GROUP BY g.name_id HAVING COUNT(DISTINCT g.rater_id) > 1"
        )
        if not rows:
            return []
        live += f" AND g.name_id IN ({', '.join(str(int(row[0])) for row in rows)})"
    for joined in (
        "d.seq FROM signals g JOIN decisions d ON d.id = g.subject WHERE d.draw IS NULL",
        "d.seq FROM signals g JOIN decisions f ON f.id = g.subject JOIN decisions d ON d.id = f.draw WHERE 1 = 1",
    ):
        pages = database.pages(
            f"{columns}, {joined} AND d.task_id = ? AND {live} AND g.seq > ? ORDER BY g.seq LIMIT ?",
            (task_id,),
            after=0,
        )
        for page in pages:
            signals += [(draw, name_of(name), name_of(rater), value) for _, name, rater, value, draw in page]
    pages = database.pages(
        f"{columns}, g.subject FROM signals g JOIN episodes e ON e.id = g.subject WHERE e.task_id = ? "
        f"AND {live} AND g.seq > ? ORDER BY g.seq LIMIT ?",
        (task_id,),
        after=0,
        size=_PAGE,
    )
    for page in pages:
        episodes = sorted({row[4] for row in page})
        draws: dict[bytes, list[int]] = {}
        for episode, draw in database.query(
            f"SELECT episode, seq FROM decisions WHERE episode IN ({placeholders(episodes)}) AND draw IS NULL", episodes
        ):
            draws.setdefault(episode, []).append(draw)
        for _, name, rater, value, episode in page:
            signals += [(draw, name_of(name), name_of(rater), value) for draw in draws.get(episode, ())]
    return signals
