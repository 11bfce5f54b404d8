"""A million rows of JSON lines into the store: rate, peak memory, and the cost of a SIGKILL in the middle.

    python benchmarks/import.py --json            # a million rows, some minutes
    python benchmarks/import.py --quick --json    # 50,000 rows

The peer is the obvious script: json.loads per line and `sqlite3.executemany` of the same columns, a thousand
rows per transaction, no checks, no ids, no idempotency. Ours reads the file twice (a file with a bad line is not stored
at all), validates every field, derives an id, compares it with the store, records provenance, and detects leaks.
The killed run is restarted until it ends; then all rows are counted. Wall time, one process.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from _contract import arguments, finish, say

ROWS = 1_000_000
MEMORY = (
    "import resource, sys, time; from pathlib import Path; import headway; from headway.project import Project\n"
    "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    "with Project(Path(sys.argv[1])) as project:\n"
    "    start, worked = time.perf_counter(), time.process_time()\n"
    "    report = project.import_file(sys.argv[2])\n"
    "    took, worked = time.perf_counter() - start, time.process_time() - worked\n"
    "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    "print(took, worked, peak * 1024, before * 1024, report.stored, report.already, report.read)\n"
)


def write(path: Path, count: int) -> None:
    """Routing history as a proxy would have logged it: text, state, action, propensity, reward."""
    rng = Random(7)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {
                "id": f"req-{number}",
                "at": 1_700_000_000 + number,
                "text": f"Which of these {number} invoices was paid twice, and by whom?",
                "action": ("small", "large")[number % 3 == 0],
                "candidates": ["small", "large"],
                "propensity": 0.5,
                "reward": round(rng.random(), 4),
                "role": "coder",
                "tokens": number % 977,
            }
            file.write(json.dumps(row) + "\n")


def plain(path: Path, folder: Path) -> float:
    """The peer: seconds."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (id TEXT, at REAL, text TEXT, body TEXT, action TEXT, p REAL, reward REAL)")
    start = time.perf_counter()
    batch = []

    def flush() -> None:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", batch)
        connection.execute("COMMIT")
        batch.clear()

    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            body = json.dumps({"tokens": row["tokens"], "role": row["role"]})
            batch.append((row["id"], row["at"], row["text"], body, row["action"], row["propensity"], row["reward"]))
            if len(batch) == 1000:
                flush()
        flush()
    connection.close()
    return time.perf_counter() - start


def command(folder: Path, path: Path) -> list[str]:
    return [
        sys.executable, "-m", "headway", "-C", str(folder), "data", "import", str(path), "--task", "route", "--format",
        "columns", "--json",
    ]  # fmt: skip


def counted(folder: Path) -> tuple[int, int, int]:
    with sqlite3.connect(folder / ".headway" / "headway.db") as connection:
        tables = ("decisions", "signals", "imported")
        one, two, three = (connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in tables)
    return one, two, three


def killed(folder: Path, path: Path, count: int) -> tuple[float, int]:
    """Kills a run in the middle and restarts it: seconds of the last run, and rows that were already there."""
    process = subprocess.Popen(command(folder, path), stdout=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(0.2)
        try:
            with sqlite3.connect(folder / ".headway" / "headway.db") as connection:
                done = connection.execute("SELECT MAX(seq) FROM decisions").fetchone()[0] or 0
        except sqlite3.Error:  # not there yet
            done = 0
        if done >= count // 2:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    half = counted(folder)[0]
    start = time.perf_counter()
    done_ = subprocess.run(command(folder, path), check=True, capture_output=True, text=True)
    took = time.perf_counter() - start
    (report,) = json.loads(done_.stdout)["files"]
    assert (report["already"], report["stored"]) == (half, count - half), report
    assert counted(folder) == (count, count, count), counted(folder)
    return took, half


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    count = 50_000 if options.quick else ROWS
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = folder / "log.jsonl"
        write(path, count)
        size = path.stat().st_size
        say(f"{count:,} rows, {size / 1e6:,.0f} MB")
        ours = folder / "ours"
        ours.mkdir()
        (ours / "headway.toml").write_text("[tasks.route]\nrange = [0, 1]\n", "utf-8")
        code = MEMORY.replace(
            "sys.argv[2])", 'sys.argv[2], task="route", format="columns", columns={"state.tokens": "tokens"})'
        )
        first = subprocess.run([sys.executable, "-c", code, ours, path], check=True, capture_output=True, text=True)
        took, worked, peak, before, stored, already, read = (float(number) for number in first.stdout.split())
        assert (stored, already, read) == (count, 0, count), first.stdout
        say(f"imported in {took:,.1f} s: {count / took:,.0f} rows/s, peak {peak / 1e6:,.0f} MB")
        again = subprocess.run([sys.executable, "-c", code, ours, path], check=True, capture_output=True, text=True)
        repeat, _, peak_again, _, stored, already, _ = (float(number) for number in again.stdout.split())
        assert (stored, already) == (0, count), again.stdout
        say(f"the same file again in {repeat:,.1f} s: nothing stored")
        peer = plain(path, folder)
        say(f"json.loads and executemany: {peer:,.1f} s")
        other = folder / "killed"
        other.mkdir()
        (other / "headway.toml").write_text("[tasks.route]\nrange = [0, 1]\n", "utf-8")
        rest, half = killed(other, path, count)
        say(f"killed after {half:,} rows; the next run found them and finished in {rest:,.1f} s")
        finish(
            "import",
            {
                "rows": count,
                "file_mb": size / 1e6,
                "rows_per_s": count / took,
                "seconds": took,
                "rows_per_cpu_s": count / worked,
                "peak_mb": peak / 1e6,
                "peak_mb_above_interpreter": (peak - before) / 1e6,
                "again_rows_per_s": count / repeat,
                "again_peak_mb": peak_again / 1e6,
                "killed_after_rows": half,
                "finished_after_kill_s": rest,
                "lost_rows": 0,
                "duplicate_rows": 0,
            },
            {"rows_vs_plain_sqlite": peer / took},
            as_json=options.json,
        )


if __name__ == "__main__":
    main()
