"""Output: plain lines without a terminal, one document with --json, and no escape sequences from data."""

from __future__ import annotations

import io
import json
import math

import pytest
from hypothesis import given, strategies as st

from headway.cli.output import Output
from headway.cli.written import clean, number
from headway.nouns.errors import GateRefused, InvalidInput


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


EVIL = "\x1b]0;owned\x07\x1b[31mred\x1b[0m \x9b2J [bold]not bold[/bold] :smile: \u202egnp\x00"


@given(st.text())
def test_control_characters_are_removed(text: str) -> None:
    for one_line in (True, False):
        left = clean(text, one_line=one_line)
        allowed = set() if one_line else {"\n", "\t"}
        assert not [line for line in left if (ord(line) < 32 or 127 <= ord(line) < 160) and line not in allowed]
        assert clean(left, one_line=one_line) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b]52;c;cm0gLXJm\x07copied", "copied"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("a\r\nb\tc", "a b c"),
        ("unfinished \x1b]0;title", "unfinished"),
        ("käse → 日本", "käse → 日本"),
    ],
)
def test_escape_sequences_are_removed_and_words_stay(text: str, left: str) -> None:
    assert clean(text) == left


def test_markup_and_emoji_codes_in_data_are_plain_text_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    screen = Terminal()
    out = Output(out=screen, err=Terminal())
    out.line(EVIL, style="green")
    out.table(("name",), [(EVIL,)])
    out.fields({"name": EVIL})
    out.next(EVIL)
    shown = screen.getvalue()
    assert shown.count("[bold]not bold[/bold] :smile:") == 4
    assert "owned" not in shown
    assert "\x1b[31m" not in shown
    assert "\x9b" not in shown
    assert "\x1b[32m" in shown  # our own colour is kept


def test_without_a_terminal_there_are_no_escape_codes() -> None:
    page = io.StringIO()
    out = Output(out=page, err=page)
    out.line("words", style="bold red")
    out.table(("a", "b"), [("x", 1), ("longer", 22)], right=("b",))
    out.fields({"one": 1, "three": EVIL})
    out.note("a note")
    out.undo("headway rollback route")
    with out.at_work("headway learn"):
        out.progress("work", 1, 2)
    out.finish()
    assert "\x1b" not in page.getvalue()
    assert page.getvalue().splitlines()[:4] == ["words", "a        b", "x        1", "longer  22"]


def test_json_is_one_document_with_the_next_step_and_nothing_else() -> None:
    page, aside = io.StringIO(), io.StringIO()
    out = Output(json=True, out=page, err=aside)
    out.line("words")
    out.table(("a",), [("x",)])
    out.fields({"a": 1})
    out.note("a note")
    out.document({"value": math.nan, "bound": -math.inf, "text": EVIL})
    out.next("headway status")
    with out.at_work("headway learn"):
        out.progress("work", 1, 2)
    out.finish()
    assert json.loads(page.getvalue()) == {"value": None, "bound": None, "text": EVIL, "next": "headway status"}
    assert aside.getvalue() == ""


def test_an_error_has_code_message_and_hint_in_both_forms() -> None:
    page, aside = io.StringIO(), io.StringIO()
    error = InvalidInput("It is \x1b[31mwrong\x1b[0m.", code="bad_thing", hint="Do it right.")
    Output(out=page, err=aside).error(error)
    assert (page.getvalue(), aside.getvalue()) == ("", "Error: It is wrong.\nHint: Do it right.\n")
    Output(json=True, out=page, err=aside).error(GateRefused("No.", reasons=("too few", "too noisy"), hint="Wait."))
    assert json.loads(page.getvalue()) == {
        "error": {"code": "gate_refused", "message": "No.", "hint": "Wait.", "reasons": ["too few", "too noisy"]}
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (math.nan, "–"), (1234567, "1,234,567"), (0.12345, "0.123"), (True, "True"), ("[red]", "[red]")],
)
def test_numbers_are_formatted_for_people(value: object, shown: str) -> None:
    assert number(value) == shown
