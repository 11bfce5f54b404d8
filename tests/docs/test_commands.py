"""The real command line parses every command in a page, a hint or a "Next:"."""

from __future__ import annotations

import pytest

from tests.docs.commands import (
    HOLE,
    Shown,
    collect,
    example_commands,
    in_markdown,
    in_page,
    in_python,
    in_shell,
    in_text,
    problem,
)


def test_every_command_in_docs_and_messages_parses() -> None:
    problems = [f"{shown.place}: {message}" for shown in collect() if (message := problem(shown))]
    assert not problems, "\n".join(problems)


def test_only_commands_of_example_kits_are_omitted() -> None:
    passport = 'KIT = Kit(name="acme", commands={"tally": Command("acme:tally", "Mean rewards.")})'
    assert example_commands(passport, "commands = {}") == {"tally"}
    collected = collect()
    assert "docs/how-to/kits.md" in {shown.place for shown in collected}  # its other commands are checked
    assert not any(words[:1] == ["tally"] for shown in collected for words in in_shell(shown.text))


def test_commands_are_collected_from_every_kind_of_place() -> None:
    places = [shown.place for shown in collect()]
    assert len(places) > 500
    for start in (
        "README.md",
        "docs/tutorial/",
        "docs/how-to/",
        "src/headway/cli/",
        "src/headway/promote/",
        "dashboard/src/",
    ):
        assert any(place.startswith(start) for place in places), start


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("headway status", [["status"]]),
        ("headway init && headway -C demo status --json | head -n 3", [["init"], ["-C", "demo", "status", "--json"]]),
        ("A=1 headway serve --port 0 > out.txt 2>&1 &", [["serve", "--port", "0"]]),
        ('eval "$(headway completion bash)"', [["completion", "bash"]]),
        ('headway decide route "Fix it; now"  # a comment', [["decide", "route", "Fix it; now"]]),
        ("it isn't a command", []),
    ],
)
def test_shell_syntax_is_split(text: str, commands: list[list[str]]) -> None:
    assert list(in_shell(text)) == commands


def test_a_page_shows_blocks_steps_and_spans() -> None:
    page = (
        "Call `headway plan`.\n\n```console\n$ headway learn \\\n> route\nbandit@1\nNext: headway prove route\n```\n"
        "```python\nrun('headway nothing')\n```\n"
    )
    assert sorted(in_markdown(page)) == [
        ("headway learn route", False),
        ("headway plan", True),
        ("headway prove route", False),
    ]


def test_both_sides_of_a_conditional_and_every_placeholder_are_checked() -> None:
    source = 'hint = f"Prove it: headway prove {task}{\' --all\' if late else \'\'}"\ncall = ["headway", "serve"]\n'
    assert list(in_python(source)) == [
        (1, f"headway prove {HOLE} --all", False),
        (1, f"headway prove {HOLE}", False),
        (2, "headway serve", False),
    ]


def test_a_message_ends_its_command_at_a_parenthesis_or_a_full_stop() -> None:
    assert list(in_text("Learn first (headway learn route) or wait.")) == [("headway learn route", False)]
    assert list(in_text("Run: headway learn route. Then wait.")) == [("headway learn route", False)]
    assert list(in_text("See `headway up` and headway's page.")) == [("headway up", True)]


def test_the_page_shows_attributes_templates_and_code() -> None:
    source = '<Empty command="headway learn {task}" />\n<code>headway up</code>\nreturn `headway prove ${name(`x`)}`;\n'
    assert [text for text, _ in in_page(source)] == [f"headway learn {HOLE}", "headway up", f"headway prove {HOLE}"]


@pytest.mark.parametrize(
    ("text", "span", "message"),
    [
        ("headway promote route", False, ""),
        (f"headway serve --workers {HOLE}", False, ""),
        ("headway models add|lst minilm", False, "There is no command 'lst'"),
        ("headway promot route", True, "There is no command 'promot'"),
        ("headway promote", False, "Missing argument 'TASK'"),
        ("headway promote", True, ""),
        ("headway prove --trust-key", True, ""),
        ("headway prove --lgo", True, "No such option"),
        ("headway decide route text small large", False, "unexpected extra arguments"),
        ("headway --version", False, ""),
    ],
)
def test_a_wrong_command_is_reported(text: str, span: bool, message: str) -> None:
    reported = problem(Shown("here", text, span))
    assert message in reported
    assert bool(message) == bool(reported)
