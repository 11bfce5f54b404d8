"""Breakers: when they open, what they offer, and what they store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headway
from headway.kits.proxy import BEGUN, ENDED, tell, told
from headway.kits.proxy.breaker import Breakers
from headway.kits.proxy.outages import OutageLog, outages
from headway.project import Project
from headway.settings import Upstream

READY = ("small", "large")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with headway.open(tmp_path, environ={}) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breakers(project: Project, clock: Clock) -> Breakers:
    upstreams = {
        name: Upstream(name=name, url="http://x/v1", model="m", breaker_failures=3, breaker_wait_s=30.0)
        for name in READY
    }
    return Breakers(upstreams, clock, OutageLog(project), clock)


def fail(breakers: Breakers, clock: Clock, name: str, times: int = 3) -> None:
    for _ in range(times):
        began = clock.now
        clock.now += 1.0
        breakers.failed(name, "upstream_status", began)


def test_it_opens_after_failures_in_a_row_only(breakers: Breakers, clock: Clock) -> None:
    fail(breakers, clock, "small", 2)
    breakers.answered("small", clock.now)
    fail(breakers, clock, "small", 2)
    assert breakers.offer(READY) == (READY, (), "")
    fail(breakers, clock, "small", 1)
    assert breakers.offer(READY) == (("large",), ("small",), "")
    assert breakers.down == ("small",)


def test_one_draw_at_a_time_is_offered_a_probe(breakers: Breakers, clock: Clock) -> None:
    fail(breakers, clock, "small")
    clock.now += 30.0
    first, second = breakers.offer(READY), breakers.offer(READY)
    assert (first.names, first.probe) == (READY, "small")
    assert (second.names, second.left_out) == (("large",), ("small",))
    breakers.settle(first, "large")  # it was not drawn: the next one may probe
    third = breakers.offer(READY)
    breakers.settle(third, "small")
    assert third.probe == "small"
    assert breakers.offer(READY).names == ("large",)
    breakers.answered("small", clock.now)
    assert breakers.offer(READY) == (READY, (), "")


def test_a_probe_that_fails_doubles_the_wait_up_to_ten_times(breakers: Breakers, clock: Clock) -> None:
    fail(breakers, clock, "small")
    waits = []
    for _ in range(6):
        began = clock.now
        while not (offer := breakers.offer(READY)).probe:
            clock.now += 1.0
        waits.append(clock.now - began)
        breakers.settle(offer, "small")
        breakers.failed("small", "upstream_status", clock.now)
    assert waits == [30, 60, 120, 240, 300, 300]


def test_a_retry_after_makes_the_wait_longer(breakers: Breakers, clock: Clock) -> None:
    for _ in range(3):
        breakers.failed("small", "upstream_busy", clock.now, retry_after_s=90.0)
    clock.now += 89.0
    assert not breakers.offer(READY).probe
    clock.now += 1.0
    assert breakers.offer(READY).probe == "small"


def test_a_call_from_before_the_outage_does_not_end_it(breakers: Breakers, clock: Clock) -> None:
    before = clock.now
    fail(breakers, clock, "small")
    breakers.answered("small", before)
    assert breakers.down == ("small",)


def test_a_client_that_leaves_during_a_probe_frees_it(breakers: Breakers, clock: Clock) -> None:
    fail(breakers, clock, "small")
    clock.now += 30.0
    breakers.settle(breakers.offer(READY), "small")
    breakers.unknown("small")
    assert breakers.offer(READY).probe == "small"


def test_an_outage_is_stored_with_its_times_and_counts(project: Project, breakers: Breakers, clock: Clock) -> None:
    fail(breakers, clock, "small")
    breakers.elsewhere("small", "large")  # large is not down
    breakers.elsewhere("small")
    project.writer.probe()  # what was queued before it is written
    (outage,) = outages(project)
    assert (outage.since, outage.opened, outage.until) == (1000.0, 1003.0, None)
    assert (outage.failures, outage.elsewhere, outage.code) == (3, 2, "upstream_status")
    clock.now += 30.0
    breakers.settle(breakers.offer(READY), "small")
    breakers.answered("small", clock.now)
    project.writer.probe()
    (outage,) = outages(project)
    assert (outage.until, outage.open) == (1033.0, False)
    assert str(outage).startswith("'small' was down from 1970-01-01 00:16:40 until 1970-01-01 00:17:13 UTC")


def test_what_two_processes_see_of_one_outage_is_one(project: Project, clock: Clock) -> None:
    one, two = OutageLog(project), OutageLog(project)
    first = one.begin("small", 1000.0, 1003.0, "upstream_status", 3, 1)
    second = two.begin("small", 1001.0, 1004.0, "upstream_status", 3, 2)
    one.end(first, 1050.0, 4, 10)
    project.writer.probe()
    (outage,) = outages(project)
    assert (outage.open, outage.failures, outage.elsewhere) == (True, 7, 12)
    two.end(second, 1060.0, 3, 2)
    one.begin("small", 1100.0, 1103.0, "upstream_status", 3, 0)
    project.writer.probe()
    assert [(outage.since, outage.until) for outage in outages(project)] == [(1000.0, 1060.0), (1100.0, None)]
    whole, later = told(project)
    tell(project, whole[0], ENDED)
    tell(project, later[0], BEGUN)
    assert [level for _, level in told(project)] == [ENDED, BEGUN]
