"""Runs the benchmarks and renders the table of benchmarks/README.md.

    python benchmarks/_run.py                  all but power and situations, full length, then the table
    python benchmarks/_run.py store bandit     only these
    python benchmarks/_run.py --quick          about a minute each; the rows then say --quick
    python benchmarks/_run.py --render         only the table, from benchmarks/results/*.json

A benchmark is a file `benchmarks/NAME.py` that takes `--json` and prints one JSON object as its last line:
`{"benchmark": NAME, "host": {…}, "versions": {…}, "figures": {name: number}, "ratios": {name: number}}`. A ratio is
ours over the peer's, larger is better, measured in the same run; `"at_least": [name, …]` lists those that are lower
bounds. Files that start with `_` are not benchmarks. `headlines.toml` lists the rows of the table, at most 25.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
ROWS_AT_MOST = 25
APART = ("power", "situations")  # not run unless named: power takes hours, and proof.py plays some situations
FIELDS = {"benchmark": str, "host": dict, "versions": dict, "figures": dict, "ratios": dict}


def names(folder: Path) -> list[str]:
    """The benchmarks in a folder, in order."""
    return sorted(path.stem for path in folder.glob("*.py") if not path.name.startswith("_"))


def check(result: Any, name: str) -> dict[str, Any]:
    """The result, or a ValueError that says which part of the contract it breaks."""
    if not isinstance(result, dict):
        raise ValueError(f"{name}: the last line is {type(result).__name__}, not a JSON object")
    for field, kind in FIELDS.items():
        if not isinstance(result.get(field), kind):
            raise ValueError(f"{name}: {field!r} is {result.get(field)!r}, expected a {kind.__name__}")
    if result["benchmark"] != name:
        raise ValueError(f"{name}: the result names another benchmark, {result['benchmark']!r}")
    for field in ("figures", "ratios"):
        for key, value in result[field].items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{name}: {field}[{key!r}] is {value!r}, expected a finite number")
    if unknown := set(result.get("at_least", ())) - set(result["ratios"]):
        raise ValueError(f"{name}: 'at_least' names {', '.join(sorted(unknown))}, which is not a ratio")
    return result


def measure(folder: Path, name: str, arguments: list[str]) -> dict[str, Any]:
    """Runs one benchmark and shows its progress; its last line is the result."""
    command = ["python", f"{folder.name}/{name}.py", *arguments, "--json"]
    print("$", *command, flush=True)
    last = ""
    with subprocess.Popen(
        [sys.executable, *command[1:]], cwd=folder.parent, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print("  ", line, end="", flush=True)
            last = line.strip() or last
    if process.returncode != 0:
        raise ValueError(f"{name}: exit status {process.returncode}")
    try:
        result = json.loads(last)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: the last line is not JSON ({error}): {last[:200]!r}") from error
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {**check(result, name), "command": " ".join(command), "measured": today}


def number(value: float) -> str:
    """Four significant digits, with thousands separators."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}" if abs(value) >= 1e-4 else f"{value:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One row of the table, as headlines.toml declares it."""

    benchmark: str
    what: str
    peer: str
    ratio: str = ""  # without it: ours / theirs
    ours: str = ""
    theirs: str = ""
    unit: str = ""


def headlines(path: Path) -> list[Headline]:
    """The declared rows, or a ValueError that says what is wrong with one."""
    if not path.exists():
        return []
    rows = [Headline(**row) for row in tomllib.loads(path.read_text("utf-8")).get("headline", [])]
    if len(rows) > ROWS_AT_MOST:
        raise ValueError(f"{path.name} has {len(rows)} rows, at most {ROWS_AT_MOST} are allowed")
    for row in rows:
        if not row.ratio and not (row.ours and row.theirs):
            raise ValueError(f"{path.name}: {row.what!r} names neither 'ratio' nor both of 'ours' and 'theirs'")
    return rows


def headline_row(row: Headline, result: dict[str, Any], targets: dict[str, dict[str, float]]) -> str:
    """One line of Markdown; a KeyError names a figure that the result does not have."""
    figures = result["figures"]
    ours, theirs = (f"{number(figures[key])}{row.unit}" if key else "" for key in (row.ours, row.theirs))
    ratio = result["ratios"][row.ratio] if row.ratio else figures[row.ours] / figures[row.theirs]
    bound = "≥ " if row.ratio in result.get("at_least", ()) else ""
    least = targets.get(row.benchmark, {}).get(row.ratio)
    verdict = "" if least is None else f"{number(least)}×" + ("" if ratio >= least else " **(missed)**")
    command = f"`{result.get('command', f'python benchmarks/{row.benchmark}.py --json')}`"
    cells = (row.what, row.peer, ours, theirs, f"**{bound}{number(ratio)}×**", verdict, command)
    return f"| {' | '.join(cells)} |"


def measured_on(results: dict[str, dict[str, Any]]) -> str:
    """One line per machine and day."""
    places: dict[str, list[str]] = {}
    for name, result in results.items():
        host = result["host"]
        machine = " ".join(str(host[key]) for key in ("cpu", "device") if host.get(key)) or str(host.get("machine", ""))
        cores = f", {host['cores']} cores" if host.get("cores") else ""
        places.setdefault(f"{machine}{cores}, {result.get('measured', 'undated')}", []).append(name)
    return "\n".join(f"- {place}: {', '.join(measured)}" for place, measured in places.items())


def table(results: Path, rows: list[Headline], targets: dict[str, dict[str, float]]) -> str:
    """Markdown: the headlines whose benchmark has a result, then where they were measured."""
    recorded = {path.stem: check(json.loads(path.read_text("utf-8")), path.stem) for path in results.glob("*.json")}
    shown = {row.benchmark: recorded[row.benchmark] for row in rows if row.benchmark in recorded}
    if not shown:
        return "No result is recorded yet."
    lines = [
        "| what | compared with | Headway | peer | ratio | at least | command |",
        "|---|---|---|---|---|---|---|",
        *(headline_row(row, shown[row.benchmark], targets) for row in rows if row.benchmark in shown),
    ]
    return "\n".join([*lines, "", "Measured on:", "", measured_on(shown)])


def render(folder: Path) -> None:
    """Replaces the text between the two marks in README.md."""
    readme, targets = folder / "README.md", folder / "targets.toml"
    least = tomllib.loads(targets.read_text("utf-8")) if targets.exists() else {}
    head, begin, rest = readme.read_text("utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} lacks its marks {BEGIN} and {END}")
    text = table(folder / "results", headlines(folder / "headlines.toml"), least)
    readme.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", "utf-8")


def main(arguments: list[str] | None = None, folder: Path = HERE) -> int:
    """0: all ran; 1: at least one failed (the other results are written)."""
    parser = argparse.ArgumentParser(prog="benchmarks/_run.py", description="Run the benchmarks, render the table.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all but {', '.join(APART)})")
    parser.add_argument("--quick", action="store_true", help="about a minute each, fewer seeds")
    parser.add_argument("--render", action="store_true", help="run nothing, only render the table")
    options = parser.parse_args(arguments)
    known = names(folder)
    if unknown := set(options.names) - set(known):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}. Known: {', '.join(known) or 'none'}")
    failures = []
    usual = [name for name in known if name not in APART]
    for name in [] if options.render else options.names or usual:
        try:
            result = measure(folder, name, ["--quick"] if options.quick else [])
        except ValueError as error:
            failures.append(str(error))
            continue
        (folder / "results").mkdir(exist_ok=True)
        (folder / "results" / f"{name}.json").write_text(
            json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8"
        )
    render(folder)
    for failure in failures:
        print("failed:", failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
