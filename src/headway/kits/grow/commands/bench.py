"""`headway grow bench`: how fast the world `morph` is here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import click

from headway.cli import Output, Session, renders, verb


@verb("bench", "headway grow bench", "headway grow bench --hosts 8192 --device cuda --json")
@click.option("--hosts", type=click.IntRange(1, 1 << 17), default=32, show_default=True, help="Hosts stepped together.")
@click.option("--steps", type=click.IntRange(1, 10_000), default=60, show_default=True, help="Steps that are timed.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def bench(session: Session, hosts: int, steps: int, device: str, seed: int) -> None:
    """Measure whole steps with random valid actions over all blueprints, on one thread."""
    from headway.kits.grow.morph.speed import measured

    with session.out.progress() as progress:
        speed = measured(hosts=hosts, steps=steps, device=device, seed=seed, progress=progress)
    session.show(WorldSpeed(**asdict(speed)))
    session.next("headway grow train")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpeed:
    """The speed of the world."""

    hosts: int
    steps: int
    device: str
    per_s: float
    per_cpu_s: float

    def document(self) -> dict[str, Any]:
        return asdict(self)


@renders(WorldSpeed)
def _speed(out: Output, speed: WorldSpeed) -> None:
    out.line(f"{speed.per_s:,.0f} env steps per second with {speed.hosts:,} hosts on {speed.device}.", style="bold")
    out.line(f"{speed.per_cpu_s:,.0f} per CPU second, {speed.steps} steps of all hosts, random valid actions.")
