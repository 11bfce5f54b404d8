"""Families on records: data cleaning, log analysis."""

from __future__ import annotations

from random import Random
from typing import Any

from headway.kits.simulator.families.parts import Core, Frame, ProgramStep

_NAMES = (" Ann", "BOB ", "li", "Eve", "ann", "Tom ", "", "Zoë", "bob")
_CITIES = ("Oslo", "rome", "Lima ", "Rome", "", "oslo")


def _rows(rng: Random) -> list[Any]:
    def row() -> dict[str, Any]:
        return {
            "name": rng.choice(_NAMES),
            "age": rng.choice((str(rng.randint(1, 90)), str(rng.randint(18, 60)), "n/a", f" {rng.randint(20, 50)} ")),
            "city": rng.choice(_CITIES),
        }

    drawn = [[row() for _ in range(rng.randint(3, 8))] for _ in range(9)]
    twin = {"name": "Eve", "age": "30", "city": "Oslo"}
    return [*drawn, [], [row()], [twin, twin, {**twin, "age": "31"}], [{"name": "", "age": "", "city": ""}]]


_AGE = "ages = [int(row['age']) for row in rows if row['age'].strip().isdigit()]\n"

CLEANING = Frame(
    parameter="rows",
    openings=(
        "`rows` is a list of records with the text fields name, age and city, typed in by hand: clean the data.",
        "Clean up customer records: `rows` is a list of dictionaries with the strings name, age and city.",
        "The argument `rows` is raw data from a form: dictionaries with name, age and city, all of them text.",
    ),
    names=("clean_rows", "clean_records", "tidy_customers", "fix_records", "scrub_rows", "clean_form", "merge_rows"),
    steps=(
        ProgramStep(
            "Drop records without a name (blanks do not count as one).",
            "rows = [row for row in rows if row['name'].strip()]",
            (
                "rows = [row for row in rows if row['city'].strip()]",
                "rows = [row for row in rows if row['name'] is not None]",
            ),
        ),
        ProgramStep(
            "Remove blanks around cities and write them in lower case.",
            "rows = [{**row, 'city': row['city'].strip().lower()} for row in rows]",
            (
                "rows = [{**row, 'city': row['city'].lower()} for row in rows]",
                "rows = [{**row, 'city': row['city'].strip().title()} for row in rows]",
            ),
        ),
        ProgramStep(
            "Of records with the same name, ignoring case and blanks around it, keep only the first.",
            "seen = {}\nfor row in rows:\n    seen.setdefault(row['name'].strip().lower(), row)\nrows = list(seen.values())",
            (
                "seen = {}\nfor row in rows:\n    seen[row['name'].strip().lower()] = row\nrows = list(seen.values())",
                "seen = {}\nfor row in rows:\n    seen.setdefault(row['name'], row)\nrows = list(seen.values())",
            ),
        ),
        ProgramStep(
            "Drop records whose age is a number below $k.",
            "rows = [row for row in rows if not row['age'].strip().isdigit() or int(row['age']) >= $k]",
            (
                "rows = [row for row in rows if not row['age'].strip().isdigit() or int(row['age']) > $k]",
                "rows = [row for row in rows if row['age'].strip().isdigit() and int(row['age']) >= $k]",
            ),
            {"k": (16, 18, 20, 21, 25, 30)},
        ),
    ),
    cores=(
        Core(
            "Return how many records have a usable age, that is a whole number, above $k.",
            _AGE + "return sum(age > $k for age in ages)",
            (
                "return sum(row['age'].isdigit() and int(row['age']) > $k for row in rows)",
                _AGE + "return sum(age < $k for age in ages)",
                "return sum(row['age'].strip() > '$k' for row in rows)",
                _AGE + "return sum(ages) // max(1, len(ages))",
            ),
            {"k": (10, 15, 20, 22, 25, 28, 30, 35, 40)},
        ),
        Core(
            "Return the names without blanks around them, in the order of the records, each cut to $k letters.",
            "return [row['name'].strip()[:$k] for row in rows]",
            (
                "return [row['name'][:$k] for row in rows]",
                "return sorted(row['name'].strip()[:$k] for row in rows)",
                "return [row['name'].strip()[:$k] for row in rows if row['name'].strip()]",
                "return [row['name'].strip().title()[:$k] for row in rows]",
            ),
            {"k": (1, 2, 3)},
        ),
        Core(
            "Return the mean of the usable ages (whole numbers), rounded down, or $k if there is none.",
            _AGE + "return sum(ages) // len(ages) if ages else $k",
            (
                _AGE + "return sum(ages) // max(1, len(rows)) if ages else $k",
                _AGE + "return sum(ages) // len(ages) if ages else 0",
                "ages = [int(row['age']) for row in rows if row['age'].isdigit()]\nreturn sum(ages) // len(ages) if ages else $k",
                _AGE + "return sorted(ages)[len(ages) // 2] if ages else $k",
            ),
            {"k": (-1, 18, 30, 99)},
            2,
        ),
        Core(
            "Return a dictionary that maps every city that is not blank to the number of its records, at most $k.",
            "counts = {}\nfor row in rows:\n    if row['city'].strip():\n"
            "        counts[row['city']] = min($k, counts.get(row['city'], 0) + 1)\nreturn counts",
            (
                "counts = {}\nfor row in rows:\n    counts[row['city']] = min($k, counts.get(row['city'], 0) + 1)\nreturn counts",
                (
                    "counts = {}\nfor row in rows:\n    if row['city'].strip():\n"
                    "        counts[row['city'].lower()] = min($k, counts.get(row['city'], 0) + 1)\nreturn counts"
                ),
                (
                    "counts = {}\nfor row in rows:\n    if row['city'].strip():\n"
                    "        counts[row['city']] = $k\nreturn counts"
                ),
            ),
            {"k": (1, 2, 3, 4)},
            3,
        ),
        Core(
            "Return for every name (without blanks, in lower case, sorted) [name, oldest usable age], with $k where no age is "
            "usable.",
            "oldest = {}\nfor row in rows:\n    name = row['name'].strip().lower()\n"
            "    age = int(row['age']) if row['age'].strip().isdigit() else $k\n"
            "    usable = row['age'].strip().isdigit()\n"
            "    if name not in oldest or (usable, age) > oldest[name]:\n        oldest[name] = (usable, age)\n"
            "return [[name, oldest[name][1]] for name in sorted(oldest)]",
            (
                (
                    "oldest = {}\nfor row in rows:\n    name = row['name'].strip().lower()\n"
                    "    age = int(row['age']) if row['age'].strip().isdigit() else $k\n"
                    "    oldest[name] = age\nreturn [[name, oldest[name]] for name in sorted(oldest)]"
                ),
                (
                    "oldest = {}\nfor row in rows:\n    name = row['name'].lower()\n"
                    "    age = int(row['age']) if row['age'].strip().isdigit() else $k\n"
                    "    oldest[name] = max(age, oldest.get(name, age))\nreturn [[name, oldest[name]] for name in sorted(oldest)]"
                ),
                (
                    "oldest = {}\nfor row in rows:\n    name = row['name'].strip().lower()\n"
                    "    age = int(row['age']) if row['age'].strip().isdigit() else $k\n"
                    "    oldest[name] = min(age, oldest.get(name, age))\nreturn [[name, oldest[name]] for name in sorted(oldest)]"
                ),
                (
                    "oldest = {}\nfor row in rows:\n    name = row['name'].strip().lower()\n"
                    "    age = int(row['age']) if row['age'].isdigit() else $k\n"
                    "    oldest[name] = max(age, oldest.get(name, age))\nreturn [[name, oldest[name]] for name in oldest]"
                ),
            ),
            {"k": (-1, 0)},
            4,
        ),
    ),
    inputs=_rows,
)

