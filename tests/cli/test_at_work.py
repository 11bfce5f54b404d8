"""A command that is silent for long says that it works, and how far it is; one that serves or talks does not."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence

import click
import pytest

from headway.cli.at_work import AtWork
from headway.cli.output import Output
from headway.cli.verbs import Verb
from tests.cli.help_pages import commands

WAITING = {
    "headway chat", "headway hook", "headway mcp", "headway serve", "headway up", "headway watch", "headway worker",
}  # fmt: skip


class Screen(io.StringIO):
    """Standard error that says when a text was written."""

    def __init__(self, awaited: str, *, terminal: bool = False) -> None:
        super().__init__()
        self.awaited, self.seen, self._terminal = awaited, threading.Event(), terminal

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.awaited in self.getvalue():
            self.seen.set()
        return written


@pytest.mark.kits("*")
def test_every_command_says_that_it_works_except_those_that_wait_for_their_user() -> None:
    verbs = {path: command for path, command, _ in commands() if isinstance(command, Verb)}
    assert {path for path, command in verbs.items() if command.waits} == WAITING
    plain = {path for path, command, _ in commands() if not isinstance(command, Verb | click.Group)}
    assert not plain, "make it with `verb`"


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([], "learn is working, "),
        ([("rows", 20_000, None)], "learn  rows 20,000, "),
        ([("rows", 20_000, None), ("steps", 400, 4_000)], "learn  steps 400 of 4,000, "),
    ],
)
def test_a_silent_command_says_how_far_it_is(reports: Sequence[tuple[str, int, int | None]], said: str) -> None:
    screen = Screen(said)
    work = AtWork("headway learn", screen, silent_s=0.0)
    for report in reports:
        work.report(*report)
    try:
        assert screen.seen.wait(60)
    finally:
        work.end()
    assert "\x1b" not in screen.getvalue()
    assert screen.getvalue().endswith(" s\n")


def test_a_terminal_shows_one_line_that_makes_room_for_what_is_printed() -> None:
    screen = Screen("━━━━━━────", terminal=True)
    work = AtWork("headway learn", screen, silent_s=0.0)
    work.report("steps", 1_000, 4_000)
    try:
        assert screen.seen.wait(60)
        work.make_room()
    finally:
        work.end()
    shown = screen.getvalue()
    assert "learn  steps ━━━━━━────" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[2K")


def test_with_json_nothing_is_said_and_after_a_question_neither() -> None:
    err = io.StringIO()
    out = Output(json=True, out=io.StringIO(), err=err)
    threads = threading.active_count()
    with out.at_work("headway learn"):
        assert threading.active_count() == threads
        out.progress("steps", 1, 2)
    spoken = Output(out=io.StringIO(), err=err)
    with spoken.at_work("headway data delete"):
        assert threading.active_count() == threads + 1
        spoken.hush()
        assert threading.active_count() == threads
    assert err.getvalue() == ""
