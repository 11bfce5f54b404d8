"""When the loop may train: time windows, quiet time, free machine resources."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from headway.loop.when import Machine, in_window, machine, not_now
from headway.settings import WatchSettings
from tests.loop.conftest import ASK, ROOMY, play

EAST = timezone(timedelta(hours=2))


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, 4, hour, minute, tzinfo=EAST)


@pytest.mark.parametrize(
    ("window", "hour", "inside"),
    [
        ((120, 360), 1, False),
        ((120, 360), 2, True),
        ((120, 360), 5, True),
        ((120, 360), 6, False),
        ((1380, 300), 22, False),
        ((1380, 300), 23, True),
        ((1380, 300), 0, True),
        ((1380, 300), 4, True),
        ((1380, 300), 5, False),
        ((0, 0), 12, True),
    ],
)
def test_a_window_may_pass_midnight(window, hour, inside):
    assert in_window(window, at(hour)) is inside


@given(st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 1439))
def test_a_window_and_its_complement_cover_the_day(first, last, minute):
    now = at(minute // 60, minute % 60)
    if first != last:
        assert in_window((first, last), now) is not in_window((last, first), now)


def test_the_window_is_local_time():
    settings = WatchSettings(window=(120, 360))
    inside = datetime(2026, 3, 4, 1, 30, tzinfo=UTC).astimezone(EAST)  # 03:30 there
    assert not not_now(settings, now=inside, last_decision=None, state=ROOMY)
    outside = datetime(2026, 3, 4, 3, 30, tzinfo=UTC)
    assert "01:30" not in not_now(settings, now=outside.astimezone(EAST), last_decision=None, state=ROOMY)
    assert not_now(settings, now=at(9), last_decision=None, state=ROOMY) == "outside the window 02:00-06:00"
    assert not not_now(settings, now=at(9), last_decision=None, state=ROOMY, timed=False)


def test_quiet_is_counted_from_the_last_decision():
    settings = WatchSettings(idle_s=60)
    now = at(9)
    reason = not_now(settings, now=now, last_decision=now.timestamp() - 59, state=ROOMY)
    assert reason == "the last decision is 59 s old; 60 s without one are required"
    assert not not_now(settings, now=now, last_decision=now.timestamp() - 60, state=ROOMY)
    assert not not_now(settings, now=now, last_decision=None, state=ROOMY)
    ahead = not_now(settings, now=now, last_decision=now.timestamp() + 500, state=ROOMY)
    assert ahead.startswith("the last decision is 0 s old"), "a clock that was set back"


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (Machine(free_disk_mb=255), "255 MB are free on the disk; 256 MB are required"),
        (Machine(free_memory_mb=12), "12 MB of memory are available; 256 MB are required"),
        (Machine(load=2.5), "the load is 2.50 per core; at most 2 is allowed"),
        (Machine(free_disk_mb=256, free_memory_mb=256, load=2.0), ""),
        (Machine(), ""),
    ],
)
def test_a_loaded_machine_postpones_work(machine, reason):
    assert not_now(WatchSettings(max_load=2.0), now=at(9), last_decision=None, state=machine) == reason


def test_the_load_of_this_machine_can_be_read(tmp_path):
    load = machine(tmp_path)
    assert load.free_disk_mb is not None
    assert load.free_disk_mb > 0
    assert load.load is None or load.load >= 0
    assert (load.free_memory_mb or 0) > 0 or not Path("/proc/meminfo").exists()


def test_outside_the_window_nothing_is_learned_but_the_current_policy_is_guarded(tmp_path, watching):
    moment = [at(9).timestamp()]
    local = datetime.fromtimestamp(moment[0], UTC).astimezone()
    closed = f"{(local.hour + 1) % 24:02}:{local.minute:02}-{(local.hour + 2) % 24:02}:{local.minute:02}"
    watch = watching(f'{ASK}[watch]\nwindow = "{closed}"\n', clock=lambda: moment[0])
    play(tmp_path, 60)
    (check,) = watch.check()
    assert check.skipped.startswith("not now: outside the window")
    moment[0] += 3600
    (check,) = watch.check()
    assert check.done.learned


def test_a_full_disk_is_a_reason_not_to_learn(tmp_path, watching):
    left = [Machine(free_disk_mb=1)]
    watch = watching(ASK, machine=lambda _: left[0])
    play(tmp_path, 60)
    (check,) = watch.check()
    assert check.skipped == "not now: 1 MB are free on the disk; 256 MB are required"
    left[0] = ROOMY
    (check,) = watch.check()
    assert check.done.learned
