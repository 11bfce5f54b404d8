"""What the loop costs by the size of the log: CPU seconds, peak memory and bytes for 10^4, 10^5 and 10^6 decisions.

    python benchmarks/scale.py --json            # about half an hour on an idle core
    python benchmarks/scale.py --quick --json    # 10^4 and 10^5

Plain decisions: a text of eleven words, two numbers and a role, three actions with known probabilities, one reward
each. Every step runs in a process of its own and is measured by its CPU time (user and system, start included) and its
peak memory; "again" comes after 50 new rows. The peers, in the same run: `json.loads` and sqlite3's `executemany` for
the import; pyarrow reading the exported columns for learning and proving, which is the least that any system would pay
to look at every row. An exponent of 1 means that ten times as many rows cost ten times as much.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from _contract import arguments, finish, say

SIZES = (10_000, 100_000, 1_000_000)
NEW = 50
WORDS = """invoice refund order ticket parse merge deploy cache queue schema index token vector kernel driver socket
stream buffer thread lock page query table column row batch shard block replica ledger gate policy reward signal trace
span metric alert route proxy client server agent tool prompt model answer judge"""
CHANCES = {"small": 0.5, "large": 0.3, "local": 0.2}
TOML = '[tasks.route]\nactions = ["small", "large", "local"]\nreward = { reward = 1.0 }\n'
STEP = """
import resource, sys
from pathlib import Path
from headway.project import Project
step, folder, *rest = sys.argv[1:]
with Project(Path(folder)) as project:
    if step == "import":
        project.import_file(rest[0], task="route", format="columns")
    elif step == "settle":
        project.settle("route")
    elif step == "learn":
        project.learn("route", family="bandit")
    elif step == "prove":
        project.prove(task="route")
    elif step == "rescore":
        project.rescore("route")
status = Path("/proc/self/status")  # the peak of getrusage is that of the process that forked this one, if higher
lines = status.read_text().splitlines() if status.exists() else []
peak = [line.split()[1] for line in lines if line.startswith("VmHWM")]
print(1024 * (int(peak[0]) if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
"""


def rows(count: int, start: int = 0) -> Iterator[dict[str, object]]:
    rng, words = Random(7 + start), WORDS.split()
    for number in range(start, start + count):
        hard = rng.random()
        text = " ".join(rng.choice(words) for _ in range(9))
        action = rng.choices(tuple(CHANCES), tuple(CHANCES.values()))[0]
        mean = {"small": 0.9 - 0.6 * hard, "large": 0.75, "local": 0.5}[action]
        yield {
            "id": f"req-{number}",
            "at": 1_700_000_000 + number,
            "text": f"Please {text} now",
            "action": action,
            "candidates": list(CHANCES),
            "propensity": CHANCES[action],
            "reward": float(rng.random() < mean),
            "role": "coder" if number % 3 else "reviewer",
            "tokens": rng.randrange(2000),
            "hard": round(hard, 3),
        }


def write(path: Path, count: int, start: int = 0) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows(count, start):
            file.write(json.dumps(row) + "\n")


def plain(path: Path, folder: Path) -> float:
    """The peer of the import: CPU seconds."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE rows (id TEXT, at REAL, text TEXT, body TEXT, action TEXT, p REAL, reward REAL)")
    began = time.process_time()
    with path.open(encoding="utf-8") as file:
        while batch := [json.loads(line) for _, line in zip(range(1000), file, strict=False)]:
            connection.execute("BEGIN")
            connection.executemany(
                "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *(
                            row["id"],
                            row["at"],
                            row["text"],
                            json.dumps({"tokens": row["tokens"], "hard": row["hard"]}),
                        ),
                        *(row["action"], row["propensity"], row["reward"]),
                    )
                    for row in batch
                ],
            )
            connection.execute("COMMIT")
    connection.close()
    (folder / "plain.db").unlink()
    return time.process_time() - began


def arrow(path: Path) -> float:
    """The peer of learning and proving: CPU seconds to read every column that they need."""
    import pyarrow.parquet as parquet

    began = time.process_time()
    parquet.read_table(path, columns=["text", "state", "action", "propensity", "reward"], use_threads=False)
    return time.process_time() - began


def measured(command: list[str]) -> tuple[float, float]:
    """CPU seconds of a process, and its peak memory in MB if it prints it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command[:4])} … failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    last = done.stdout.strip().splitlines()[-1:] or [""]
    peak = int(last[0]) / 1e6 if last[0].isdigit() else math.nan
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, peak


def step(name: str, folder: Path, *rest: str) -> tuple[float, float]:
    return measured([sys.executable, "-c", STEP, name, str(folder), *rest])


def command(folder: Path, *words: str) -> tuple[float, float]:
    return measured([sys.executable, "-m", "headway", "-C", str(folder), *words])


def of_size(count: int, folder: Path, figures: dict[str, float], ratios: dict[str, float]) -> None:
    file, project = folder / "rows.jsonl", folder / "project"
    project.mkdir()
    (project / "headway.toml").write_text(TOML)
    write(file, count)
    size = f"{count:.0e}".replace("+0", "")

    def keep(name: str, value: tuple[float, float]) -> float:
        figures[f"{name}_{size}_cpu_s"] = value[0]
        if not math.isnan(value[1]):
            figures[f"{name}_{size}_peak_mb"] = value[1]
        say(f"{count:>9,}  {name:<14} {value[0]:8.2f} s  {value[1]:6.0f} MB")
        return value[0]

    peer = figures[f"sqlite3_{size}_cpu_s"] = plain(file, folder)
    ratios[f"import_{size}_vs_sqlite3"] = peer / keep("import", step("import", project, str(file)))
    keep("settle", step("settle", project))
    figures[f"bytes_per_decision_{size}"] = (project / ".headway" / "headway.db").stat().st_size / count
    learn, prove = keep("learn", step("learn", project)), keep("prove", step("prove", project))
    table = folder / "rows.parquet"
    keep("export", command(project, "data", "export", "--task", "route", "--out", str(table)))
    read = arrow(table)
    figures[f"pyarrow_{size}_cpu_s"] = read
    ratios[f"learn_{size}_vs_pyarrow"], ratios[f"prove_{size}_vs_pyarrow"] = read / learn, read / prove
    write(file, NEW, start=count)
    step("import", project, str(file))
    keep("learn_again", step("learn", project))
    keep("prove_again", step("prove", project))
    keep("doctor", command(project, "doctor"))
    keep("rescore", step("rescore", project))


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    sizes = SIZES[:-1] if options.quick else SIZES
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            of_size(count, Path(folder), figures, ratios)
    small, large = (f"{count:.0e}".replace("+0", "") for count in (sizes[-2], sizes[-1]))
    for name in ("import", "settle", "learn", "prove"):
        growth = figures[f"{name}_{large}_cpu_s"] / figures[f"{name}_{small}_cpu_s"]
        figures[f"{name}_exponent"] = math.log(growth) / math.log(sizes[-1] / sizes[-2])
    finish("scale", figures, ratios, packages=("pyarrow",), as_json=options.json)


if __name__ == "__main__":
    main()
