"""The progress of training: a folder under `.headway/work/` for each run, with what it is about and its metrics.

    log = RunLog(folder)
    log.begin({"task": "route", "family": "actor_critic"})
    log.add({"steps": 2048, "loss": 0.3})                 # a line of metrics.jsonl
    log.end(policy="actor_critic@4f2a")

One JSON object per line. A file is bounded: once it is too large, every second line is dropped, and from then on only
every second one is written. Runs may be deleted at any time. The kit `runs` reads them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.files import read_regular, write_whole
from headway.nouns import errors


class RunLog:
    """Writes the metrics of one run; ABOUT, METRICS and STOP are the files of its folder."""

    ABOUT, METRICS, STOP = "about.json", "metrics.jsonl", "stop"
    LARGEST = 8 << 20  # bytes of metrics.jsonl

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._about: dict[str, Any] = {}
        self._count, self._every = 0, 1

    def begin(self, about: Mapping[str, Any], *, resumed: bool = False) -> None:
        """Start, or go on with the metrics that there are. `about` has `command`: what continues the run."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / self.STOP).unlink(missing_ok=True)
        if not resumed:
            (self.folder / self.METRICS).unlink(missing_ok=True)
        else:
            with suppress(OSError, ValueError, TypeError):
                self._every = max(1, int(json.loads(read_regular(self.folder / self.ABOUT)).get("every", 1)))
        self._about = {**about, "pid": os.getpid(), "started": time.time(), "every": self._every}
        self._write()

    def add(self, line: Mapping[str, Any]) -> None:
        """One more line; Conflict `run_stopped` if somebody asked the run to stop."""
        self._count += 1
        if self._count % self._every == 0:
            path = self.folder / self.METRICS
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                size = file.tell()
            if size > self.LARGEST:
                _thin(path)
                self._every *= 2
                self._about["every"] = self._every
                self._write()
        if (self.folder / self.STOP).exists():
            self.stop()

    def forget_after(self, name: str, done: float) -> None:
        """Drop lines in which `name` is beyond a snapshot, which will be written again, and torn ones."""
        kept = []
        with suppress(FileNotFoundError):
            for line in read_regular(self.folder / self.METRICS).splitlines(keepends=True):
                with suppress(ValueError, TypeError, KeyError, RecursionError):
                    if line.endswith(b"\n") and json.loads(line)[name] <= done:
                        kept.append(line)
            write_whole(self.folder / self.METRICS, b"".join(kept))

    def adopt(self, path: Path) -> None:
        """Take over the metrics that a learner wrote in a folder of its own, if there are any."""
        with suppress(FileNotFoundError):
            shutil.copyfile(path, self.folder / self.METRICS)

    def stop(self) -> None:
        """End as stopped: raises Conflict, after which the caller saves its snapshot."""
        (self.folder / self.STOP).unlink(missing_ok=True)
        self._about |= {"stopped": True, "ended": time.time()}
        self._write()
        raise errors.Conflict(
            f"The run {self.folder.name!r} was stopped.",
            code="run_stopped",
            hint=f"Continue it: {self._about.get('command') or 'run the same command with --resume'}",
        )

    def end(self, policy: str = "") -> None:
        """The run is over; `policy` is what it published, if that is known by now (the kit `runs` adds it later)."""
        if self._about and "ended" not in self._about:
            self._about |= {"ended": time.time(), **({"policy": policy} if policy else {})}
            self._write()

    def interrupt(self) -> None:
        """The run ended before it was done; nothing changes if it was stopped."""
        if self._about and "ended" not in self._about:
            self._about |= {"interrupted": True, "ended": time.time()}
            self._write()

    def _write(self) -> None:
        path = self.folder / self.ABOUT
        whole = path.with_suffix(".new")
        whole.write_text(json.dumps(self._about), "utf-8")
        whole.replace(path)


def drop_old_runs(home: Path, prefix: str, *, keep: int) -> None:
    """Delete all but the newest runs whose names begin like this."""
    folders = sorted((home / "work").glob(f"{prefix}*"), key=lambda folder: folder.name)
    for folder in folders[:-keep]:
        shutil.rmtree(folder, ignore_errors=True)


def _thin(path: Path) -> None:
    """Drop every second line, but never the first."""
    lines = read_regular(path).splitlines(keepends=True)
    whole = path.with_suffix(".new")
    whole.write_bytes(b"".join(lines[::2]))
    whole.replace(path)
