"""How many steps of the world a machine does: whole steps, random valid actions, all blueprints."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from headway.kits.grow.morph.baselines import random_valid
from headway.kits.grow.morph.world import MorphWorld
from headway.nouns import Progress

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
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        world, choose = MorphWorld(hosts, device=device), random_valid(seed)
        world.reset(seed)
        for _ in range(_WARM):
            world.step(choose(world))
        _wait(device)
        begun, cpu = time.perf_counter(), time.process_time()
        for step in range(steps):
            world.step(choose(world))
            if progress is not None:
                progress("steps", step + 1, steps)
        _wait(device)
        seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu
    finally:
        torch.set_num_threads(threads)
    total = hosts * steps
    return StepSpeed(hosts=hosts, steps=steps, device=device, per_s=total / seconds, per_cpu_s=total / cpu_seconds)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
