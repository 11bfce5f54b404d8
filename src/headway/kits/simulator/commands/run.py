"""`headway sim run` and `sim image`: judge solutions in sandboxes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, Verbs, renders, verb
from headway.kits.crews import crew_here

if TYPE_CHECKING:
    from headway.kits.simulator.run import SimRun


@verb(
    "run",
    "headway sim run --tasks problems.jsonl --workers 2",
    "headway sim run --tasks problems.jsonl --solver small --sandbox bubblewrap --limit 100 --json",
)
@click.option(
    "--tasks", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A file of problems (sim generate)."
)
@click.option("--workers", type=int, default=2, show_default=True, help="Processes, each with a warm sandbox.")
@click.option(
    "--sandbox", default="auto", show_default=True, help="auto, docker, bubblewrap, or process, which is no sandbox."
)
@click.option("--limit", type=click.IntRange(1), help="Only the first so many problems.")
@click.option(
    "--solver",
    default="reference",
    show_default=True,
    help="reference; a scripted one: small, text, algorithms, large; a local model; an upstream.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="The results, JSONL; FILE-SOLVER.results.jsonl beside the problems by default.",
)  # fmt: skip
@click.option("--crew", "crew_name", default="processes", show_default=True, help="Where the workers are.")
def run(
    session: Session,
    tasks: Path,
    workers: int,
    sandbox: str,
    limit: int | None,
    solver: str,
    out: Path | None,
    crew_name: str,
) -> int:
    """Judge one solution of each problem in sandboxes; the same command resumes a run that was stopped.

    Results are one JSON line for each problem: status (passed, failed, timeout, error), tests passed, CPU seconds, peak
    memory. Exit status 1 if some could not be judged; those are tried again by the same command.
    """
    from headway.kits.simulator.problem import read_problems
    from headway.kits.simulator.run import run_problems

    crew = crew_here(workers, crew_name)
    problems = read_problems(tasks)[:limit]
    path = out or tasks.with_name(f"{tasks.name.split('.')[0]}-{solver}.results.jsonl")
    again = f"headway sim run --tasks {quote(str(tasks))} --solver {solver}" + (f" --limit {limit}" if limit else "")
    try:
        done = run_problems(
            problems, crew=crew, out=path, solver=solver, sandbox_name=sandbox, progress=session.out.progress,
            folder=session.folder.resolve(),
        )  # fmt: skip
    except KeyboardInterrupt:
        session.next(again)
        raise
    session.show(SimRunReport(run=done))
    errors = done.counts["error"]
    if errors:
        session.next(again)
    return 1 if errors else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRunReport:
    """A run, for the terminal."""

    run: SimRun

    def document(self) -> dict[str, Any]:
        run = self.run
        fresh = len(run.rows) - run.resumed
        return {
            "results": str(run.out),
            "solver": run.solver,
            "sandbox": run.sandbox,
            "workers": run.workers,
            "problems": len(run.rows),
            "resumed": run.resumed,
            "counts": run.counts,
            "families": run.by_family(),
            "seconds": run.seconds,
            "problems_per_s": fresh / run.seconds if run.seconds > 0 else None,
            "cpu_s": sum(row["cpu_s"] for row in run.rows),
            "peak_memory_bytes": max((row["peak_memory_bytes"] for row in run.rows), default=0),
        }


@renders(SimRunReport)
def _ran(out: Output, report: SimRunReport) -> None:
    run, document = report.run, report.document()
    counts = run.counts
    out.line(
        f"{counts['passed']:,} of {len(run.rows):,} problems passed: solver {run.solver}, sandbox {run.sandbox}, "
        f"{run.workers} workers, {run.seconds:.1f} s.",
        style="bold",
    )
    if run.resumed:
        out.line(f"{run.resumed:,} results were there already.")
    heads = ("family", "passed", "failed", "timeout", "error")
    rows = [(name, *(f"{seen[status]:,}" for status in heads[1:])) for name, seen in document["families"].items()]
    out.table(heads, rows, right=heads[1:])
    for row in [row for row in run.rows if row["status"] != "passed"][:5]:
        out.note(f"{row['id']} {row['status']}: {row['why']}")
    out.line(f"Results: {run.out}")


@verb("image", "headway sim image", "headway sim image --json")
def image(session: Session) -> None:
    """Build the image of the docker sandbox. Needs an engine and, the first time, the network."""
    from headway.kits.sandbox import IMAGE, build_image

    build_image()
    session.out.document({"image": IMAGE})
    session.out.line(f"Built {IMAGE}.")
    session.next("headway sim run --tasks problems.jsonl --sandbox docker")


@click.group(
    "sim",
    cls=Verbs,
    examples=("headway sim generate --out problems.jsonl", "headway sim import HumanEval.jsonl.gz --out ours.jsonl"),
)
def sim() -> None:
    """Programming problems with known solutions, solvers, and policies that practise on them."""
