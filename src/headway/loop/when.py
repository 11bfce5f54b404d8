"""Whether the loop may train now: time of day, idle time, and free resources. Pure, except `machine`."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headway.settings import WatchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Free resources of the machine. None: not known."""

    free_disk_mb: float | None = None
    free_memory_mb: float | None = None
    load: float | None = None  # average of the last minute, per core


def machine(folder: Path) -> Machine:
    """This machine, as seen from the project's folder."""
    try:
        load: float | None = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        load = None
    return Machine(free_disk_mb=shutil.disk_usage(folder).free / 1e6, free_memory_mb=_memory(), load=load)


def _memory() -> float | None:
    try:
        with Path("/proc/meminfo").open("r", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024 / 1e6
    except (OSError, ValueError):
        pass
    return None


def not_now(
    settings: WatchSettings, *, now: datetime, last_decision: float | None, state: Machine, timed: bool = True
) -> str:
    """Why training has to wait; empty: it may start. `now` is local time; `timed` applies window and idle time."""
    if timed and settings.window is not None and not in_window(settings.window, now):
        first, last = (f"{minute // 60:02}:{minute % 60:02}" for minute in settings.window)
        return f"outside the window {first}-{last}"
    if timed and settings.idle_s and last_decision is not None:
        quiet = max(0.0, now.timestamp() - last_decision)
        if quiet < settings.idle_s:
            return f"the last decision is {quiet:.0f} s old; {settings.idle_s:g} s without one are required"
    if state.free_disk_mb is not None and state.free_disk_mb < settings.free_disk_mb:
        return f"{state.free_disk_mb:,.0f} MB are free on the disk; {settings.free_disk_mb:,} MB are required"
    if state.free_memory_mb is not None and state.free_memory_mb < settings.free_memory_mb:
        return f"{state.free_memory_mb:,.0f} MB of memory are available; {settings.free_memory_mb:,} MB are required"
    if settings.max_load and state.load is not None and state.load > settings.max_load:
        return f"the load is {state.load:.2f} per core; at most {settings.max_load:g} is allowed"
    return ""


def in_window(window: tuple[int, int], now: datetime) -> bool:
    """Whether the time of day is in [first, last); a window may cross midnight, and an empty one means all day."""
    first, last = window
    minute = now.hour * 60 + now.minute
    if first <= last:
        return first <= minute < last or first == last
    return minute >= first or minute < last
