"""The page, `headway status` and the server's memory over a long log, and the drawing of 10,000 points.

    python benchmarks/page.py --json [--quick] [--rows 1000000] [--keep FOLDER]

The store has --rows decisions (--quick: 20,000) with three signals each, over thirty days, written and settled through
the public interface; a candidate was learned and proven from the first 4,000. Each page is opened three times in
Chromium, from an empty tab until nothing is loading; the figure is the fastest, in seconds of wall-clock time. Memory
is the server's resident set after every page was opened once and after five more rounds. Drawing is the CPU time of the
page's main thread from one run of 50 points to one of 10,000. --keep stores the project there, and reuses it. There is
no peer, so there is no ratio.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _contract import arguments, finish, say
from playwright.sync_api import Page, sync_playwright

import headway
from headway.observe.run_log import RunLog
from headway.project import Project
from tests.page.browser import Served, chromium, launch, serving

DAY = 86_400.0
BATCH = 5_000
TOML = """\
[tasks.route]
actions = ["small", "large"]
reward = { solved = 1.0, cost_usd = -20.0 }
[store]
durability = "process"
"""
QUIET = "() => !document.querySelector('.skeleton, [aria-busy=true]') && document.querySelector('main h1, main h2')"
ROUNDS = 3


class _Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def write(folder: Path, rows: int) -> None:
    """The long log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headway.toml").write_text(TOML, "utf-8")
    now = time.time()
    clock = _Clock(now - 30 * DAY)
    with Project(folder, environ={}, clock=clock, seed=1, source="synthetic") as project:
        asks = list(headway.sample("route", n=BATCH, seed=3))
        for first in range(0, rows, BATCH):
            clock.now = now - 30 * DAY * (1 - (first + BATCH) / (rows + BATCH))
            made = [project.consider("route", ask.text, None) for ask in asks[: min(BATCH, rows - first)]]
            project.submit(made).result()
            signals = []
            for ask, (decision, *_) in zip(asks, made, strict=False):
                price = 0.001 if decision.action == "small" else 0.0125
                measured = {"solved": ask.outcome(decision.action), "cost_usd": price, "latency_s": 0.9}
                signals += project.checked_signals(decision.id, measured)
            project.submit_signals(signals).result()
            if first == 0:
                project.prove(project.learn("route"))
        clock.now = now
        project.settle("route")


def write_runs(folder: Path) -> None:
    """A short training run and one of 10,000 lines."""
    for name, lines in (("short", 50), ("long", 10_000)):
        shutil.rmtree(folder / ".headway" / "work" / name, ignore_errors=True)
        log = RunLog(folder / ".headway" / "work" / name)
        log.begin({"task": "route", "family": "bandit", "seed": 1})
        for step in range(lines):
            log.add({"steps": step, "loss": math.exp(-step / lines) + 0.1 * math.sin(step)})
        log.end("bandit@0000")


def seconds_to_open(page: Page, address: str) -> float:
    """From an empty tab until nothing is loading."""
    page.goto("about:blank")
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_function(QUIET, polling=20)
    return time.perf_counter() - start


def resident_mb(served: Served) -> float:
    lines = Path(f"/proc/{served.process.pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def drawing_ms(page: Page, served: Served) -> float:
    """CPU time of the main thread for a curve of 10,000 points, less that for one of 50."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    session.send("Performance.enable")

    def spent() -> float:
        return {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}[
            "TaskDuration"
        ]

    def opened(run: str, lines: str) -> float:
        page.goto(f"{served.url}/#/glossary")
        page.get_by_role("heading", name="Glossary").first.wait_for()
        before = spent()
        page.evaluate(f"location.hash = '#/runs/{run}?points=10000'")
        page.get_by_role("img", name=f"loss of {run}").wait_for()
        page.get_by_role("img", name=f"after {lines} lines").first.wait_for()
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return (spent() - before) * 1e3

    return min(opened("long", "10,000") for _ in range(5)) - min(opened("short", "50") for _ in range(5))


def pages(page: Page) -> dict[str, str]:
    """Every page by name."""

    def ask(path: str) -> Any:
        return page.evaluate("path => fetch(path).then(answer => answer.json())", path)

    evidence = ask("/v1/evidence?limit=1")["evidence"][0]["id"]
    decision = ask("/v1/decisions?task=route&limit=1")["decisions"][0]["id"]
    return {
        "overview": "#/",
        "task": "#/tasks/route",
        "decisions": "#/decisions?task=route",
        "search": "#/decisions?task=route&text=zebra+crossing",
        "decision": f"#/decisions/{decision}",
        "evidence_list": "#/evidence",
        "evidence": f"#/evidence/{evidence}",
        "ledger": "#/ledger",
        "runs": "#/runs",
        "settings": "#/project",
        "keys": "#/project/keys",
        "models": "#/project/models",
        "doctor": "#/project/doctor",
        "glossary": "#/glossary",
    }


def measured(folder: Path) -> dict[str, float]:
    program = chromium()
    if program is None:
        sys.exit("chromium is not on PATH (Debian, Ubuntu: apt install chromium)")
    figures: dict[str, float] = {}
    with serving(folder) as served, sync_playwright() as playwright:
        browser = launch(playwright, program)
        page = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce").new_page()
        page.goto(served.link())
        page.wait_for_function(QUIET, polling=20)  # the first look may count what is new
        places = pages(page)
        for name, place in places.items():
            times = [seconds_to_open(page, f"{served.url}/{place}") for _ in range(ROUNDS)]
            figures[f"{name}_s"] = min(times)
            say(f"  {name:14} {min(times):.2f} s")
        figures["server_mb"] = resident_mb(served)
        for _ in range(5):
            for place in places.values():
                seconds_to_open(page, f"{served.url}/{place}")
        figures["server_mb_after_five_rounds"] = resident_mb(served)
        say(f"  server {figures['server_mb']:.0f} MB, then {figures['server_mb_after_five_rounds']:.0f} MB")
        figures["draw_10000_points_ms"] = drawing_ms(page, served)
        say(f"  10,000 points: {figures['draw_10000_points_ms']:.0f} ms of the main thread's CPU time")
        browser.close()
    command = [str(Path(sys.executable).with_name("headway")), "-C", str(folder), "status"]
    wall, cpu = [], []
    for _ in range(ROUNDS):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall.append(time.perf_counter() - start)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    figures |= {"status_s": min(wall), "status_cpu_s": min(cpu)}
    say(f"  headway status {min(wall):.2f} s, {min(cpu):.2f} s of CPU time")
    return figures


def main() -> None:
    parser = arguments("The page over a long log.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="decisions (default 1,000,000; --quick: 20,000)")
    parser.add_argument("--keep", type=Path, help="folder of the project; reused if it exists")
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = 20_000 if chosen.quick else chosen.rows
    scratch = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    folder = chosen.keep or scratch / "long"
    figures: dict[str, float] = {"rows": float(rows)}
    try:
        if not (folder / ".headway").exists():
            start = time.perf_counter()
            write(folder, rows)
            figures["write_s"] = time.perf_counter() - start
            say(f"  {rows:,} decisions written and settled in {figures['write_s']:.0f} s")
        write_runs(folder)
        figures |= measured(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    finish("page", figures, {}, as_json=chosen.json)


if __name__ == "__main__":
    main()
