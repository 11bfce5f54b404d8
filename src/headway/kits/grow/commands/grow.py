"""`headway grow`: the group of commands, and the speed of its world."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import click

from headway.cli import Output, Session, Verbs, pairs, renders, verb
from headway.kits.practice import show
from headway.kits.runs import read_curves
from headway.nouns import Progress


@click.group(
    "grow",
    cls=Verbs,
    examples=("headway grow train --steps 400000", "headway grow evaluate recurrent@8743 --report report"),
)
def grow() -> None:
    """Networks that grow while they train, and policies that decide what grows."""


@verb(
    "train",
    "headway grow train --steps 400000",
    "headway grow train grow --seed 7 --device cuda --set envs=512 --json",
)
@click.argument("task", required=False)
@click.option("--seed", type=int, default=0, show_default=True, help="Makes practice reproducible.")
@click.option("--steps", type=click.IntRange(1), help="How many steps to practise at most.")
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda", "mps"]),
    default="cpu",
    show_default=True,
    help="Where to compute; with mps the network alone, the hosts stay on the CPU.",
)
@click.option("--mode", type=click.Choice(["simplified", "shaped", "sparse"]), default="simplified", help="The reward.")
@click.option("--source", type=click.Choice(["digits", "teachers"]), default="digits", help="What hosts learn.")
@click.option("--resume", is_flag=True, help="Continue interrupted practice of this seed.")
@click.option("--set", "knobs", multiple=True, metavar="KNOB=VALUE", help="A knob of the family recurrent.")
def train(
    session: Session, task: str | None, seed: int, steps: int | None, device: str, mode: str, source: str, resume: bool,
    knobs: tuple[str, ...],
) -> int:  # fmt: skip
    """Practise growing: which seed, where, when to blend it in, keep it or prune it.

    The same as `headway learn TASK --world morph --family recurrent`. A line of metrics per update goes to
    .headway/work/morph-SEED-recurrent/metrics.jsonl. The same command with --resume continues bit for bit.
    """
    from headway.kits.practice import practise, slug

    settings: dict[str, Any] = {"mode": mode, "source": source}
    if device == "cuda":
        settings["device"] = device
    given = pairs(knobs, "knob", parsed=True)
    begun = time.perf_counter()
    again = f"headway grow train{f' {task}' if task else ''} --seed {seed}"
    with session.project(create=True) as project:
        try:
            done = practise(
                project, "morph", family="recurrent", task=task, seed=seed, steps=steps, device=device,
                resume=resume, settings=settings, progress=session.out.progress, **given,
            )  # fmt: skip
        except KeyboardInterrupt:
            session.next(f"{again} --resume")
            raise
        idle = read_curves(project.home, f"{slug('morph')}-{seed}-recurrent").series.get("idle_alarm", [])
    show(session, done, time.perf_counter() - begun)
    if idle and idle[-1]:
        session.out.note("In the last update the policy only waited. Practise longer, or with more --set entropy=….")
    session.next(f"headway grow evaluate {done.policy}")
    return 0


@verb("bench", "headway grow bench", "headway grow bench --hosts 8192 --device cuda --json")
@click.option("--hosts", type=click.IntRange(1, 1 << 17), default=32, show_default=True, help="Hosts stepped together.")
@click.option("--steps", type=click.IntRange(1, 10_000), default=60, show_default=True, help="Steps that are timed.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def bench(session: Session, hosts: int, steps: int, device: str, seed: int) -> None:
    """Measure whole steps with random valid actions over all blueprints, on one thread."""
    speed = measured(hosts=hosts, steps=steps, device=device, seed=seed, progress=session.out.progress)
    session.show(speed)
    session.next("headway grow train")


@renders("StepSpeed")
def _speed(out: Output, speed: StepSpeed) -> None:
    out.line(f"{speed.per_s:,.0f} env steps per second with {speed.hosts:,} hosts on {speed.device}.", style="bold")
    out.line(f"{speed.per_cpu_s:,.0f} per CPU second, {speed.steps} steps of all hosts, random valid actions.")


_WARM = 12  # epochs before the clock starts: until seeds of every stage exist


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpeed:
    """Env steps (hosts × steps) per second of wall time and of CPU time."""

    hosts: int
    steps: int
    device: str
    per_s: float
    per_cpu_s: float


def measured(
    *, hosts: int, steps: int, device: str = "cpu", seed: int = 0, progress: Progress | None = None
) -> StepSpeed:
    """Time `steps` steps of `hosts` hosts on one thread."""
    import torch

    from headway.kits.grow.morph.baselines import random_valid
    from headway.kits.grow.morph.world import MorphWorld

    wait = torch.cuda.synchronize if device == "cuda" else int
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        world, choose = MorphWorld(hosts, device=device), random_valid(seed)
        world.reset(seed)
        for _ in range(_WARM):
            world.step(choose(world))
        wait()
        begun, cpu = time.perf_counter(), time.process_time()
        for step in range(steps):
            world.step(choose(world))
            if progress is not None:
                progress("steps", step + 1, steps)
        wait()
        seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu
    finally:
        torch.set_num_threads(threads)
    total = hosts * steps
    return StepSpeed(hosts=hosts, steps=steps, device=device, per_s=total / seconds, per_cpu_s=total / cpu_seconds)
