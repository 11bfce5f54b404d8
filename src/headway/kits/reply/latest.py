"""Comparisons of two policies, and the latest rewarded decisions, without reading what they hold."""

from __future__ import annotations

from headway.observe import EVEN_PAIR, Database, Query, decode_candidates


def latest_rewards(database: Database, query: Query, task: str, most: int) -> dict[int, float]:
    """The latest rewards by the store's number of the decision, among ten times as many outcomes, oldest first."""
    rows = database.query(
        "SELECT decision, reward FROM "
        "(SELECT decision, reward, seq FROM settled WHERE task_id = ? ORDER BY seq DESC LIMIT ?) AS s "
        "WHERE reward IS NOT NULL AND NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq) "
        "ORDER BY seq DESC LIMIT ?",
        (query.name_id("task", task), 10 * most, most),
    )
    return {int(seq): float(reward) for seq, reward in reversed(rows)}


def comparisons(database: Database, query: Query, task: str, *, since: float = 0.0) -> list[int]:
    """The store's numbers of the decisions between two candidates, oldest first."""
    task_id = query.name_id("task", task)
    sets = database.query(
        "SELECT id, body FROM candidate_sets WHERE id IN "
        "(SELECT DISTINCT candidate_set_id FROM decisions WHERE task_id = ?)",
        (task_id,),
    )
    rows = database.query_in(
        "SELECT seq FROM decisions WHERE candidate_set_id IN ({}) AND task_id = ? AND at > ?",
        [number for number, body in sets if len(decode_candidates(body)) == 2],
        (task_id, int(since * 1e6)),
    )
    return sorted(int(seq) for (seq,) in rows)


def latest_even_pairs(database: Database, query: Query, task: str, most: int) -> list[int]:
    """The store's numbers of the latest even draws between two candidates, oldest first, by an index of their own."""
    rows = database.query(
        f"SELECT seq FROM decisions WHERE task_id = ? AND {EVEN_PAIR} ORDER BY seq DESC LIMIT ?",
        (query.name_id("task", task), most),
    )
    return [int(seq) for (seq,) in reversed(rows)]