_LEVELS = ("INFO", "ERROR", "WARN", "DEBUG", "ERROR")
_SERVICES = ("db", "api", "auth", "mail")


def _lines(rng: Random) -> list[Any]:
    def line(second: int) -> str:
        if rng.random() < 0.12:
            return rng.choice(("", "--- rotated ---", "ERROR", "stack trace follows"))
        level, service = rng.choice(_LEVELS), rng.choice(_SERVICES)
        return f"{second} {level} {service} took {rng.randint(1, 400)}ms"

    drawn = []
    for _ in range(9):
        second = rng.randint(0, 50)
        lines = []
        for _ in range(rng.randint(4, 9)):
            second += rng.randint(1, 30)
            lines.append(line(second))
        drawn.append(lines)
    fixed = ["5 ERROR db took 9ms", "6 ERROR api took 10ms", "7 INFO db took 100ms", "9 ERROR db took 10ms"]
    return [*drawn, [], ["garbage"], [line(3)], fixed]


_READ = (
    "events = []\nfor line in lines:\n    parts = line.split()\n    if len(parts) == 5:\n"
    "        events.append((int(parts[0]), parts[1], parts[2], int(parts[4][:-2])))\n"
)

LOGS = Frame(
    parameter="lines",
    openings=(
        "`lines` are log lines such as `17 ERROR db took 12ms`: second, level, service, duration. Other lines are noise.",
        "Analyse a server log: `lines` is a list of entries like `17 ERROR db took 12ms`; skip lines of another form.",
        "The log in `lines` has entries of the form `17 ERROR db took 12ms` and some broken entries to skip.",
    ),
    names=("scan_log", "log_report", "read_log", "log_metric", "inspect_log", "summarise_log", "log_alarm"),
    steps=(
        ProgramStep(
            "Leave out entries of level $w.",
            "lines = [line for line in lines if ' $w ' not in line]",
            (
                "lines = [line for line in lines if not line.startswith('$w')]",
                "lines = [line for line in lines if ' $w ' in line]",
            ),
            {"w": ("DEBUG", "INFO", "WARN")},
        ),
        ProgramStep(
            "Only entries of the services $a and $b count.",
            "lines = [line for line in lines if ' $a ' in line or ' $b ' in line]",
            (
                "lines = [line for line in lines if ' $a ' in line]",
                "lines = [line for line in lines if ' $a ' not in line]",
            ),
            {"a": ("db", "api"), "b": ("auth", "mail")},
        ),
        ProgramStep(
            "Ignore the first $k lines: they belong to the start-up.",
            "lines = lines[$k:]",
            ("lines = lines[:-$k]", "lines = lines[$k + 1:]"),
            {"k": (1, 2)},
        ),
    ),
    cores=(
        Core(
            "Return the number of entries that took more than $k ms.",
            _READ + "return sum(event[3] > $k for event in events)",
            (
                _READ + "return sum(event[3] for event in events if event[3] > $k)",
                _READ + "return sum(event[0] > $k for event in events)",
                "return sum('ms' in line for line in lines)",
                _READ + "return sum(event[3] <= $k for event in events)",
            ),
            {"k": (9, 10, 50, 80, 100, 120, 150, 200, 250, 300)},
        ),
        Core(
            "Return a dictionary from level to number of entries, without levels that have fewer than $k.",
            _READ + "counts = {}\nfor event in events:\n    counts[event[1]] = counts.get(event[1], 0) + 1\n"
            "return {level: count for level, count in counts.items() if count >= $k}",
            (
                _READ + "counts = {}\nfor event in events:\n    counts[event[1]] = counts.get(event[1], 0) + 1\n"
                "return {level: count for level, count in counts.items() if count > $k}",
                _READ + "counts = {}\nfor event in events:\n    counts[event[2]] = counts.get(event[2], 0) + 1\n"
                "return {level: count for level, count in counts.items() if count >= $k}",
                (
                    "counts = {}\nfor line in lines:\n    for level in ('INFO', 'ERROR', 'WARN', 'DEBUG'):\n"
                    "        if level in line:\n            counts[level] = counts.get(level, 0) + 1\n"
                    "return {level: count for level, count in counts.items() if count >= $k}"
                ),
            ),
            {"k": (1, 2, 3)},
            2,
        ),
        Core(
            "Return the longest pause in seconds between neighbouring entries, and $k if there are fewer than two.",
            _READ + "return max((b[0] - a[0] for a, b in zip(events, events[1:])), default=$k)",
            (
                _READ + "return max((b[0] - a[0] for a, b in zip(events, events[1:])), default=0)",
                _READ + "return events[-1][0] - events[0][0] if len(events) > 1 else $k",
                _READ + "return min((b[0] - a[0] for a, b in zip(events, events[1:])), default=$k)",
                _READ + "return max((b[3] - a[3] for a, b in zip(events, events[1:])), default=$k)",
            ),
            {"k": (-1, -2, 1, 60)},
            3,
        ),
        Core(
            "Return the service with the highest total duration of its ERROR entries ('$w' if there is none); ties go to the "
            "service that is first in the alphabet.",
            _READ + "totals = {}\nfor second, level, service, took in events:\n    if level == 'ERROR':\n"
            "        totals[service] = totals.get(service, 0) + took\n"
            "return min(totals, key=lambda name: (-totals[name], name)) if totals else '$w'",
            (
                _READ + "totals = {}\nfor second, level, service, took in events:\n"
                "    totals[service] = totals.get(service, 0) + took\n"
                "return min(totals, key=lambda name: (-totals[name], name)) if totals else '$w'",
                _READ + "totals = {}\nfor second, level, service, took in events:\n    if level == 'ERROR':\n"
                "        totals[service] = max(totals.get(service, 0), took)\n"
                "return min(totals, key=lambda name: (-totals[name], name)) if totals else '$w'",
                _READ + "totals = {}\nfor second, level, service, took in events:\n    if level == 'ERROR':\n"
                "        totals[service] = totals.get(service, 0) + 1\n"
                "return min(totals, key=lambda name: (-totals[name], name)) if totals else '$w'",
                _READ + "totals = {}\nfor second, level, service, took in events:\n    if level == 'ERROR':\n"
                "        totals[service] = totals.get(service, 0) + took\n"
                "return min(totals, key=lambda name: (totals[name], name)) if totals else '$w'",
            ),
            {"w": ("none", "nobody", "-", "quiet")},
            4,
        ),
    ),
    inputs=_lines,
)
