"""Training runs of a project and their curves, from what `headway.observe.run_log` wrote.

    list_runs(home)                                       # newest first
    read_curves(home, "route-7", points=500)              # every number over time, averaged into this many points
    ask_to_stop(home, "route-7")                          # it saves a snapshot first

Nested objects are read as `heads.model.entropy`. A torn last line is ignored.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from headway.files import open_regular, read_regular, write_whole
from headway.nouns import Time, errors
from headway.observe import UNREADABLE, RunLog

_LARGEST_LINE = 1 << 20
_LARGEST_NUMBER = 1e300  # sums stay finite
_MOST_SERIES = 200
_SILENT_S = 60.0
_DAY_S = 86_400.0
_X = ("steps", "update", "done")  # what a curve is drawn over: the first that a run has


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One training run: running, stopped, done or interrupted."""

    wire_name = "RunAnswer"

    run: str
    state: str
    task: str
    family: str
    world: str
    seed: int | None
    policy: str  # what it published
    command: str  # that continues it; empty if nothing does
    started: Time
    updated: Time  # when its last metrics were written


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    wire_name = "RunsAnswer"

    runs: list[TrainingRun]  # the newest first


def list_runs(home: Path) -> list[TrainingRun]:
    """Every run that has metrics, newest first. What a learner needs to continue (`learn-…`) belongs to another run."""
    found = []
    for path in (home / "work").glob(f"*/{RunLog.METRICS}"):
        if path.parent.name.startswith("learn-"):
            continue
        with suppress(OSError):  # deleted meanwhile
            about = path.lstat()
            if stat.S_ISREG(about.st_mode):
                found.append(_run(path.parent, about.st_mtime))
    return sorted(found, key=lambda run: -run.updated)


def ask_to_stop(home: Path, run: str) -> TrainingRun:
    """Ask a running run to stop after its next update; it writes a snapshot first."""
    found = _find(home, run)
    if found.state != "running":
        raise errors.Conflict(f"The run {run!r} is not running: it is {found.state}.", code="run_not_running")
    (home / "work" / found.run / RunLog.STOP).touch(mode=0o600)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCurves:
    """The numbers of a run over `x`; nested names are joined by dots, and null means that no line had the number."""

    wire_name = "CurvesAnswer"

    run: TrainingRun
    x_name: str
    x: list[float]
    series: dict[str, list[float | None]]
    lines: int
    lines_per_point: int  # that a point is the mean of


def read_curves(home: Path, run: str, *, points: int = 500) -> MetricCurves:
    """The metrics of a run, averaged over consecutive lines into at most `points` points."""
    found = _find(home, run)
    lines = [dict(islice(_numbers(line), _MOST_SERIES)) for line in _lines(home / "work" / found.run / RunLog.METRICS)]
    x_name = next((name for name in _X if lines and name in lines[-1]), "line")
    per_point = max(1, math.ceil(len(lines) / points))
    names = list(dict.fromkeys(name for line in lines for name in line if name != x_name))[:_MOST_SERIES]
    groups = [lines[start : start + per_point] for start in range(0, len(lines), per_point)]
    return MetricCurves(
        run=found,
        x_name=x_name,
        x=[group[-1].get(x_name, float(place * per_point)) for place, group in enumerate(groups)],
        series={name: [_mean(group, name) for group in groups] for name in names},
        lines=len(lines),
        lines_per_point=per_point,
    )


def _find(home: Path, run: str) -> TrainingRun:
    runs = {found.run: found for found in list_runs(home)}
    if run not in runs:
        raise errors.UnknownName(
            f"There is no run {run!r}.", code="unknown_run", hint=errors.did_you_mean(run, list(runs))
        )
    return runs[run]


def _run(folder: Path, updated: float) -> TrainingRun:
    about = _about(folder)
    seed, started = about.get("seed"), about.get("started")
    return TrainingRun(
        run=folder.name,
        state=_state(about, updated),
        task=str(about.get("task") or ""),
        family=str(about.get("family") or ""),
        world=str(about.get("world") or ""),
        seed=seed if isinstance(seed, int) and abs(seed) < 2**63 else None,
        policy=str(about.get("policy") or ""),
        command=str(about.get("command") or ""),
        started=float(started) if isinstance(started, int | float) and 0 < started <= updated + _DAY_S else updated,
        updated=updated,
    )


