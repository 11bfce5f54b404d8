"""What makes a statement harder to follow, and the mutation of the prompt that helps against it.

A statement may be padded with politeness, be silent about odd input, be terse, be strict about the form of the result,
or tangle its parts. Each trait is a wording that anyone can see in the text; for each there is one mutation of the kit
`prompts` that answers it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from random import Random

from headway.kits.prompts import MUTATIONS

# Mutation → wordings
TRAITS: Mapping[str, Sequence[str]] = tomllib.loads(files(__package__).joinpath("traits.toml").read_text("utf-8"))
_SHARES = (0.45, 0.80)  # no trait, at most one; the rest has two
_MARKS = tuple((MUTATIONS.index(kind), wording) for kind, wordings in TRAITS.items() for wording in wordings)


def dressed(statement: str, rng: Random) -> str:
    """The statement with none, one or two traits."""
    draw = rng.random()
    count = sum(draw >= share for share in _SHARES)
    for kind in sorted(rng.sample(sorted(TRAITS), count), key=lambda kind: kind == "context-reduction"):
        wording = rng.choice(TRAITS[kind])
        gap = "" if statement.endswith("\n") else " "
        statement = f"{wording} {statement}" if kind == "context-reduction" else f"{statement}{gap}{wording}"
    return statement.rstrip()


def undressed(statement: str) -> str:
    """The statement without its traits."""
    for _, wording in _MARKS:
        statement = statement.replace(f"{wording} ", "").replace(f" {wording}", "").replace(wording, "")
    return statement.rstrip()


def traits_of(statement: str) -> tuple[int, ...]:
    """The mutations, by number, that would help with this statement."""
    return tuple(sorted({number for number, wording in _MARKS if wording in statement}))
