"""The families of problems: name → function (difficulty, rng) → Program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from headway.kits.simulator.families import code, dates, graphs, numbers, records, text
from headway.kits.simulator.families.parts import Frame, Program, program

__all__ = ["FAMILIES", "Program"]


def _of(frame: Frame) -> Callable[[int, Random], Program]:
    return partial(program, frame)


FAMILIES: Mapping[str, Callable[[int, Random], Program]] = {
    "arithmetic": _of(numbers.ARITHMETIC),
    "strings": _of(text.STRINGS),
    "parsing": _of(text.PARSING),
    "sorting": _of(numbers.SORTING),
    "graphs": _of(graphs.GRAPHS),
    "dynamic-programming": _of(numbers.DYNAMIC),
    "dates": _of(dates.DATES),
    "cleaning": _of(records.CLEANING),
    "regex": _of(text.REGEX),
    "repair": code.repair,
    "refactoring": code.refactor,
    "logs": _of(records.LOGS),
}
