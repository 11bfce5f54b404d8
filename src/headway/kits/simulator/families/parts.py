"""The parts that problems are put together from: steps, cores and the frame of a family, as families.toml has them.

A program is some steps and then one core; difficulty is the level of the core plus the number of steps. `$k` stands for
a value that is drawn for every problem. `wrong` holds the same part with a plausible mistake.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from string import Template
from typing import Any

from headway.kits.simulator.families.inputs import INPUTS


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
