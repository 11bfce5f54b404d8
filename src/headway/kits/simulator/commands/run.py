"""`headway sim run`, `image` and `train`, and `learn --world sim`: judge solutions in sandboxes, and practise."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import OptionHook, Output, Session, Verbs, renders, task_argument, verb
from headway.kits.crews import crew_here
from headway.kits.practice import practice_values, practise_several, show
from headway.nouns import plural

if TYPE_CHECKING:
    from headway.kits.simulator.run import SimRun
    from headway.project import Project


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
    session.show(done)
    errors = done.counts["error"]
    if errors:
        session.next(again)
    return 1 if errors else 0


@renders("SimRun")
def _ran(out: Output, run: SimRun) -> None:
    counts = run.counts
    out.line(
        f"{counts['passed']:,} of {len(run.rows):,} problems passed: solver {run.solver}, sandbox {run.sandbox}, "
        f"{plural(run.workers, 'worker')}, {run.seconds:.1f} s.",
        style="bold",
    )
    if run.resumed:
        out.line(f"{run.resumed:,} results were there already.")
    heads = ("family", "passed", "failed", "timeout", "error")
    rows = [(name, *(f"{seen[status]:,}" for status in heads[1:])) for name, seen in run.by_family().items()]
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


_FILE = click.Path(path_type=Path, dir_okay=False)


@verb(
    "train",
    "headway sim train route --tasks problems.jsonl",
    "headway sim train route --tasks problems.jsonl --seed 7 --steps 300000 --json",
)
@task_argument()
@click.option("--tasks", type=_FILE, metavar="FILE", help="A file of problems; the project's own by default.")
@click.option("--family", default="actor_critic", show_default=True, help="How the policy is built and learned.")
@click.option("--seed", type=int, default=0, show_default=True, help="Makes practice reproducible.")
@click.option("--steps", type=click.IntRange(1), help="How many steps to practise at most.")
@click.option("--resume", is_flag=True, help="Continue interrupted practice of this seed.")
@click.option("--workers", type=int, metavar="N", help="Processes in which the copies of the world act.")
def train(
    session: Session,
    task: str,
    tasks: Path | None,
    family: str,
    seed: int,
    steps: int | None,
    resume: bool,
    workers: int | None,
) -> int:
    """Practise solving problems: which solver, which prompt, when to verify, when to stop.

    The same as `headway learn TASK --world sim --tasks FILE`. The candidate decides nothing until it is proven and
    promoted. Two families of problems and 30% of the others are held out.
    """
    values: dict[str, Any] = {
        "task": task, "tasks": tasks, "family": family, "seed": seed, "steps": steps, "resume": resume, "check": False,
        "device": None, "target": None, "knobs": (), "workers": workers,
    }  # fmt: skip
    return _practise(session, values)


def _practise(session: Session, values: dict[str, Any]) -> int:
    from headway.kits.practice import practise
    from headway.kits.simulator.practise import before_practice, sim_settings
    from headway.kits.simulator.problem import read_problems

    tasks: Path | None = values.pop("tasks")
    given = practice_values(values)
    if tasks is not None:
        read_problems(tasks)  # a wrong file fails before a project is created
    if values.get("seeds"):

        def settings_in(project: Project) -> dict[str, Any]:
            return sim_settings(project, given["task"], tasks, session.out.progress)

        return practise_several(session, "sim", values["seeds"], values["workers"], given, settings_in)
    named = f" --tasks {quote(str(tasks))}" if tasks is not None else ""
    begun = time.perf_counter()
    crew = None if values["workers"] is None else crew_here(values["workers"])
    with session.project(create=True) as project:
        try:
            settings = sim_settings(project, given["task"], tasks, session.out.progress)
            before = before_practice(settings)
            session.out.line(before.words)
            done = practise(project, "sim", settings=settings, crew=crew, progress=session.out.progress, **given)
        except KeyboardInterrupt:
            task = f"{given['task']} " if given["task"] else ""
            session.next(f"headway learn {task}--world sim{named} --seed {given['seed']} --resume")
            raise
    show(session, done, time.perf_counter() - begun, before=before)
    session.next(f"headway prove {done.task}")
    return 0


def _train(session: Session, values: dict[str, Any]) -> int | None:
    if values.get("world") != "sim":
        if values.pop("tasks") is not None:
            raise click.UsageError("--tasks is for practice on problems: headway learn --world sim --tasks FILE")
        return None
    values.pop("world")
    return _practise(session, values)


LEARN = OptionHook(
    options=(
        click.Option(
            ["--tasks"],
            type=_FILE,
            metavar="FILE",
            help="A file of problems; the project's own by default.",
        ),
    ),
    run=_train,
    needed=("--world sim",),
)
