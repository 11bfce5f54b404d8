"""`headway sim generate`, `import` and `validate`: files of problems, and whether their references pass."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import click

from headway.cli import Output, Session, renders, verb
from headway.kits.simulator.problem import CodeProblem, write_problems
from headway.nouns import plural

_OUT = click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="FILE", help="The file to write."
)


@verb(
    "generate",
    "headway sim generate --count 1200 --out problems.jsonl",
    "headway sim generate --count 100 --family graphs --family logs --seed 7 --out graphs.jsonl",
)
@click.option("--count", type=click.IntRange(1, 100_000), default=1_000, show_default=True, help="How many problems.")
@click.option(
    "--seed", type=click.IntRange(0), default=42, show_default=True, help="The same seed gives the same bytes."
)
@click.option("--family", "families", multiple=True, help="Only problems of this family; may be repeated.")
@_OUT
def generate(session: Session, count: int, seed: int, families: tuple[str, ...], out: Path) -> None:
    """Write problems with statements, solutions, wrong solutions and hidden tests."""
    from headway.kits.simulator.generate import family_names, generate as problems_of

    family_names(families)  # an unknown family fails before anything else
    begun = time.perf_counter()
    problems = list(problems_of(count, seed, families, session.out.progress))
    write_problems(out, problems)
    session.show(_file(out, problems, time.perf_counter() - begun))
    session.next(f"headway sim validate {quote(str(out))}")


@verb(
    "import",
    "headway sim import HumanEval.jsonl.gz --out human_eval.jsonl",
    "headway sim import mbpp.jsonl --shape mbpp --out mbpp_problems.jsonl --json",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--shape", type=click.Choice(["human-eval", "mbpp"]), help="The shape of FILE; recognised by default.")
@_OUT
def import_(session: Session, file: Path, shape: Any, out: Path) -> None:
    """Import problems from FILE, in the shape of HumanEval or MBPP."""
    from headway.kits.simulator.foreign_problems import read_foreign

    begun = time.perf_counter()
    imported = read_foreign(file, shape)
    write_problems(out, imported.problems)
    session.show(_file(out, imported.problems, time.perf_counter() - begun, imported.skipped))
    session.next(f"headway sim validate {quote(str(out))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemFile:
    """A file of problems that was written."""

    file: Path
    problems: int
    families: Mapping[str, int]
    difficulties: Mapping[str, int]
    wrong_solutions: int
    seconds: float
    skipped: Mapping[str, str] = field(default_factory=dict)


def _file(
    path: Path, problems: list[CodeProblem], seconds: float, skipped: Mapping[str, str] | None = None
) -> ProblemFile:
    return ProblemFile(
        file=path,
        problems=len(problems),
        families=Counter(problem.family for problem in problems),
        difficulties=dict(sorted(Counter(str(problem.difficulty) for problem in problems).items())),
        wrong_solutions=sum(len(problem.wrong) for problem in problems),
        seconds=seconds,
        skipped=skipped or {},
    )


@renders(ProblemFile)
def _written(out: Output, written: ProblemFile) -> None:
    out.line(f"{plural(written.problems, 'problem')} in {written.file}, {written.seconds:.1f} s.", style="bold")
    out.table(
        ("family", "problems"), [(name, f"{count:,}") for name, count in written.families.items()], right=("problems",)
    )
    for name, why in list(written.skipped.items())[:5]:
        out.note(f"skipped {name}: {why}.")
    if len(written.skipped) > 5:
        out.note(f"{len(written.skipped):,} problems were skipped in all; --json lists them.")


SANDBOXES = ("auto", "docker", "bubblewrap", "process")
_SHOWN = 20


@verb(
    "validate",
    "headway sim validate problems.jsonl",
    "headway sim validate problems.jsonl --sandbox bubblewrap --json",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--sandbox", type=click.Choice(SANDBOXES), default="auto", show_default=True, help="Where code runs.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Sandboxes side by side.")
def validate(session: Session, file: Path, sandbox: str, workers: int) -> int:
    """Run the solutions of every problem: the reference must pass, wrong ones must fail.

    Results are kept in FILE.outcomes.jsonl beside the problems; a second run judges only what is new.
    """
    from headway.kits.simulator.problem import read_problems
    from headway.kits.simulator.validate import judges, validate as validated

    problems = read_problems(file)
    begun = time.perf_counter()
    with judges(sandbox, workers) as (run, used):
        result = validated(problems, file, run, session.out.progress)
    seconds = time.perf_counter() - begun
    session.show(ValidatedFile(file=str(file), sandbox=used, seconds=seconds, **asdict(result)))
    if result.broken:
        return 1
    session.next(f"headway sim run --tasks {quote(str(file))}")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedFile:
    """The result of `headway sim validate`."""

    file: str
    problems: int
    solutions: int
    judged: int
    sandbox: str
    seconds: float
    broken: Mapping[str, str]


@renders(ValidatedFile)
def _validated(out: Output, done: ValidatedFile) -> None:
    ran = f"{done.judged:,} of {done.solutions:,} solutions run in {done.sandbox}, {done.seconds:.1f} s"
    if not done.broken:
        out.line(
            f"{plural(done.problems, 'valid problem')}: references pass, wrong solutions fail ({ran}).", style="bold"
        )
        return
    out.line(f"{len(done.broken):,} of {done.problems:,} problems are broken ({ran}).", style="bold")
    for name, why in list(done.broken.items())[:_SHOWN]:
        out.line(f"{name}: {why}.")
    if len(done.broken) > _SHOWN:
        out.note(f"{len(done.broken) - _SHOWN:,} more; --json lists them.")
