"""The families of problems: name → function (difficulty, rng) → Program. Their texts and code are in families.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from headway.kits.simulator.families.code import refactor, repair
from headway.kits.simulator.families.parts import Program, frames, program

_drawn = {name: partial(program, frame) for name, frame in frames().items()}
_logs = _drawn.pop("logs")  # the last one: generated problems come in this order

FAMILIES: Mapping[str, Callable[[int, Random], Program]] = {
    **_drawn,
    "repair": repair,
    "refactoring": refactor,
    "logs": _logs,
}
