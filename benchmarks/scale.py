"""What the loop costs by the size of the log: CPU seconds, peak memory and bytes for 10^4 to 10^7 decisions.

    python benchmarks/scale.py --json                  # 10^4 to 10^7: hours
    python benchmarks/scale.py --most 1000000 --json   # to 10^6: about ten minutes on an idle core
    python benchmarks/scale.py --quick --json          # 10^4 and 10^5

Plain decisions: a text of eleven words, two numbers and a role, three actions with known probabilities, one reward
each. Every step runs in a process of its own and is measured by its CPU time (user and system, start included) and its
peak memory; "again" comes after 50 new rows. The peers, in the same run: `json.loads` and sqlite3's `executemany` for
the import; pyarrow reading the exported columns for learning and proving, which is the least that any system would pay
to look at every row. An exponent of 1 means that ten times as many rows cost ten times as much.

`status` is the first one after the import, which nothing has settled yet. `delete` removes one rater of fifty signals.
`watch` is the CPU time of one minute of `headway watch` at that size while another process stores fifty decisions with
their outcomes a second, and its memory at the end; `decide` is the CPU time of one stored decision with `durability =
"process"`, against a plain insert and commit of the same row. PostgreSQL, at 10^4 and 10^5 if it is installed: import
and first settling, with the CPU time of the server.
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
from contextlib import suppress
from pathlib import Path
from random import Random

from _contract import arguments, finish, say

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
HUGE = 1_000_000  # what is beyond is only imported, settled, learned from, proven and kept up
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
    elif step == "status":
        project.status()
    elif step == "learn":
        project.learn("route", family=rest[0] if rest else "bandit")
    elif step == "delete":
        from headway.observe import DeletionFilter
        project.erase(DeletionFilter(rater="bob"), rewrite=False)
    elif step == "rate":
        for row in project.query.latest("route", 50):
            project.signal(row.id, {"reward": 1.0}, rater="bob")
        project.settle("route")
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


TRAFFIC = """
import random, sys, time
from pathlib import Path
from headway.project import Project
with Project(Path(sys.argv[1]), seed=1) as project:
    until = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < until:
        began = time.monotonic()
        for _ in range(5):
            pick = project.decide("route", f"question {random.random():.3f}")
            project.signal(pick.id, reward=float(random.random() < 0.7))
        time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))
"""
DECIDE = """
import json, sqlite3, sys, time
from pathlib import Path
from headway.project import Project
rows, folder = 3000, Path(sys.argv[1])
with Project(folder, environ={"HEADWAY_STORE_DURABILITY": "process"}) as project:
    project.decide("route", "first")
    began = time.process_time()
    for number in range(rows):
        project.decide("route", f"question {number}")
    ours = time.process_time() - began
plain = sqlite3.connect(folder / "plain.db", isolation_level=None)
plain.execute("PRAGMA journal_mode=WAL")
plain.execute("PRAGMA synchronous=NORMAL")
plain.execute("CREATE TABLE rows (id TEXT PRIMARY KEY, at REAL, text TEXT, action TEXT, p REAL)")
began = time.process_time()
for number in range(rows):
    plain.execute("BEGIN")
    row = (str(number), 1.0, f"question {number}", "a", 0.5)
    plain.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", row)
    plain.execute("COMMIT")
print(json.dumps([1e6 * ours / rows, 1e6 * (time.process_time() - began) / rows]))
"""
MINUTE_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """CPU seconds of a running process and of its children, also of those that have ended."""
    used = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            own, mine = stat.parent.name == str(pid), fields[1] == str(pid)
            used += sum(map(int, fields[11 : 15 if own else 13])) if own or mine else 0
    return used / TICKS


def watch(folder: Path) -> tuple[float, float]:
    """CPU seconds of the loop in a minute beside fifty new decisions a second, after its first minute; and its MB."""
    loop = subprocess.Popen([sys.executable, "-m", "headway", "-C", str(folder), "watch"], stdout=subprocess.DEVNULL)
    traffic = subprocess.Popen([sys.executable, "-c", TRAFFIC, str(folder), str(2 * MINUTE_S + 5)])
    try:
        time.sleep(MINUTE_S)
        before = cpu_of(loop.pid)
        time.sleep(MINUTE_S)
        used = cpu_of(loop.pid) - before
        pages = int(Path(f"/proc/{loop.pid}/statm").read_text().split()[1])
        return used, pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    finally:
        for process in (traffic, loop):
            process.terminate()
            process.wait()


def postgresql(figures: dict[str, float]) -> None:
    """Import and first settling on PostgreSQL, client and server together; nothing without a server."""
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from tests.postgres import Server, ServerUnavailable

    try:
        with Server.started(durable=False) as server, tempfile.TemporaryDirectory() as folder:
            for count in SIZES[:2]:
                project = Path(folder) / str(count)
                project.mkdir()
                (project / "headway.toml").write_text(f'{TOML}[store]\nurl = "{server.store()}"\n')
                write(project / "rows.jsonl", count)
                size = f"{count:.0e}".replace("+0", "")
                for name, rest in (("import", (str(project / "rows.jsonl"),)), ("settle", ())):
                    postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
                    before = cpu_of(postmaster)
                    client, _ = step(name, project, *rest)
                    figures[f"postgresql_{name}_{size}_cpu_s"] = client + cpu_of(postmaster) - before
                    say(f"{count:>9,}  PostgreSQL {name:<8} {figures[f'postgresql_{name}_{size}_cpu_s']:8.2f} s")
    except ServerUnavailable as error:
        say(f"no PostgreSQL: {error}")


def command(folder: Path, *words: str) -> tuple[float, float]:
    return measured([sys.executable, "-m", "headway", "-C", str(folder), *words])


def of_size(count: int, folder: Path, figures: dict[str, float], ratios: dict[str, float], *, watched: int) -> None:
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
    keep("status", step("status", project))
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
    step("rate", project)
    keep("delete", step("delete", project))
    if count <= HUGE:
        for family in ("outcome", "cql"):
            keep(f"learn_{family}", step("learn", project, family))
    if count == watched:
        used, memory = watch(project)
        keep("watch_minute", (used, memory))
        ours, theirs = json.loads(subprocess.check_output([sys.executable, "-c", DECIDE, str(project)]))
        figures["decide_us"], figures["plain_insert_us"], ratios["decide_vs_sqlite3"] = ours, theirs, theirs / ours


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest log")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= (SIZES[1] if options.quick else options.most)]
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            of_size(count, Path(folder), figures, ratios, watched=min(sizes[-1], HUGE))
    postgresql(figures)
    small, large = (f"{count:.0e}".replace("+0", "") for count in (sizes[-2], sizes[-1]))
    steps = [name.removesuffix(f"_{large}_cpu_s") for name in figures if name.endswith(f"_{large}_cpu_s")]
    for name in steps:
        if (before := figures.get(f"{name}_{small}_cpu_s")) is not None:
            growth = figures[f"{name}_{large}_cpu_s"] / before
            figures[f"{name}_exponent"] = math.log(growth) / math.log(sizes[-1] / sizes[-2])
    finish("scale", figures, ratios, packages=("pyarrow",), as_json=options.json)


if __name__ == "__main__":
    main()
