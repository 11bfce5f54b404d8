"""A programming problem with a known solution, the files that hold problems, and the traits of their statements.

A trait is a wording that makes a statement harder to follow: padded with politeness, silent about odd input, terse,
strict about the form of the result, or tangled. For each there is one mutation of the kit `prompts` that answers it.

    problems = read_problems(Path("problems.jsonl"))     # all of them, or an error with line and field
    write_problems(Path("problems.jsonl"), problems)     # the whole file or nothing
    sealed(problem)                                      # the problem with its checksum

A file has one JSON object per line. A solution is one Python source that defines the function `entry`. The tests of our
own problems are data, arguments in and a value out, and are compared outside the process that runs the solution.
Imported problems may bring Python source instead: `tests` defines `check(candidate)`.

The checksum is the SHA-256 of the canonical JSON of all other fields: keys sorted, no spaces, UTF-8.

Not covered: whether the reference really passes and the wrong solutions really fail; `headway sim validate` runs them.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from headway.files import read_regular, write_whole
from headway.kits.prompts import MUTATIONS
from headway.nouns import errors

LEAST_WRONG = 3  # wrong solutions of a generated problem
LONGEST_LINE = 4_000_000  # bytes
OURS = "headway"  # the source of generated problems
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,99}")
_AT = re.compile(r" - at `\$\.?(.*)`$")


class CodeCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One test as data: call the function with `args`, expect `returns`. Values are plain JSON."""

    args: list[Any]
    returns: Any


class CodeProblem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A problem: what a solver reads (`statement`, `entry`, `visible`), and what it never sees."""

    id: str
    family: str
    difficulty: int  # 1 to 5
    statement: str
    entry: str  # the name of the function that a solution defines
    reference: str  # Python source that passes all tests
    wrong: list[str]  # plausible Python sources that fail a hidden test
    visible: list[CodeCase]
    hidden: list[CodeCase]
    tests: str = ""  # Python source with check(candidate); only imported problems
    source: str = OURS
    checksum: str = ""


def checksum_of(problem: CodeProblem) -> str:
    """The checksum that belongs to the other fields."""
    rest = {name: value for name, value in msgspec.to_builtins(problem).items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(problem: CodeProblem) -> CodeProblem:
    """The problem with its checksum."""
    return msgspec.structs.replace(problem, checksum=checksum_of(problem))


def read_problems(path: Path) -> list[CodeProblem]:
    """Every problem of a file. A wrong line is refused with its number and the field."""
    try:
        lines = read_regular(path).split(b"\n")
    except OSError as error:
        raise errors.InvalidInput(
            f"The problem file {str(path)!r} cannot be read: {error.strerror}.",
            code="bad_problem",
            hint="Make one with `headway sim generate --out FILE`.",
        ) from error
    problems: list[CodeProblem] = []
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path.name}:{number}"
        problem = _read(line, where)
        first = places.setdefault(problem.id, number)
        if first != number:
            raise _bad(where, "id", f"{problem.id!r} is also the id of line {first}")
        problems.append(problem)
    if not problems:
        raise errors.InvalidInput(
            f"The problem file {str(path)!r} is empty.",
            code="bad_problem",
            hint="Make one with `headway sim generate --out FILE`.",
        )
    return problems


def write_problems(path: Path, problems: Iterable[CodeProblem]) -> int:
    """Write the file as a whole, and return how many problems it has; on an error the old file stays."""
    lines = [_line(problem) for problem in problems]
    try:
        write_whole(path, b"".join(lines))
    except OSError as error:
        raise errors.InvalidInput(
            f"The problem file {str(path)!r} cannot be written: {error.strerror}.",
            code="problems_not_written",
            hint="Name a file in a folder that exists and that you may write to.",
        ) from error
    return len(lines)


def _line(problem: CodeProblem) -> bytes:
    text = json.dumps(msgspec.to_builtins(problem), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def _read(line: bytes, where: str) -> CodeProblem:
    if len(line) > LONGEST_LINE:
        raise _bad(where, "line", f"it has {len(line):,} bytes, expected at most {LONGEST_LINE:,}")
    try:
        problem = msgspec.json.decode(line, type=CodeProblem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message, field = str(error), "line"
        at = _AT.search(message)
        if at is not None:
            message, field = message[: at.start()], at[1] or "line"
        named = re.search(r"field `(\w+)`", message)
        raise _bad(where, named[1] if named is not None and field == "line" else field, message) from error
    for name, fault in _faults(problem):
        raise _bad(where, name, fault)
    expected = checksum_of(problem)
    if problem.checksum != expected:
        raise errors.Damaged(
            f"{where}: the field 'checksum' of {problem.id!r} does not fit the other fields "
            f"({problem.checksum[:12]!r}, expected {expected[:12]!r}): the line was changed.",
            code="problem_damaged",
            hint="Generate or import the file again.",
        )
    return problem


def _faults(problem: CodeProblem) -> Iterable[tuple[str, str]]:
    """(field, what is wrong with it), for what the types do not say."""
    if not _ID.fullmatch(problem.id):
        yield "id", f"{problem.id[:40]!r} is not a name of letters, digits, '_', '.', '/' and '-'"
    if not problem.family.strip():
        yield "family", "it is empty"
    if not 1 <= problem.difficulty <= 5:
        yield "difficulty", f"{problem.difficulty} is not between 1 and 5"
    if not problem.statement.strip():
        yield "statement", "it is empty"
    if not problem.entry.isidentifier() or keyword.iskeyword(problem.entry):
        yield "entry", f"{problem.entry[:40]!r} is not the name of a function"
    if not problem.reference.strip():
        yield "reference", "it is empty"
    if not problem.hidden and not problem.tests.strip():
        yield "hidden", "there is no hidden test, and 'tests' is empty"
    if problem.source == OURS and len(problem.wrong) < LEAST_WRONG:
        yield "wrong", f"it has {len(problem.wrong)} solutions, expected at least {LEAST_WRONG}"


def _bad(where: str, field: str, fault: str) -> errors.HeadwayError:
    return errors.InvalidInput(
        f"{where}: the field {field!r} is invalid: {fault}." if field != "line" else f"{where}: {fault}.",
        code="bad_problem",
        hint="Every line is one problem; docs/how-to/simulator.md lists the fields.",
    )


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
