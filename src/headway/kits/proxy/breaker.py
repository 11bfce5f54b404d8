"""Breakers: an upstream that keeps failing is left out of the candidates until a probe succeeds.

    breakers = Breakers(settings.upstreams, clock, outages)
    offer = breakers.offer(("small", "large"))     # before the draw: the candidates, and who was left out
    breakers.settle(offer, "large")                # after it: a probe that was not drawn is free again
    breakers.failed("small", "upstream_status", began)
    breakers.answered("small", began)              # `began`: when it was decided

The state is fixed before the draw, and the decision stores the candidates that were offered, so its propensity is
exact whatever the state was. `breaker_failures` calls that fail one after another open a breaker. After
`breaker_wait_s` (and the upstream's own Retry-After) one decision at a time is offered the upstream again: the first
one that draws it is the probe. A probe that fails doubles the wait, up to ten times. If every candidate is left out,
all are offered. Each server process has its own breakers; their outages are told as one.

Not covered: an upstream that answers nonsense in time. Its quality is what policies learn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headway.kits.proxy.outages import OutageLog
from headway.settings import Upstream

_LONGEST = 10  # times breaker_wait_s


class Offer(NamedTuple):
    """The candidates of a draw; `left_out` are down, and `probe` is offered to this draw alone."""

    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    probe: str = ""


@dataclass(slots=True)
class _FailureRun:
    """Failures of one upstream without a success between them."""

    since: float  # when the first call that failed was decided
    failures: int = 0
    outage: str = ""  # the id of the stored outage; empty: the breaker is closed
    opened: float = 0.0
    elsewhere: int = 0
    wait_s: float = 0.0
    retry_at: float = 0.0  # of the monotonic clock
    probing: bool = False


class Breakers:
    """The breakers of one server process. Belongs to one event loop."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        clock: Callable[[], float],
        log: OutageLog,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstreams, self._clock, self._log, self._monotonic = upstreams, clock, log, monotonic
        self._runs: dict[str, _FailureRun] = {}  # upstreams whose last call failed
        self._down: dict[str, _FailureRun] = {}  # those of them whose breaker is open
        for row in log.adopted(name for name, upstream in upstreams.items() if upstream.breaker_failures):
            wait_s = upstreams[row.upstream].breaker_wait_s
            run = _FailureRun(row.since, row.failures, row.id, elsewhere=row.elsewhere, wait_s=wait_s)
            self._runs[row.upstream] = self._down[row.upstream] = run  # the next draw may be the probe

    @property
    def down(self) -> tuple[str, ...]:
        """The upstreams whose breaker is open."""
        return tuple(self._down)

    def offer(self, ready: tuple[str, ...]) -> Offer:
        """The candidates of the next draw."""
        if not self._down:
            return Offer(ready)
        now, probe, left_out = self._monotonic(), "", []
        for name in ready:
            run = self._down.get(name)
            if run is None:
                continue
            if not probe and not run.probing and now >= run.retry_at:
                probe = name
            else:
                left_out.append(name)
        if len(left_out) == len(ready):
            return Offer(ready)
        if probe:
            self._down[probe].probing = True
        if not left_out:
            return Offer(ready, probe=probe)
        return Offer(tuple(name for name in ready if name not in left_out), tuple(left_out), probe)

    def settle(self, offer: Offer, drawn: str) -> None:
        """After a draw, or after it failed ("")."""
        if offer.probe and offer.probe != drawn:
            self.unknown(offer.probe)

    def elsewhere(self, *names: str) -> None:
        """A request went to another upstream because these are down, or have just failed."""
        for name in names:
            run = self._runs.get(name)
            if run is not None:
                run.elsewhere += 1
                if run.outage:
                    self._log.count(run.outage, run.failures, run.elsewhere)

    def answered(self, name: str, began: float) -> None:
        """A call has succeeded. One that began before the breaker opened says nothing about now."""
        run = self._runs.get(name) if self._runs else None
        if run is None or began < run.opened:
            return
        del self._runs[name]
        if self._down.pop(name, None) is not None:
            self._log.end(run.outage, self._clock(), run.failures, run.elsewhere)

    def failed(self, name: str, code: str, began: float, *, retry_after_s: float = 0.0) -> None:
        """A call has failed through the upstream's fault."""
        upstream = self._upstreams[name]
        if not upstream.breaker_failures:
            return
        run = self._runs.get(name)
        if run is None:
            run = self._runs[name] = _FailureRun(began)
        run.failures += 1
        run.since = min(run.since, began)
        if run.outage:
            if began >= run.opened:  # a probe, or a call while every candidate was down
                run.wait_s, run.probing = min(2.0 * run.wait_s, _LONGEST * upstream.breaker_wait_s), False
                run.retry_at = self._monotonic() + max(run.wait_s, retry_after_s)
            self._log.count(run.outage, run.failures, run.elsewhere)
        elif run.failures >= upstream.breaker_failures:
            run.wait_s, run.opened = upstream.breaker_wait_s, self._clock()
            run.retry_at = self._monotonic() + max(run.wait_s, retry_after_s)
            run.outage = self._log.begin(name, run.since, run.opened, code, run.failures, run.elsewhere)
            self._down[name] = run

    def unknown(self, name: str) -> None:
        """A call ended without telling anything about the upstream: the client left, or the request was at fault."""
        run = self._down.get(name)
        if run is not None:
            run.probing = False
