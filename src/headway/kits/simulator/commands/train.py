"""`headway sim train`, and `headway learn --world sim --tasks FILE`: practice on problems."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import Any

import click

from headway.cli import OptionHook, Session, task_argument, verb
from headway.kits.crews import crew_here
from headway.kits.practice import practice_values, show

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
        return _several(session, tasks, given, values["seeds"], values["workers"])
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


def _several(session: Session, tasks: Path | None, given: dict[str, Any], count: int, workers: int | None) -> int:
    """Practise with several seeds, side by side."""
    from headway.kits.practice import PractisedSeeds, practise_seeds
    from headway.kits.simulator.practise import sim_settings

    first, crew = given.pop("seed"), crew_here(workers)
    with session.project(create=True) as project:
        given["settings"] = sim_settings(project, given["task"], tasks, session.out.progress)
        done = practise_seeds(
            project, "sim", seeds=range(first, first + count), crew=crew, progress=session.out.progress, **given
        )
    session.show(PractisedSeeds(seeds=done))
    best = max(done, key=lambda one: one.mean_return)
    session.next(f"headway prove {best.task} --policy {best.policy}")
    return 0


def _run(session: Session, values: dict[str, Any]) -> int | None:
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
    run=_run,
    needed=("--world sim",),
)
