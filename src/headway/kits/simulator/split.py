"""The problems of a file in three parts: to practise on, held out, and families that are held out as a whole.

part_of(problem)                                         # "train", "test" or "families"
sim("train", count=64, tasks="problems.jsonl")           # the world, as `headway learn --world sim` makes it
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np
from msgspec.structs import replace as replace_fields

from headway.encode import encoder as encoder_of
from headway.kits.simulator.outcomes import OutcomeTable, outcomes_path, recorded
from headway.kits.simulator.problem import CodeProblem, dressed, read_problems, undressed
from headway.kits.simulator.solvers import Subjects
from headway.kits.simulator.world import SimWorld
from headway.nouns import errors

Part = Literal["train", "test", "families"]
PARTS: tuple[Part, ...] = ("train", "test", "families")
HELD_OUT = ("dates", "logs")  # no policy practises on these families
ENCODER = "hashing-1-w128"  # the version of the encoder of a task that names none
UNFAMILIAR = 0.2  # the share of practised episodes whose statement is mixed with noise
WORDINGS = 4  # of every problem that is practised on: its own statement, and with other traits
_TEST_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPart:
    """Some problems of a file, with what their solutions came to."""

    problems: list[CodeProblem]
    subjects: Subjects
    table: OutcomeTable

    def world(
        self, count: int, encoder: str = ENCODER, shuffled: int | None = None, unfamiliar: float = 0.0
    ) -> SimWorld:
        statements = [problem.statement for problem in self.problems]
        table = self.table if shuffled is None else _shuffled(self.table, self.subjects, shuffled)
        reader = encoder_of(encoder, cached=False)
        return SimWorld(count, self.subjects, table, statements, reader, unfamiliar=unfamiliar)


def _shuffled(table: OutcomeTable, subjects: Subjects, seed: int) -> OutcomeTable:
    """The table with the results of the hidden tests dealt out at random: nothing can be learned from them."""
    there = np.arange(table.hidden.shape[1]) < subjects.sources[:, None]
    hidden = table.hidden.copy()
    hidden[there] = np.random.default_rng([seed, 0x5F]).permutation(hidden[there])
    return replace(table, hidden=hidden)


def reworded(part: ProblemPart, count: int) -> ProblemPart:
    """Every problem `count` times, with other traits in its statement from the second time on.

    What a solution comes to does not depend on the statement, so nothing has to be judged again.
    """
    problems = [
        replace_fields(problem, statement=dressed(undressed(problem.statement), Random(f"{problem.checksum} {number}")))
        if number
        else problem
        for problem in part.problems
        for number in range(count)
    ]
    visible, hidden = (np.repeat(results, count, axis=0) for results in (part.table.visible, part.table.hidden))
    table = replace(part.table, visible=visible, hidden=hidden)
    return ProblemPart(problems=problems, subjects=Subjects.of(problems), table=table)


def part_of(problem: CodeProblem) -> Part:
    """The part of a problem; it follows from its content, whatever else is in the file."""
    if problem.family in HELD_OUT:
        return "families"
    return "test" if int(problem.checksum[-8:], 16) < _TEST_SHARE * 2**32 else "train"


def problem_part(path: Path, part: Part) -> ProblemPart:
    """A part of a file whose solutions were judged."""
    changed = outcomes_path(path)
    times = tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in (path, changed))
    return _part(path, part, times)


@lru_cache(8)
def _part(path: Path, part: Part, times: tuple[int, ...]) -> ProblemPart:
    del times  # of the files: a changed file is read again
    problems = [problem for problem in read_problems(path) if part_of(problem) == part]
    if not problems:
        raise errors.InvalidInput(
            f"{path.name} has no problem of the part {part!r}.",
            code="bad_world",
            hint="Use a file with more problems: `headway sim generate --count 2400 --out FILE`.",
        )
    return ProblemPart(problems=problems, subjects=Subjects.of(problems), table=recorded(problems, path))


def sim(
    part: Part = "train", *, count: int = 64, tasks: str = "", encoder: str = ENCODER, shuffled: int | None = None
) -> SimWorld:
    """The world on a part of a problem file. `shuffled`: a seed that deals rewards out at random, as a control."""
    if not tasks:
        raise errors.InvalidInput(
            "The world 'sim' needs a file of problems.",
            code="bad_world",
            hint="Make one with `headway sim generate --out FILE`, and name it with --tasks FILE.",
        )
    chosen = problem_part(Path(tasks), part)
    if part != "train":
        return chosen.world(count, encoder, shuffled)
    return reworded(chosen, WORDINGS).world(count, encoder, shuffled, UNFAMILIAR)


# A proof plays on held-out problems, and with their real rewards.
sim.fresh = {"part": "test", "shuffled": None}  # type: ignore[attr-defined]
