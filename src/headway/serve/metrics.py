"""Counters in Prometheus' text form, written by hand: names, labels and numbers, never a text or a key.

One of several workers labels what it counts with its number, and leaves it in a file of its own every second; whichever
is asked answers for all (`Together`). Prometheus adds them up: sum by (route) (headway_requests_total).
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path

import msgspec

__all__ = ["Family", "Metrics", "Together"]

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_EVERY_S = 1.0
_SILENT_S = 10.0  # a worker that has not written for so long is gone


class Family(msgspec.Struct):
    """A metric with its lines, as they are served."""

    name: str
    kind: str
    help: str
    lines: list[str]


class Metrics:
    """What this process has done since it started."""

    def __init__(self, worker: int | None = None) -> None:
        self._worker = "" if worker is None else f'worker="{worker}"'
        self._requests: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        key = (route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = [0] * (len(_BUCKETS) + 1)
            self._seconds[route] = 0.0
        times[bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[route] += seconds

    def count(self, what: str, task: str, n: int = 1) -> None:
        """`decisions` or `signals` of a task."""
        key = (what, task)
        if key not in self._counts and len(self._counts) > 1000:  # tasks are made on first use: do not grow for ever
            key = (what, "others")
        self._counts[key] = self._counts.get(key, 0) + n

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._gauges[name] = (text, read)

    def text(self, others: Iterable[list[Family]] = ()) -> str:
        """What is served; with what other workers counted."""
        found: dict[str, Family] = {}
        for families in (self.families(), *others):
            for each in families:
                known = found.setdefault(each.name, Family(each.name, each.kind, each.help, []))
                known.lines += each.lines
        return "".join(
            f"# HELP {each.name} {each.help}\n# TYPE {each.name} {each.kind}\n" + "".join(f"{x}\n" for x in each.lines)
            for each in found.values()
        )

    def families(self) -> list[Family]:
        labels = self._labels
        requests = [
            f"headway_requests_total{labels(route=route, status=str(status))} {count}"
            for (route, status), count in sorted(self._requests.items())
        ]
        seconds: list[str] = []
        for route, times in sorted(self._times.items()):
            sums = list(accumulate(times))
            seconds += [
                f"headway_request_seconds_bucket{labels(route=route, le=str(edge))} {count}"
                for edge, count in zip((*_BUCKETS, "+Inf"), sums, strict=True)
            ]
            seconds.append(f"headway_request_seconds_sum{labels(route=route)} {self._seconds[route]:.6f}")
            seconds.append(f"headway_request_seconds_count{labels(route=route)} {sums[-1]}")
        found = [
            Family("headway_requests_total", "counter", "Answered requests.", requests),
            Family("headway_request_seconds", "histogram", "Time to answer.", seconds),
        ]
        for what in sorted({name for name, _ in self._counts}):
            lines = [
                f"headway_{what}_total{labels(task=task)} {count}"
                for (name, task), count in sorted(self._counts.items())
                if name == what
            ]
            found.append(Family(f"headway_{what}_total", "counter", f"Durably stored {what}.", lines))
        for name, (text, read) in sorted(self._gauges.items()):
            found.append(Family(f"headway_{name}", "gauge", text, [f"headway_{name}{labels()} {read():g}"]))
        return found

    def _labels(self, **values: str) -> str:
        given = [f'{name}="{_escaped(value)}"' for name, value in values.items()]
        all_of_them = ",".join([*given, self._worker] if self._worker else given)
        return f"{{{all_of_them}}}" if all_of_them else ""


class Together:
    """The files in which the workers of one server show each other what they counted; reading and writing may block."""

    def __init__(self, folder: Path, port: int, worker: int, workers: int) -> None:
        files = [folder / f"metrics.{port}.{each}.json" for each in range(workers)]
        self._mine = files.pop(worker)
        self._others = files
        self._written = 0.0

    def due(self) -> bool:
        """Once a second."""
        now = time.monotonic()
        if now - self._written < _EVERY_S:
            return False
        self._written = now
        return True

    def show(self, families: list[Family]) -> None:
        self._mine.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = self._mine.with_suffix(".new")
        scratch.write_bytes(msgspec.json.encode(families))
        scratch.replace(self._mine)

    def others(self) -> list[list[Family]]:
        found = []
        for each in self._others:
            with contextlib.suppress(OSError, msgspec.DecodeError):  # it has not begun to write, or is gone
                if time.time() - each.stat().st_mtime < _SILENT_S:
                    found.append(msgspec.json.decode(each.read_bytes(), type=list[Family]))
        return found

    @staticmethod
    def forget(folder: Path, port: int) -> None:
        """What the workers of a server on this port have left."""
        for each in folder.glob(f"metrics.{port}.*"):
            each.unlink(missing_ok=True)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
