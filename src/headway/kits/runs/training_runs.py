"""Training runs: a folder under `.headway/work/` for each, with what it is about and its metrics over time.

    log = RunLog(folder)
    log.begin({"task": "route", "family": "actor_critic"})
    log.add({"steps": 2048, "loss": 0.3})                 # a line of metrics.jsonl
    log.end(policy="actor_critic@4f2a")

    list_runs(home)                                       # newest first
    read_curves(home, "route-7", points=500)              # every number over time, averaged into so many points

One JSON object per line; nested objects are read as `heads.model.entropy`. A file is bounded: once it is too large,
every second line is dropped, and from then on only every second one is written. A torn last line is ignored. Runs may
be deleted at any time.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from headway.files import open_regular, read_regular, write_whole
from headway.nouns.errors import Conflict, UnknownName, did_you_mean

_LARGEST = 8 << 20  # bytes of metrics.jsonl
_LARGEST_LINE = 1 << 20
_LARGEST_NUMBER = 1e300  # sums stay finite
_MOST_SERIES = 200
_SILENT_S = 60.0
_DAY_S = 86_400.0
_X = ("steps", "update", "done")  # what a curve is drawn over: the first that a run has
_ABOUT, _METRICS, _SNAPSHOT, _STOP = "about.json", "metrics.jsonl", "run.json", "stop"


class RunLog:
    """Writes the metrics of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._about: dict[str, Any] = {}
        self._count, self._every = 0, 1

    def begin(self, about: Mapping[str, Any], *, resumed: bool = False) -> None:
        """Start, or go on with the metrics that there are. `about` has `command`: what continues the run."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / _STOP).unlink(missing_ok=True)
        if not resumed:
            (self.folder / _METRICS).unlink(missing_ok=True)
        else:
            with suppress(OSError, ValueError, TypeError):
                self._every = max(1, int(json.loads(read_regular(self.folder / _ABOUT)).get("every", 1)))
        self._about = {**about, "pid": os.getpid(), "started": time.time(), "every": self._every}
        self._write()

    def add(self, line: Mapping[str, Any]) -> None:
        """One more line; Conflict `run_stopped` if somebody asked the run to stop."""
        self._count += 1
        if self._count % self._every == 0:
            path = self.folder / _METRICS
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                size = file.tell()
            if size > _LARGEST:
                _thin(path)
                self._every *= 2
                self._about["every"] = self._every
                self._write()
        if (self.folder / _STOP).exists():
            self.stop()

    def forget_after(self, name: str, done: float) -> None:
        """Drop lines in which `name` is beyond a snapshot, which will be written again, and torn ones."""
        kept = []
        with suppress(FileNotFoundError):
            for line in read_regular(self.folder / _METRICS).splitlines(keepends=True):
                with suppress(ValueError, TypeError, KeyError, RecursionError):
                    if line.endswith(b"\n") and json.loads(line)[name] <= done:
                        kept.append(line)
            write_whole(self.folder / _METRICS, b"".join(kept))

    def adopt(self, path: Path) -> None:
        """Take over the metrics that a learner wrote in a folder of its own, if there are any."""
        with suppress(FileNotFoundError):
            shutil.copyfile(path, self.folder / _METRICS)

    def stop(self) -> None:
        """End as stopped: raises Conflict, after which the caller saves its snapshot."""
        (self.folder / _STOP).unlink(missing_ok=True)
        self._about |= {"stopped": True, "ended": time.time()}
        self._write()
        raise Conflict(
            f"The run {self.folder.name!r} was stopped.",
            code="run_stopped",
            hint=f"Continue it: {self._about.get('command') or 'run the same command with --resume'}",
        )

    def end(self, policy: str = "") -> None:
        """The run is over; `policy` is what it published, if that is known by now (see `name_policy`)."""
        if self._about and "ended" not in self._about:
            self._about |= {"ended": time.time(), **({"policy": policy} if policy else {})}
            self._write()

    def interrupt(self) -> None:
        """The run ended before it was done; nothing changes if it was stopped."""
        if self._about and "ended" not in self._about:
            self._about |= {"interrupted": True, "ended": time.time()}
            self._write()

    def _write(self) -> None:
        path = self.folder / _ABOUT
        whole = path.with_suffix(".new")
        whole.write_text(json.dumps(self._about), "utf-8")
        whole.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One run. `state` is running, stopped, done, or interrupted: it ended without a word."""

    run: str
    state: str
    task: str
    family: str
    world: str
    seed: int | None
    policy: str
    command: str  # that continues it; empty if nothing does
    started: float
    updated: float  # when its last line was written


