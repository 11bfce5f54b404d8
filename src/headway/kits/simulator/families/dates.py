"""The family on calendar dates."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any

from headway.kits.simulator.families.parts import Core, Frame, ProgramStep


def _days(rng: Random) -> list[Any]:
    def day() -> str:
        return (date(2019, 12, 20) + timedelta(days=rng.randint(0, 1900))).isoformat()

    drawn = [[day() for _ in range(rng.randint(3, 7))] for _ in range(9)]
    first = date(2023, 3, 1) + timedelta(days=rng.randint(0, 300))
    row = [(first + timedelta(days=number)).isoformat() for number in range(6)]
    return [*drawn, [], [day()], row, ["2020-02-29", "2020-03-01", "2021-02-28"], ["2024-01-31", "2024-12-31"]]


DATES = Frame(
    parameter="days",
    openings=(
        "`days` is a list of calendar dates such as '2024-02-29', as strings.",
        "The argument `days` holds ISO dates (year-month-day) as text, in no particular order.",
        "You get `days`, a list of date strings of the form 2024-02-29.",
    ),
    names=("count_days", "calendar_value", "date_report", "plan_dates", "schedule_days", "calendar_check", "due_dates"),
    steps=(
        ProgramStep(
            "Leave out Saturdays and Sundays.",
            "days = [day for day in days if date.fromisoformat(day).weekday() < 5]",
            (
                "days = [day for day in days if date.fromisoformat(day).weekday() < 6]",
                "days = [day for day in days if date.fromisoformat(day).isoweekday() < 5]",
            ),
        ),
        ProgramStep(
            "Leave out dates before the year $k.",
            "days = [day for day in days if date.fromisoformat(day).year >= $k]",
            (
                "days = [day for day in days if date.fromisoformat(day).year > $k]",
                "days = [day for day in days if date.fromisoformat(day).year < $k]",
            ),
            {"k": (2020, 2021, 2022, 2023)},
        ),
        ProgramStep(
            "Move every date $k days into the future.",
            "days = [(date.fromisoformat(day) + timedelta(days=$k)).isoformat() for day in days]",
            (
                "days = [(date.fromisoformat(day) - timedelta(days=$k)).isoformat() for day in days]",
                "days = [(date.fromisoformat(day) + timedelta(weeks=$k)).isoformat() for day in days]",
            ),
            {"k": (1, 2, 3, 10, 20, 30)},
        ),
    ),
    cores=(
        Core(
            "Return the number of days from the earliest date to the latest, plus $k; 0 if there are no dates.",
            "if not days:\n    return 0\nreturn (date.fromisoformat(max(days)) - date.fromisoformat(min(days))).days + $k",
            (
                "if not days:\n    return 0\nreturn (date.fromisoformat(days[-1]) - date.fromisoformat(days[0])).days + $k",
                "if not days:\n    return $k\nreturn (date.fromisoformat(max(days)) - date.fromisoformat(min(days))).days + $k",
                (
                    "if not days:\n    return 0\nfirst, last = min(days), max(days)\n"
                    "return 365 * (int(last[:4]) - int(first[:4])) + 30 * (int(last[5:7]) - int(first[5:7])) + "
                    "int(last[8:]) - int(first[8:]) + $k"
                ),
            ),
            {"k": (1, 2, 3, 5, 7, 10, 14)},
        ),
        Core(
            "Return how many of the dates fall on a $w.",
            "return sum(date.fromisoformat(day).strftime('%A') == '$w' for day in days)",
            (
                "return sum((date.fromisoformat(day) + timedelta(days=1)).strftime('%A') == '$w' for day in days)",
                "return sum(date.fromisoformat(day).strftime('%A') != '$w' for day in days)",
                "return int(any(date.fromisoformat(day).strftime('%A') == '$w' for day in days)) + len(days) // 8",
            ),
            {"w": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")},
        ),
        Core(
            "Return the dates that are in month $k of a leap year, sorted.",
            "return sorted(day for day in days if int(day[5:7]) == $k and (int(day[:4]) % 4 == 0))",
            (
                "return [day for day in days if int(day[5:7]) == $k and (int(day[:4]) % 4 == 0)]",
                "return sorted(day for day in days if int(day[5:7]) == $k)",
                "return sorted(day for day in days if int(day[:4]) % 4 == 0)",
            ),
            {"k": (1, 2, 3, 12)},
            2,
        ),
        Core(
            "Return for every date the same day $k months later, or the last day of that month if it has no such day.",
            "moved = []\nfor day in days:\n    year, month, number = map(int, day.split('-'))\n"
            "    year, month = year + (month + $k - 1) // 12, (month + $k - 1) % 12 + 1\n"
            "    following = date(year + month // 12, month % 12 + 1, 1)\n"
            "    moved.append(f'{year}-{month:02d}-{min(number, (following - timedelta(days=1)).day):02d}')\nreturn moved",
            (
                "return [(date.fromisoformat(day) + timedelta(days=30 * $k)).isoformat() for day in days]",
                (
                    "moved = []\nfor day in days:\n    year, month, number = map(int, day.split('-'))\n"
                    "    year, month = year + (month + $k - 1) // 12, (month + $k - 1) % 12 + 1\n"
                    "    moved.append(f'{year}-{month:02d}-{min(number, 28):02d}')\nreturn moved"
                ),
                (
                    "moved = []\nfor day in days:\n    year, month, number = map(int, day.split('-'))\n"
                    "    year, month = year + (month + $k) // 12, (month + $k) % 12 + 1\n"
                    "    moved.append(f'{year}-{month:02d}-{number:02d}')\nreturn moved"
                ),
                (
                    "moved = []\nfor day in days:\n    year, month, number = map(int, day.split('-'))\n"
                    "    moved.append(date(year, month + $k, number).isoformat())\nreturn moved"
                ),
            ),
            {"k": (1, 2, 3, 5, 6, 11)},
            3,
        ),
        Core(
            "Return the longest run of dates that follow one another day by day, as [first date, length]; the earliest such "
            "run, and ['', $k] without dates. Duplicates count once.",
            "best, run = ['', $k], []\nfor day in sorted(set(days)):\n"
            "    if run and date.fromisoformat(day) - date.fromisoformat(run[-1]) == timedelta(days=1):\n"
            "        run.append(day)\n    else:\n        run = [day]\n"
            "    if best[0] == '' or len(run) > best[1]:\n        best = [run[0], len(run)]\nreturn best",
            (
                (
                    "best, run = ['', $k], []\nfor day in sorted(set(days)):\n"
                    "    if run and date.fromisoformat(day) - date.fromisoformat(run[-1]) == timedelta(days=1):\n"
                    "        run.append(day)\n    else:\n        run = [day]\n"
                    "    if best[0] == '' or len(run) >= best[1]:\n        best = [run[0], len(run)]\nreturn best"
                ),
                (
                    "best, run = ['', $k], []\nfor day in days:\n"
                    "    if run and date.fromisoformat(day) - date.fromisoformat(run[-1]) == timedelta(days=1):\n"
                    "        run.append(day)\n    else:\n        run = [day]\n"
                    "    if best[0] == '' or len(run) > best[1]:\n        best = [run[0], len(run)]\nreturn best"
                ),
                "return [min(days), len(set(days))] if days else ['', $k]",
            ),
            {"k": (0, -1)},
            4,
        ),
    ),
    inputs=_days,
    imports=("from datetime import date, timedelta",),
)
