"""Counters for Prometheus: names, labels and numbers, never a text or a key.

A request adds to plain numbers; prometheus_client writes them as text for /metrics. With several workers, each one
labels its numbers with `worker` and writes them to a file once a second, so that any of them can answer for all
(`WorkerMetrics`). Prometheus adds them up: sum by (route) (headway_requests_total).
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path
from typing import Literal

import msgspec

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_MOST_COUNTS = 1000
_WRITE_EVERY_S = 1.0
_SILENT_S = 10.0  # a worker that has not written for this long has ended


class MetricSample(msgspec.Struct, frozen=True):
    """One number of a metric."""

    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(msgspec.Struct, frozen=True):
    """A metric and its numbers."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: list[MetricSample]


class Metrics:
    """The counters of this process since its start."""

    def __init__(self, worker: int | None = None) -> None:
        self._worker = {} if worker is None else {"worker": str(worker)}
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
        if (
            key not in self._counts and len(self._counts) > _MOST_COUNTS
        ):  # clients can create tasks: keep the number bounded
            key = (what, "others")
        self._counts[key] = self._counts.get(key, 0) + n

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._gauges[name] = (text, read)

    def families(self) -> list[MetricFamily]:
        """A copy of all numbers as they are now."""
        requests = [
            self._sample("headway_requests_total", count, route=route, status=str(status))
            for (route, status), count in sorted(self._requests.items())
        ]
        families = [
            MetricFamily("headway_requests", "counter", "Answered requests.", requests),
            MetricFamily("headway_request_seconds", "histogram", "Time to answer.", self._latencies()),
        ]
        for what in sorted({name for name, _ in self._counts}):
            samples = [
                self._sample(f"headway_{what}_total", count, task=task)
                for (name, task), count in sorted(self._counts.items())
                if name == what
            ]
            families.append(MetricFamily(f"headway_{what}", "counter", f"Durably stored {what}.", samples))
        for name, (text, read) in sorted(self._gauges.items()):
            full_name = f"headway_{name}"
            families.append(MetricFamily(full_name, "gauge", text, [self._sample(full_name, read())]))
        return families

    def _latencies(self) -> list[MetricSample]:
        name = "headway_request_seconds"
        samples = []
        for route, times in sorted(self._times.items()):
            sums = list(accumulate(times))
            for edge, count in zip((*_BUCKETS, "+Inf"), sums, strict=True):
                samples.append(self._sample(f"{name}_bucket", count, route=route, le=str(edge)))
            samples.append(self._sample(f"{name}_sum", self._seconds[route], route=route))
            samples.append(self._sample(f"{name}_count", sums[-1], route=route))
        return samples

    def _sample(self, name: str, value: float, **labels: str) -> MetricSample:
        return MetricSample(name, labels | self._worker, value)


def metrics_text(workers: Iterable[list[MetricFamily]]) -> bytes:
    """The counters of all workers in Prometheus' text format. The first call loads prometheus_client."""
    from prometheus_client.exposition import generate_latest
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

    metrics: dict[str, Metric] = {}
    for families in workers:
        for family in families:
            metric = metrics.setdefault(family.name, Metric(family.name, family.help, family.kind))
            for sample in family.samples:
                metric.add_sample(sample.name, sample.labels, sample.value)

    class Collected(Collector):
        def collect(self) -> Iterable[Metric]:
            return metrics.values()

    return generate_latest(Collected())


class WorkerMetrics:
    """The files in which the workers of one server share their counters; reading and writing may block."""

    def __init__(self, folder: Path, port: int, worker: int, workers: int) -> None:
        files = [folder / f"metrics.{port}.{number}.json" for number in range(workers)]
        self._mine = files.pop(worker)
        self._others = files
        self._written = 0.0

    def due(self) -> bool:
        """Once a second."""
        now = time.monotonic()
        if now - self._written < _WRITE_EVERY_S:
            return False
        self._written = now
        return True

    def write(self, families: list[MetricFamily]) -> None:
        self._mine.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = self._mine.with_suffix(".new")
        scratch.write_bytes(msgspec.json.encode(families))
        scratch.replace(self._mine)

    def others(self) -> list[list[MetricFamily]]:
        """The last counters of the other workers."""
        workers = []
        for path in self._others:
            with contextlib.suppress(OSError, msgspec.DecodeError):  # it has not written yet, or has ended
                if time.time() - path.stat().st_mtime < _SILENT_S:
                    workers.append(msgspec.json.decode(path.read_bytes(), type=list[MetricFamily]))
        return workers

    @staticmethod
    def remove(folder: Path, port: int) -> None:
        """Deletes the files of an earlier server on this port."""
        for path in folder.glob(f"metrics.{port}.*"):
            path.unlink(missing_ok=True)
