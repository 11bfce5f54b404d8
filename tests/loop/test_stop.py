"""Signals stop the loop also where Python or C code drops the exception. Each case is a process of its own: a signal
that nothing catches would end the process of the tests."""

from __future__ import annotations

import subprocess
import sys

START = """
import signal
from headway.loop.stop import Stopped, stoppable

class Dropped:
    def __del__(self):  # Python ignores what a destructor raises
        signal.raise_signal(signal.SIGTERM)

before = signal.getsignal(signal.SIGTERM)
"""
RAISED = """
try:
    with stoppable():
        signal.raise_signal(signal.SIGTERM)
        print("not raised")
except Stopped:
    print("stopped")
"""
SWALLOWED = """
try:
    with stoppable() as stop_if_asked:
        stop_if_asked()  # not yet
        Dropped()
        print("swallowed")
        stop_if_asked()
        print("lost")
except Stopped:
    print("stopped")
"""
NONE = """
with stoppable() as stop_if_asked:
    stop_if_asked()
    print(signal.getsignal(signal.SIGTERM) is before)
print(signal.getsignal(signal.SIGTERM) is before)
"""


def output(case: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", START + case], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    return done.stdout.split("\n")[:-1]


def test_a_signal_raises_where_the_work_is() -> None:
    assert output(RAISED) == ["stopped"]


def test_a_signal_that_a_destructor_swallows_stops_at_the_next_check() -> None:
    assert output(SWALLOWED) == ["swallowed", "stopped"]


def test_without_a_signal_the_handlers_are_restored() -> None:
    assert output(NONE) == ["False", "True"]
