"""Generates problems with known solutions: the same count, seed and families give the same bytes, anywhere.

    problems = generate(1_200, seed=42)                       # families in turn, difficulties 1 to 5 in turn
    generate(100, seed=1, families=("graphs", "logs"))

The reference computes the expected values here: it is our own code, not a stranger's. A wrong solution that agrees with
the reference on every test is not wrong and is left out; a draw with fewer than three wrong ones is drawn again. The
visible tests are chosen so that some wrong solutions pass them and others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Any

import msgspec

from headway.kits.simulator.families import FAMILIES
from headway.kits.simulator.families.parts import Program
from headway.kits.simulator.problem import LEAST_WRONG, CodeCase, CodeProblem, dressed, sealed
from headway.nouns import Progress, errors

DIFFICULTIES = 5
MOST_WRONG = 6
VISIBLE = 3  # visible tests, at most
_ATTEMPTS = 400  # draws for one problem before its family counts as exhausted
_VERBS = (
    "Write a Python function",
    "Implement a Python function",
    "Create a Python function",
    "Please write a function",
)


def generate(
    count: int, seed: int, families: Sequence[str] = (), progress: Progress | None = None
) -> Iterator[CodeProblem]:
    """`count` different problems, one after another."""
    names = family_names(families)
    seen: set[str] = set()
    for number in range(count):
        family = names[number % len(names)]
        difficulty = number // len(names) % DIFFICULTIES + 1
        yield _one(family, difficulty, number, seed, seen)
        if progress is not None and number % 50 == 49:
            progress("problems", number + 1, count)


def family_names(wanted: Sequence[str] = ()) -> list[str]:
    """The families by name; all of them if none is named."""
    for name in wanted:
        if name not in FAMILIES:
            raise errors.UnknownName(
                f"There is no family {name!r} of problems.",
                code="unknown_family",
                hint=errors.did_you_mean(name, FAMILIES),
            )
    return list(dict.fromkeys(wanted)) or list(FAMILIES)


def _one(family: str, difficulty: int, number: int, seed: int, seen: set[str]) -> CodeProblem:
    rng = Random(f"problem:{seed}:{family}:{number}")
    for _ in range(_ATTEMPTS):
        drawn = FAMILIES[family](difficulty, rng)
        statement = dressed(_statement(drawn, rng), rng)
        if statement in seen:
            continue
        tests = _tests(drawn, rng)
        if tests is None:
            continue
        seen.add(statement)
        wrong, visible, hidden = tests
        return sealed(
            CodeProblem(
                id=f"{family}-{number:06d}",
                family=family,
                difficulty=difficulty,
                statement=statement,
                entry=drawn.entry,
                reference=drawn.reference,
                wrong=wrong,
                visible=visible,
                hidden=hidden,
            )
        )
    raise errors.InvalidInput(
        f"The family {family!r} has no new problem of difficulty {difficulty} after {number:,} problems.",
        code="family_exhausted",
        hint="Ask for fewer problems, or for more families.",
    )


def _statement(drawn: Program, rng: Random) -> str:
    head = f"{rng.choice(_VERBS)} `{drawn.entry}({drawn.parameter})`. {drawn.opening}"
    if len(drawn.sentences) == 1:
        return f"{head} {drawn.sentences[0]}"
    steps = "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(drawn.sentences, 1))
    return f"{head} Do this in order:\n{steps}\n"


def _tests(drawn: Program, rng: Random) -> tuple[list[str], list[CodeCase], list[CodeCase]] | None:
    """(wrong solutions, visible tests, hidden tests), or None if the draw does not tell them apart."""
    inputs = [argument for place, argument in enumerate(drawn.inputs) if argument not in drawn.inputs[:place]]
    given = [msgspec.json.encode(argument) for argument in inputs]
    expected = _results(drawn.reference, drawn.entry, given)
    assert all(result != _RAISED for result in expected), f"a reference fails:\n{drawn.reference}"
    passes: dict[str, list[bool]] = {}
    for source in drawn.wrong:
        got = _results(source, drawn.entry, given)
        agrees = [one == other for one, other in zip(got, expected, strict=True)]
        if not all(agrees):
            passes.setdefault(source, agrees)
    wrong = list(passes)[:MOST_WRONG]
    if len(wrong) < LEAST_WRONG:
        return None
    shown = _visible([passes[source] for source in wrong], rng)
    if shown is None:
        return None
    returns = [msgspec.json.decode(result) for result in expected]
    cases = [CodeCase(args=[argument], returns=value) for argument, value in zip(inputs, returns, strict=True)]
    hidden = [case for place, case in enumerate(cases) if place not in shown]
    return wrong, [cases[place] for place in shown], hidden


def _visible(passes: list[list[bool]], rng: Random) -> tuple[int, ...] | None:
    """Inputs that some wrong solutions pass and others fail; every wrong one must fail one of the others."""
    places = list(range(len(passes[0])))
    rng.shuffle(places)
    for count in (VISIBLE, 2, 1):
        for shown in combinations(places[:8], count):
            passed = [all(row[place] for place in shown) for row in passes]
            rest = [place for place in places if place not in shown]
            if any(passed) and not all(passed) and all(not all(row[place] for place in rest) for row in passes):
                return tuple(sorted(shown))
    return None


_RAISED = b"raised"


def _results(source: str, entry: str, inputs: Sequence[bytes]) -> list[bytes]:
    """What a source of ours returns for each input, as canonical JSON, or `raised`."""
    space: dict[str, Any] = {}
    exec(compile(source, "<problem>", "exec"), space)  # our own templates, never a stranger's code
    function: Callable[..., Any] = space[entry]
    results = []
    for argument in inputs:
        try:
            value = function(msgspec.json.decode(argument))  # a copy of its own: a solution may change its argument
            results.append(msgspec.json.encode(value, order="deterministic"))
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            results.append(_RAISED)
    return results
