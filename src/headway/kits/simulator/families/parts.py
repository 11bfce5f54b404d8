"""The parts that problems are put together from: steps, cores and the frame of a family, as families.toml has them.

A program is some steps and then one core; difficulty is the level of the core plus the number of steps. `$k` stands for
a value that is drawn for every problem. `wrong` holds the same part with a plausible mistake.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from random import Random
from string import Template
from typing import Any


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """A step before the core, or the core: what the statement says, the code, the code with a mistake."""

    text: str
    code: str
    wrong: Sequence[str]
    values: Mapping[str, Sequence[Any]]
    level: int  # of a core


@dataclass(frozen=True, slots=True)
class Frame:
    """What the problems of a family share."""

    parameter: str
    openings: Sequence[str]
    names: Sequence[str]
    steps: Sequence[ProgramPart]
    cores: Sequence[ProgramPart]
    inputs: Callable[[Random], list[Any]]
    imports: Sequence[str]


@cache
def frames() -> Mapping[str, Frame]:
    """The frame of every family in families.toml."""
    families = tomllib.loads(files(__package__).joinpath("families.toml").read_text("utf-8"))

    def parts(rows: Sequence[Mapping[str, Any]]) -> list[ProgramPart]:
        return [ProgramPart(**{"values": {}, "level": 1, **row}) for row in rows]

    return {
        name: Frame(
            **{"imports": (), **family, "steps": parts(family["steps"]), "cores": parts(family["cores"])},
            inputs=INPUTS[name],
        )
        for name, family in families.items()
    }


@dataclass(frozen=True, slots=True)
class Program:
    """A drawn program: its sentences, its code, and the same code with one mistake each."""

    opening: str
    sentences: tuple[str, ...]
    entry: str
    parameter: str
    reference: str
    wrong: tuple[str, ...]
    inputs: tuple[Any, ...]


def program(frame: Frame, difficulty: int, rng: Random) -> Program:
    """Draw a program of this difficulty."""
    levels = [core for core in frame.cores if 0 <= difficulty - core.level <= len(frame.steps)]
    core = rng.choice(levels)
    chosen = rng.sample(range(len(frame.steps)), difficulty - core.level)
    parts = [*(frame.steps[place] for place in chosen), core]
    texts: list[str] = []
    codes: list[str] = []
    wrongs: list[tuple[int, str]] = []
    for place, part in enumerate(parts):
        drawn = {name: rng.choice(list(values)) for name, values in part.values.items()}
        texts.append(Template(part.text).substitute(drawn))
        codes.append(Template(part.code).substitute(drawn))
        wrongs += [(place, Template(wrong).substitute(drawn)) for wrong in part.wrong]
    entry = rng.choice(frame.names)

    def source(bodies: Sequence[str]) -> str:
        lines = [line for body in bodies for line in body.split("\n")]
        imports = "".join(f"{line}\n" for line in frame.imports)
        head = f"{imports}\n\n" if imports else ""
        return head + f"def {entry}({frame.parameter}):\n" + "".join(f"    {line}\n" for line in lines)

    # Mistakes in the core first: there are always three of them.
    wrongs.sort(key=lambda pair: -pair[0])
    return Program(
        opening=rng.choice(frame.openings),
        sentences=tuple(texts),
        entry=entry,
        parameter=frame.parameter,
        reference=source(codes),
        wrong=tuple(source([*codes[:place], wrong, *codes[place + 1 :]]) for place, wrong in wrongs),
        inputs=tuple(frame.inputs(rng)),
    )


_WORDS = (
    "level", "banana", "Rotor", "sky", "queue", "Apple", "noon", "stream", "kiosk", "Echo", "tree", "onion", "Bee",
    "window", "civic", "rhythm", "oasis", "gold", "little", "area", "Ivy", "deed", "moss", "eel",
)  # fmt: skip  # fmt: skip
_NAMES = (" Ann", "BOB ", "li", "Eve", "ann", "Tom ", "", "Zoë", "bob")
_CITIES = ("Oslo", "rome", "Lima ", "Rome", "", "oslo")
_LEVELS = ("INFO", "ERROR", "WARN", "DEBUG", "ERROR")
_SERVICES = ("db", "api", "auth", "mail")


def _lists(rng: Random) -> list[Any]:
    """Lists of whole numbers: empty, single, equal, negative, and random ones."""
    single = rng.randint(-30, 30)
    drawn = [[rng.randint(-30, 60) for _ in range(rng.randint(3, 9))] for _ in range(7)]
    even = [2 * rng.randint(-9, 20) for _ in range(6)]
    return [*drawn, [], [single], [7, 7, 7], [-5, -12, -1, -12], [0, 1, 0, 2, 40, 41], even]


def _small(rng: Random) -> list[Any]:
    """Lists of numbers from 0 to 12, mostly above 0."""
    drawn = [[rng.randint(1, 12) for _ in range(rng.randint(3, 8))] for _ in range(8)]
    return [*drawn, [], [rng.randint(1, 9)], [3, 3, 3, 3], [0, 5, 0, 1], [1, 2, 3, 4, 5, 6]]


def _sentences(rng: Random) -> list[Any]:
    drawn = [" ".join(rng.choice(_WORDS) for _ in range(rng.randint(3, 7))) for _ in range(7)]
    return [*drawn, "", "a", "  two  spaces ", "Noon noon NOON", "aaa bb c aaa", rng.choice(_WORDS)]


def _pairs(rng: Random) -> list[Any]:
    def drawn() -> str:
        keys = rng.sample(("id", "size", "cost", "Rate", "age", "max", "port"), rng.randint(2, 4))
        parts = [f"{key}={rng.randint(-20, 90)}" for key in keys]
        parts += [f"{rng.choice(keys)}={rng.randint(1, 40)}"] * rng.randint(0, 1)
        if rng.random() < 0.4:
            parts.append(f"note={rng.choice(('ok', 'n/a', 'none'))}")
        return ";".join(parts) + (" # end" if rng.random() < 0.4 else "")

    odd = f"cost = {rng.randint(3, 30)} ; size=4"
    return [*(drawn() for _ in range(8)), "", odd, "a=1;b=2;c=x", "a=7;;b=-7;", "# only a comment", "max=5;max=9;max=2"]


def _notes(rng: Random) -> list[Any]:
    def token() -> str:
        return rng.choice(
            (
                f"#{rng.randrange(0x1000):03x}", f"#{rng.randrange(0x1000000):06x}", f"room-{rng.randint(1, 99)}",
                f"{rng.randint(1900, 2099)}", f"v{rng.randint(0, 9)}.{rng.randint(0, 20)}", f"x{rng.randint(1, 300)}",
                f"{rng.choice(('ann', 'bob', 'li'))}@site.org", f"({rng.randint(1, 9)})", "the the", "Room-7",
                f"{rng.randint(1, 9)}{rng.randint(100, 999)}5", "is is",
            )
        )  # fmt: skip

    drawn = [" ".join(token() for _ in range(rng.randint(4, 8))) for _ in range(8)]
    return [*drawn, "", "2024", "room-3room-4 x#fff", "#ABCDEF and #12 v1.2.3", "12345 1999a b2001 2024-2025"]


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


def _days(rng: Random) -> list[Any]:
    def day() -> str:
        return (date(2019, 12, 20) + timedelta(days=rng.randint(0, 1900))).isoformat()

    drawn = [[day() for _ in range(rng.randint(3, 7))] for _ in range(9)]
    first = date(2023, 3, 1) + timedelta(days=rng.randint(0, 300))
    row = [(first + timedelta(days=number)).isoformat() for number in range(6)]
    return [*drawn, [], [day()], row, ["2020-02-29", "2020-03-01", "2021-02-28"], ["2024-01-31", "2024-12-31"]]


def _edges(rng: Random) -> list[Any]:
    def edge(nodes: int) -> list[int]:
        return [rng.randrange(nodes), rng.randrange(nodes), rng.randint(1, 9)]

    drawn = [[edge(rng.randint(4, 7)) for _ in range(rng.randint(4, 10))] for _ in range(9)]
    path = [[node, node + 1, 2] for node in range(5)]
    return [
        *drawn,
        [],
        [[0, 1, 5]],
        path,
        [[1, 0, 3], [2, 1, 1], [0, 2, 4]],
        [[0, 1, 9], [0, 2, 1], [2, 1, 1], [4, 5, 1]],
    ]


INPUTS: Mapping[str, Callable[[Random], list[Any]]] = {
    "arithmetic": _lists,
    "strings": _sentences,
    "parsing": _pairs,
    "sorting": _lists,
    "graphs": _edges,
    "dynamic-programming": _small,
    "dates": _days,
    "cleaning": _rows,
    "regex": _notes,
    "logs": _lines,
}
