"""Every help page equals its golden file and starts with two examples that parse."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from headway.cli import main
from tests.cli.command_line import parse
from tests.cli.help_pages import GOLDEN, commands, file_of, page
from tests.cli.terminal import headway, process

PAGES = {path: (command, context) for path, command, context in commands()}
NOT_FOR_HELP = {"numpy", "rich", "httpx", "matplotlib", "pyarrow", "starlette", "granian", "torch", "sqlite3"}


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.kits("*")
def test_a_help_page_equals_its_golden_file(path: str) -> None:
    assert page(*PAGES[path]) == file_of(path).read_text("utf-8"), "run python -m tests.cli.help_pages"


@pytest.mark.kits("*")
def test_every_golden_page_belongs_to_a_command() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {file_of(path).name for path in PAGES}


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.kits("*")
def test_a_help_page_starts_with_two_examples_that_parse(path: str) -> None:
    head, *rest = page(*PAGES[path]).splitlines()
    assert head == "Examples:"
    assert rest[2] == ""
    for example in rest[:2]:
        assert "headway" in example
        for part in re.split(r"&&|\||>|\beval\b", example):
            words = [word for word in shlex.split(part.replace('"$(', "").replace(')"', "")) if word]
            if words[:1] == ["headway"]:
                parse(shlex.join(words))


def test_the_first_screen_explains_start_loop_and_look_and_names_the_rest() -> None:
    text = headway("--help").out
    assert [line[:-1] for line in text.splitlines() if re.fullmatch(r"[A-Z]\w+:", line)] == [
        "Examples",
        "Options",
        "Start",
        "Loop",
        "Look",
        "More",
        "Kits",
    ]
    shown = [name for group in ("Start", "Loop", "Look") for name, _ in main.in_group(group)]
    assert len(shown) <= 14
    rest = text.partition("\nMore:")[2].replace(",", " ").split()
    assert {*shown, *rest} >= set(main.commands())  # every command is named
    listed = headway("help", "--json").json["commands"]
    assert [line["name"] for line in listed] == headway_names()
    assert headway("help", "prove").out == headway("prove", "--help").out
    assert "probability" in headway("help", "propensity").out
    for name, entry in main.commands().items():
        assert (PAGES[f"headway {name}"][0].help or "").splitlines()[0] == entry.summary


@pytest.mark.kits("*")
def test_the_options_of_a_kit_are_in_help_only_with_the_words_that_need_them() -> None:
    plain, world = headway("learn", "--help").out, headway("learn", "--world", "cartpole", "--help").out
    assert "--target" not in plain
    assert "headway learn --world NAME --help" in plain
    assert "--target FLOAT" in world
    assert "--tasks" not in world
    assert "--tasks FILE" in headway("learn", "--world=sim", "--help").out
    ranker = headway("learn", "actions", "--family", "ranker", "--help").out
    assert "--force" in ranker
    assert "architecture=" in ranker  # a knob, with its default
    assert "--learner" not in ranker


def headway_names() -> list[str]:
    return [name for group in main.GROUPS for name, _ in main.in_group(group)]


@pytest.mark.parametrize("path", [path for path in PAGES if not isinstance(PAGES[path][0], click.Group)])
def test_every_command_takes_json_and_a_project(path: str) -> None:
    names = {name for parameter in PAGES[path][0].params for name in parameter.opts}
    assert {"--json", "-C", "--project"} <= names


@pytest.mark.parametrize("words", [["--help"], ["learn", "--help"], ["data", "export", "--help"], ["demo", "-h"], []])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys, json\nfrom headway.cli.main import run\n"
        f"assert run({words!r}) == 0\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert not loaded & NOT_FOR_HELP


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["lern"], "learn"),
        (["rolback", "route"], "rollback"),
        (["data", "stat"], "stats"),
        pytest.param(["rewards", "x"], "rescore", marks=pytest.mark.kits("raters")),
    ],
)
def test_an_unknown_command_suggests_the_nearest_one(words: list[str], nearest: str) -> None:
    done = headway(*words)
    assert done.code == 2
    assert nearest in done.err
    assert headway(*words, "--json").error["code"] == "usage"


def test_version_names_the_commit() -> None:
    assert re.fullmatch(r"headway \d+\.\d+\.\d+( \(commit [0-9a-f]{7,}\))?\n", headway("--version").out)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed_alone(shell: str) -> None:
    done = headway("completion", shell)
    assert done.code == 0
    assert "_HEADWAY_COMPLETE" in done.out
    assert "Next:" not in done.out
    assert headway("completion", shell, "--json").json["script"].strip() == done.out.strip()


@pytest.mark.parametrize(
    ("words", "completed"), [("headway le", "learn"), ("headway learn ", "route"), ("headway data e", "export")]
)
def test_a_shell_completes_commands_and_the_tasks_of_the_project(played: Path, words: str, completed: str) -> None:
    count = str(len(words.split(" ")) - 1)
    done = process(cwd=played, _HEADWAY_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count)
    assert (done.code, done.out.split()) == (0, [f"plain,{completed}"])
