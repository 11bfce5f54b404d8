"""Signals stop the loop also where Python or C code drops the exception."""

from __future__ import annotations

import signal
import threading

import pytest

from headway.loop.stop import Stopped, stoppable


class Dropped:
    """Its destructor receives the signal: Python ignores what a destructor raises."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


@pytest.fixture
def handlers():
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_raises_where_the_work_is(handlers):
    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(Stopped), stoppable():
        assert callable(signal.getsignal(signal.SIGTERM))  # otherwise the next line ends this process
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_a_destructor_swallows_stops_at_the_next_check(handlers):
    with pytest.raises(Stopped), stoppable() as stop_if_asked:
        stop_if_asked()  # not yet
        Dropped()
        stop_if_asked()
        pytest.fail("the signal was lost")


def test_without_a_signal_the_handlers_are_restored(handlers):
    before = signal.getsignal(signal.SIGTERM)
    with stoppable() as stop_if_asked:
        stop_if_asked()
    assert signal.getsignal(signal.SIGTERM) is before
