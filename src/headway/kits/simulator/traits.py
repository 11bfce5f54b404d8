"""What makes a statement harder to follow, and the mutation of the prompt that helps against it.

A statement may be padded with politeness, be silent about odd input, be terse, be strict about the form of the result,
or tangle its parts. Each trait is a wording that anyone can see in the text; for each there is one mutation of the kit
`prompts` that answers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from headway.kits.prompts import MUTATIONS

# Mutation → wordings. Those of context-reduction are fillers, which the mutation removes.
TRAITS: Mapping[str, tuple[str, ...]] = {
    "try-catch-style": (
        "Callers are careless and nobody has said what happens with odd input.",
        "The input comes from outside and may be empty or strange.",
        "Bad input has crashed the old version more than once.",
    ),
    "context-reduction": (
        "Hello there! I was wondering if you could, if you don't mind, basically help me out here, really.",
        "Good morning! As you may already know, to be honest, I would really like you to help with this very quickly.",
        "Hi everyone! Needless to say, what I need is for you to actually look at this, honestly, thank you very much!",
    ),
    "expansion": (
        "You know the background.",
        "The rest should be clear from the context.",
        "I keep this short; fill in what is missing.",
    ),
    "constraint-addition": (
        "The result is compared byte for byte with that of the old program.",
        "Types and order of the result matter to the callers.",
        "The result goes into a strict interface that accepts nothing else.",
    ),
    "task-decomposition": (
        "Everything depends on everything else here, so mind how the parts play together.",
        "Several rules apply at once and influence one another.",
        "The parts of this have to work together in one go.",
    ),
}
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
