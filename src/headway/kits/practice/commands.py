"""`headway learn --world`: a candidate from practice in a world."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import OptionHook, Output, Session, pairs, renders
from headway.kits.crews import crew_here
from headway.kits.report import plot_figure
from headway.nouns import errors, plural

if TYPE_CHECKING:
    from headway.kits.practice.run import Practised
    from headway.project import Project

_OWN = ("world", "steps", "target", "device", "resume", "seeds")


def _run(session: Session, values: dict[str, Any]) -> int | None:
    from headway.kits.practice.run import practise

    own = {name: values.pop(name) for name in _OWN}
    if own["world"] is None:
        if own["steps"] or own["target"] is not None or own["seeds"]:
            raise click.UsageError("--steps, --target and --seeds are for practice in a --world.")
        if own["device"] is not None:
            values["knobs"] = (*values["knobs"], f"device={own['device']}")
        if own["resume"]:
            values["knobs"] = (*values["knobs"], "resume=true")
        return None
    values.update(own)
    given = practice_values(values, any_family=True)
    begun = time.perf_counter()
    task = f"{given['task']} " if given["task"] else ""
    again = f"headway learn {task}--world {own['world']} --seed {given['seed']}"
    again += f" --family {given['family']}" if given["family"] else ""
    if own["seeds"]:
        return practise_several(session, own["world"], own["seeds"], values["workers"], given)
    workers = values["workers"]
    crew = None if workers is None else crew_here(workers)  # None: copies act in this process
    with session.project(create=True) as project:
        try:
            done = practise(project, own["world"], crew=crew, progress=session.out.progress, **given)
        except KeyboardInterrupt:
            session.next(f"{again} --resume")
            raise
        served = project.registry.header(project.registry.find(done.policy)).kind in ("choice", "factored")
    show(session, done, time.perf_counter() - begun)
    session.next(f"headway prove {done.task}" if served else f"{again} --steps {2 * done.steps} --target nan --resume")
    return 0


def practise_several(
    session: Session,
    world: str,
    count: int,
    workers: int | None,
    given: dict[str, Any],
    settings: Callable[[Project], dict[str, Any]] | None = None,
) -> int:
    """Practise with several seeds, side by side; `settings` of the world, if they depend on the project."""
    from headway.kits.practice.seeds import practise_seeds

    first, crew = given.pop("seed"), crew_here(workers)
    with session.project(create=True) as project:
        if settings is not None:
            given["settings"] = settings(project)
        done = practise_seeds(
            project, world, seeds=range(first, first + count), crew=crew, progress=session.out.progress, **given
        )
        served = project.registry.header(project.registry.find(done[0].policy)).kind in ("choice", "factored")
    session.show(PractisedSeeds(seeds=done))
    best = max(done, key=lambda one: one.mean_return)
    if served:
        session.next(f"headway prove {best.task} --policy {best.policy}")
    return 0


def practice_values(values: dict[str, Any], *, any_family: bool = False) -> dict[str, Any]:
    """The arguments of `practise` from the command line; options that do not apply are refused."""
    if values["check"] or (not any_family and values["family"] not in (None, "actor_critic")):
        raise errors.InvalidInput(
            "Practice in a world never waits." if values["check"] else "This world uses the family actor_critic alone.",
            code="nothing_named",
            hint="Omit --check and --family.",
        )
    if values["device"] == "auto":
        raise click.UsageError("Practice in a --world needs a named device: cpu, cuda or mps.")
    return {
        "task": values["task"],
        "seed": 0 if values["seed"] is None else values["seed"],
        "steps": values["steps"],
        "target": values["target"],
        "device": values["device"] or "cpu",
        "resume": values["resume"],
        **({"family": values["family"]} if any_family else {}),
        **pairs(values["knobs"], "knob", parsed=True),
    }


def curve(session: Session, done: Practised) -> tuple[str | None, str]:
    """Plot the curve; returns the file, or why there is none."""
    if not done.curve:
        return None, "nothing was evaluated"
    path = session.folder / f"{done.task}-curve.png"
    try:
        curve_picture(path, done.world, done.curve, done.target)
    except errors.MissingExtra as error:
        return None, str(error)
    return str(path), ""


def show(session: Session, done: Practised, seconds: float, held_out: Any = None, before: Any = None) -> None:
    """Print the result of practice, as a document and as text."""
    plot, missing = curve(session, done)
    session.show(
        PractisedPolicy(
            practised=done, seconds=seconds, held_out=held_out, before=before, plot=plot, why_no_plot=missing
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PractisedPolicy:
    """A policy that practised in a world. `held_out`: its results on held-out prompts, in the world of prompts;
    `before`: what was known before it practised."""

    practised: Practised
    seconds: float
    held_out: Any
    before: Any
    plot: str | None
    why_no_plot: str

    def document(self) -> dict[str, Any]:
        return {
            **asdict(self.practised),
            "seconds": self.seconds,
            "plot": self.plot,
            **({} if self.held_out is None else {"kept_apart": asdict(self.held_out)}),
            **({} if self.before is None else {"before": asdict(self.before)}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PractisedSeeds:
    """Policies that practised in the same world with different seeds."""

    seeds: tuple[Practised, ...]

    def document(self) -> dict[str, Any]:
        returns = [one.mean_return for one in self.seeds]
        return {"seeds": [asdict(one) for one in self.seeds], "least": min(returns), "most": max(returns)}


@renders(PractisedSeeds)
def _practised_seeds(out: Output, done: PractisedSeeds) -> None:
    out.line(f"{plural(len(done.seeds), 'policy', 'policies')} practised in {done.seeds[0].world}.", style="bold")
    rows = [
        (
            str(one.seed),
            one.policy,
            f"{one.steps:,}",
            f"{one.mean_return:.1f}",
            "" if one.target is None else "yes" if one.reached else "no",
        )
        for one in done.seeds
    ]
    out.table(
        ("seed", "policy", "steps", "mean return", "target reached"), rows, right=("seed", "steps", "mean return")
    )


@renders(PractisedPolicy)
def _practised(out: Output, policy: PractisedPolicy) -> None:
    done = policy.practised
    out.line(
        f"{done.policy}  practised {done.steps - done.resumed_from:,} steps in {done.world}, {policy.seconds:.1f} s, "
        f"seed {done.seed}.",
        style="bold",
    )
    if done.target is not None:
        word = "reached" if done.reached else "not reached"
        out.line(f"Target {done.target:g}: {word} (greedy episodes during training, confirmed by fresh ones).")
    if policy.held_out is None:
        out.line(f"Mean return {done.mean_return:.1f} over {done.episodes} held-out greedy episodes.")
    out.line(f"Plot: {policy.plot}" if policy.plot else f"No plot: {policy.why_no_plot}")


LEARN = OptionHook(
    options=(
        click.Option(
            ["--world"],
            metavar="WORLD",
            help="Practise instead, by PPO: cartpole, acrobot, lunarlander, prompts, sim, any Gymnasium id.",
        ),
        click.Option(
            ["--seeds"],
            type=click.IntRange(1, 1000),
            metavar="N",
            help="Practise with N seeds, --seed and the next ones, side by side (--workers).",
        ),
        click.Option(["--steps"], type=click.IntRange(1), help="How many steps to practise at most."),
        click.Option(["--target"], type=float, help="Stop at this mean return; nan: never stop early."),
        click.Option(
            ["--device"],
            type=click.Choice(["auto", "cpu", "cuda", "mps"]),
            help="Where to compute.",
        ),
        click.Option(
            ["--resume"],
            is_flag=True,
            help="Continue interrupted learning: of this world and seed, or of a task with the family ranker.",
        ),
    ),
    run=_run,
    needed=("--world NAME", "--family ranker"),
)


def _with_crew(_: Session, values: dict[str, Any]) -> None:
    workers = values.pop("workers")
    values["crew"] = None if workers is None else crew_here(workers)


PROVE = OptionHook(
    options=(
        click.Option(["--workers"], type=int, metavar="N", help="Play the episodes of a world in so many processes."),
    ),
    run=_with_crew,
)


def curve_picture(path: Path, world: str, curve: Sequence[tuple[int, float]], target: float | None) -> None:
    """How the return of greedy episodes grew with practice."""
    figure = plot_figure(figsize=(8, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    steps, means = zip(*curve, strict=True)
    axes.plot(steps, means, color="C0", linewidth=2, marker="o", markersize=3.5)
    if target is not None:
        axes.axhline(target, color="C2", linewidth=1.5, linestyle=(0, (5, 3)))
        axes.annotate(
            f"target {target:g}", (0.0, target), xycoords=("axes fraction", "data"), xytext=(4, 4),
            textcoords="offset points", color="C2", fontsize=9.5,
        )  # fmt: skip
    axes.set_xlabel("steps of practice")
    axes.set_ylabel("mean return of greedy episodes")
    axes.set_title(f"Learning {world}", loc="left", weight="bold")
    axes.margins(x=0.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figure.savefig(path)
