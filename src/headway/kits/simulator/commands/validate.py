"""`headway sim validate`: does every reference pass, and every wrong solution fail?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote

import click

from headway.cli import Output, Session, renders, verb

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
        out.line(f"{done.problems:,} problems are valid: references pass, wrong solutions fail ({ran}).", style="bold")
        return
    out.line(f"{len(done.broken):,} of {done.problems:,} problems are broken ({ran}).", style="bold")
    for name, why in list(done.broken.items())[:_SHOWN]:
        out.line(f"{name}: {why}.")
    if len(done.broken) > _SHOWN:
        out.note(f"{len(done.broken) - _SHOWN:,} more; --json lists them.")