def write_snapshot(folder: Path, name: str, weights: bytes, about: Mapping[str, Any]) -> None:
    """Write run.json and the weights that it names, and delete older ones: a reader finds both or none."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(folder / name, weights)
    write_whole(folder / _SNAPSHOT, json.dumps({**about, "weights": name}).encode())
    drop_snapshot(folder, but=name)


def drop_snapshot(folder: Path, *, but: str = "") -> None:
    """Forget earlier runs, so that nothing resumes one in place of a run that starts now; or all but these weights."""
    if not but:
        (folder / _SNAPSHOT).unlink(missing_ok=True)
    for path in folder.glob("*weights-*.safetensors*"):  # also those that a killed process was writing
        if path.name != but:
            path.unlink(missing_ok=True)


def list_runs(home: Path) -> list[TrainingRun]:
    """Every run that has metrics, newest first. What a learner needs to go on (`learn-…`) belongs to another run."""
    found = []
    for path in (home / "work").glob(f"*/{_METRICS}"):
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
        raise Conflict(f"The run {run!r} is not running: it is {found.state}.", code="run_not_running")
    (home / "work" / found.run / _STOP).touch(mode=0o600)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCurves:
    """The numbers of a run over time: one value of every series for each `x`; None where a line has none."""

    run: TrainingRun
    x_name: str
    x: list[float]
    series: dict[str, list[float | None]]
    lines: int
    lines_per_point: int


def read_curves(home: Path, run: str, *, points: int = 500) -> MetricCurves:
    """The metrics of a run, averaged over consecutive lines into at most `points` points."""
    found = _find(home, run)
    lines = [dict(islice(_numbers(line), _MOST_SERIES)) for line in _lines(home / "work" / found.run / _METRICS)]
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


def name_policy(home: Path, run: str, policy: str) -> None:
    """Note which policy a finished run became."""
    path = home / "work" / run / _ABOUT
    with suppress(OSError, ValueError):  # runs may be deleted at any time
        about = json.loads(read_regular(path))
        path.write_text(json.dumps({**about, "policy": policy}), "utf-8")


def drop_old_runs(home: Path, prefix: str, *, keep: int) -> None:
    """Delete all but the newest runs whose names begin like this."""
    folders = sorted((home / "work").glob(f"{prefix}*"), key=lambda folder: folder.name)
    for folder in folders[:-keep]:
        shutil.rmtree(folder, ignore_errors=True)


def _find(home: Path, run: str) -> TrainingRun:
    runs = {found.run: found for found in list_runs(home)}
    if run not in runs:
        raise UnknownName(f"There is no run {run!r}.", code="unknown_run", hint=did_you_mean(run, list(runs)))
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
        with os.fdopen(open_regular(folder / _ABOUT), "rb") as file:
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
        skipped = file.seek(max(0, os.fstat(file.fileno()).st_size - _LARGEST - _LARGEST_LINE)) > 0
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


def _thin(path: Path) -> None:
    """Drop every second line, but never the first."""
    lines = read_regular(path).splitlines(keepends=True)
    whole = path.with_suffix(".new")
    whole.write_bytes(b"".join(lines[::2]))
    whole.replace(path)
