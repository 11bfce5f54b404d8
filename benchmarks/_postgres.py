"""The PostgreSQL store compared with plain psycopg, on a real server.

Both write the same rows into the same table and indexes, with the same `synchronous_commit`.

The peer sends BEGIN, its INSERT (executemany, which psycopg pipelines, for a hundred) and COMMIT. Ours also takes the
lock that orders sequence numbers, interns names and compares ids.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

WRITER = """
import sys, time
sys.path[:0] = sys.argv[2:]
from store import CONFIGS, decisions
from headway.observe.engines import open_database
from headway.observe.store import Store
from headway.observe.writer import Writer
database = open_database(sys.argv[1])
store = Store(database, Writer(database))
store.add(decisions(1), CONFIGS)
made = decisions(20_000)
print("ready", flush=True)
sys.stdin.readline()
until, count = time.perf_counter() + 4.0, 0
while time.perf_counter() < until:
    store.add([made[count]], CONFIGS)
    count += 1
print(count, flush=True)
database.close()
"""


def figures(
    quick: bool,
    insert: str,
    decisions: Callable[[int], list[Any]],
    plain_row: Callable[[Any], Any],
    configs: dict[str, str],
) -> dict[str, float]:
    """Rows per second, single and in hundreds, ours and the peer's; empty if no server can be started."""
    try:
        from tests.postgres import Server, ServerUnavailable
    except ImportError:
        return {}
    measured: dict[str, float] = {}
    try:
        with Server.started(durable=True) as server:
            for size, name in ((1, "single"), (100, "batched")):
                rounds, rows = (3 if quick else 7), (500 if size == 1 else 5000)
                mine, theirs = _rows_per_s(server, size, rounds, rows, insert, decisions, plain_row, configs)
                measured[f"postgres_{name}_rows_per_s"] = mine
                measured[f"postgres_{name}_rows_per_s_psycopg"] = theirs
                measured[f"postgres_{name}_vs_psycopg"] = mine / theirs
            counts = _four(server)
            measured["postgres_four_writers_rows_per_s"] = sum(counts) / 4.0
            measured["postgres_four_writers_least_share"] = min(counts) / sum(counts)
    except ServerUnavailable:
        return {}
    return measured


def _rows_per_s(
    server: Any, size: int, rounds: int, rows: int, insert: str, decisions: Any, plain_row: Any, configs: dict[str, str]
) -> tuple[float, float]:
    import psycopg

    from headway.observe.engines import open_database
    from headway.observe.store import Store
    from headway.observe.writer import Writer

    ours, theirs_at = open_database(server.store()), server.store()
    open_database(theirs_at).close()
    writer = Writer(ours)
    store = Store(ours, writer)
    store.add(decisions(1), configs)
    peer = psycopg.connect(theirs_at, autocommit=True)
    sql = insert.replace("?", "%s")

    def plainly(batch: list[Any]) -> None:
        with peer.transaction(), peer.cursor() as cursor:
            if len(batch) == 1:
                cursor.execute(sql, _bytes(plain_row(batch[0])))
            else:
                cursor.executemany(sql, [_bytes(plain_row(decision)) for decision in batch])

    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        for keep, write in ((mine, lambda batch: store.add(batch, configs)), (theirs, plainly)):
            batches = [decisions(size) for _ in range(rows // size)]
            start = time.perf_counter()
            for batch in batches:
                write(batch)
            keep.append(time.perf_counter() - start)
    writer.close()
    ours.close()
    peer.close()
    return rows / statistics.median(mine), rows / statistics.median(theirs)


def _bytes(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The probabilities are JSON text in the peer's row; the column holds bytes."""
    return tuple(cell.encode() if place == 4 else cell for place, cell in enumerate(row))


def _four(server: Any) -> list[int]:
    """Rows that four processes wrote in four seconds, one decision per commit."""
    place = server.store()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, place, str(ROOT / "benchmarks")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    return [json.loads(writer.communicate()[0]) for writer in writers]
