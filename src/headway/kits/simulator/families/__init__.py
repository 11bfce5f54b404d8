"""The families of problems: name → function (difficulty, rng) → Program. Their texts and code are in families.toml."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from headway.kits.simulator.families.parts import Program, frames, program

_GIVEN = ("arithmetic", "sorting", "strings")  # the families whose programs are given
_BROKEN = (
    "This function has a bug. Repair it, and keep its name.",
    "A test of this function fails. Find the mistake and correct the code.",
    "Something is wrong in the code below: debug it, and give the whole corrected function.",
)
_REFACTOR = (
    "Refactor the code below without changing what it computes",
    "The code below works on one value and is copied everywhere. Refactor it",
    "Restructure this function and keep its behaviour",
)


def repair(difficulty: int, rng: Random) -> Program:
    """A program with one mistake in it; the mistaken code is the first wrong solution."""
    drawn = program(frames()[rng.choice(_GIVEN)], difficulty, rng)
    broken = rng.choice(drawn.wrong)
    opening = f"{rng.choice(_BROKEN)}\n\n```python\n{broken.strip()}\n```\n\nIt should do this. {drawn.opening}"
    wrong = (broken, *(source for source in drawn.wrong if source != broken))
    return replace(drawn, opening=opening, wrong=wrong)


def refactor(difficulty: int, rng: Random) -> Program:
    """A program for one value, to be rewritten for a list of values."""
    inner = program(frames()[rng.choice(_GIVEN)], difficulty, rng)
    entry, one = f"{inner.entry}_all", f"_{inner.entry}"
    imports, _, _ = inner.reference.partition("def ")
    given = _clumsy(inner.reference)
    opening = (
        f"{rng.choice(_REFACTOR)}: the new function `{entry}` takes a list `batches` of such arguments and returns "
        f"the list of results, one for each, in order; empty ones included.\n\n```python\n{given.strip()}\n```\n\n"
        f"What it does now. {inner.opening}"
    )

    def source(old: str, body: str) -> str:
        helper = old.replace(f"def {inner.entry}(", f"def {one}(").removeprefix(imports).rstrip()
        return f"{imports}{helper}\n\n\ndef {entry}(batches):\n    {body}\n"

    kept = f"return [{one}(batch) for batch in batches]"
    mistakes = (
        f"return [{one}(batch) for batch in batches if batch]",
        f"return [{one}(batch) for batch in reversed(batches)]",
        f"return [{one}(batch) for batch in batches][:3]",
    )
    cases = list(inner.inputs)
    groups = [rng.sample(cases, 3) for _ in range(8)]
    empty = type(cases[0])()
    return replace(
        inner,
        opening=opening,
        entry=entry,
        parameter="batches",
        reference=source(inner.reference, kept),
        wrong=(
            *(source(inner.reference, mistake) for mistake in mistakes),
            *(source(wrong, kept) for wrong in inner.wrong),
        ),
        inputs=(*groups, [], [empty, cases[0]], cases[:5], [cases[1], empty, cases[2], empty]),
    )


def _clumsy(source: str) -> str:
    """The same code with names that say nothing."""
    parameter = re.search(r"\((\w+)\):", source)
    return source if parameter is None else re.sub(rf"\b{parameter[1]}\b", "data1", source)


_drawn = {name: partial(program, frame) for name, frame in frames().items()}
_logs = _drawn.pop("logs")  # the last one: generated problems come in this order

FAMILIES: Mapping[str, Callable[[int, Random], Program]] = {
    **_drawn,
    "repair": repair,
    "refactoring": refactor,
    "logs": _logs,
}
