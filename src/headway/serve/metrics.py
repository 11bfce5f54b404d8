"""Counters in Prometheus' text form, written by hand: names, labels and numbers, never a text or a key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate

__all__ = ["Metrics"]

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """What the server has done since it started."""

    def __init__(self) -> None:
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

    def text(self) -> str:
        lines = ["# HELP headway_requests_total Answered requests.", "# TYPE headway_requests_total counter"]
        lines += [
            f'headway_requests_total{{route="{_escaped(route)}",status="{status}"}} {count}'
            for (route, status), count in sorted(self._requests.items())
        ]
        lines += [
            "# HELP headway_request_seconds Time to answer.",
            "# TYPE headway_request_seconds histogram",
        ]
        for route, times in sorted(self._times.items()):
            label = f'route="{_escaped(route)}"'
            sums = list(accumulate(times))
            lines += [
                f'headway_request_seconds_bucket{{{label},le="{edge}"}} {count}'
                for edge, count in zip((*_BUCKETS, "+Inf"), sums, strict=True)
            ]
            lines.append(f"headway_request_seconds_sum{{{label}}} {self._seconds[route]:.6f}")
            lines.append(f"headway_request_seconds_count{{{label}}} {sums[-1]}")
        for what in sorted({name for name, _ in self._counts}):
            lines += [
                f"# HELP headway_{what}_total Durably stored {what}.",
                f"# TYPE headway_{what}_total counter",
            ]
            lines += [
                f'headway_{what}_total{{task="{_escaped(task)}"}} {count}'
                for (name, task), count in sorted(self._counts.items())
                if name == what
            ]
        for name, (text, read) in sorted(self._gauges.items()):
            lines += [f"# HELP headway_{name} {text}", f"# TYPE headway_{name} gauge", f"headway_{name} {read():g}"]
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