def _about(folder: Path) -> Mapping[str, Any]:
    """What a run is about; nothing if its file is damaged, too large or no regular file."""
    with suppress(OSError, ValueError, RecursionError):
        with os.fdopen(open_regular(folder / RunLog.ABOUT), "rb") as file:
            about = json.loads(file.read(_LARGEST_LINE))
        if isinstance(about, dict):
            return about
    return {}


def _state(about: Mapping[str, Any], updated: float) -> str:
    if not about:  # another program's folder: all that is known is when it wrote last
        return "running" if time.time() - updated < _SILENT_S else "interrupted"
    if about.get("stopped"):
        return "stopped"
    if about.get("interrupted"):
        return "interrupted"
    if about.get("ended") is not None:
        return "done"
    return "running" if _alive(about.get("pid")) else "interrupted"


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _lines(path: Path) -> Iterator[Any]:
    """The newest whole lines; those that are torn, damaged or endless are skipped."""
    decode = msgspec.json.Decoder().decode
    with os.fdopen(open_regular(path), "rb") as file:
        skipped = file.seek(max(0, os.fstat(file.fileno()).st_size - RunLog.LARGEST - _LARGEST_LINE)) > 0
        while line := file.readline(_LARGEST_LINE):
            torn, skipped = skipped, not line.endswith(b"\n")
            if not torn:
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    yield decode(line)


def _numbers(value: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Every finite number of a line, by its path."""
    if not isinstance(value, dict):
        return
    for name, part in value.items():
        if isinstance(part, int | float) and abs(part) <= _LARGEST_NUMBER:
            yield f"{prefix}{name}", float(part)
        elif isinstance(part, dict) and depth < 3:
            yield from _numbers(part, f"{prefix}{name}.", depth + 1)


def _mean(group: list[dict[str, float]], name: str) -> float | None:
    values = [line[name] for line in group if name in line]
    return sum(values) / len(values) if values else None


_SNAPSHOT = "run.json"


def name_policy(home: Path, run: str, policy: str) -> None:
    """Note which policy a finished run became."""
    path = home / "work" / run / RunLog.ABOUT
    with suppress(OSError, ValueError):  # runs may be deleted at any time
        about = json.loads(read_regular(path))
        path.write_text(json.dumps({**about, "policy": policy}), "utf-8")


def write_snapshot(folder: Path, name: str, weights: bytes, about: Mapping[str, Any]) -> None:
    """Write run.json and the weights that it names, and delete older ones: a reader finds both or none."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(folder / name, weights)
    write_whole(folder / _SNAPSHOT, json.dumps({**about, "weights": name}).encode())
    drop_snapshot(folder, but=name)


@contextmanager
def opened_snapshot(folder: Path, run: str) -> Iterator[Any]:
    """What run.json says, for a caller that continues from it and its weights; one that cannot be used is refused."""
    from safetensors import SafetensorError

    path = folder / _SNAPSHOT
    if not path.exists():
        raise errors.UnknownName(
            f"There is no unfinished run of {run}.", code="nothing_to_resume", hint="Omit --resume to start one."
        )
    try:
        yield json.loads(read_regular(path))
    except (OSError, RuntimeError, SafetensorError, *UNREADABLE) as error:
        raise errors.Damaged(
            f"The snapshot in {str(folder)!r} cannot be used: {error}.",
            code="damaged_snapshot",
            hint="Delete that folder and start again without --resume.",
        ) from error


def drop_snapshot(folder: Path, *, but: str = "") -> None:
    """Forget earlier runs, so that nothing resumes one in place of a run that starts now; or all but these weights."""
    if not but:
        (folder / _SNAPSHOT).unlink(missing_ok=True)
    for path in folder.glob("*weights-*.safetensors*"):  # also those that a killed process was writing
        if path.name != but:
            path.unlink(missing_ok=True)
