"""The help page of every command, as a terminal of 100 columns shows it.

python -m tests.cli.help_pages        rewrites tests/golden/help/*.txt; review the difference
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from headway.cli.main import headway

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "help"
REFERENCE = ROOT / "docs" / "reference" / "cli.md"
INTRODUCTION = """\
# Commands

Every command takes `-C DIR` (the project's folder; the current folder by default) and `--json` (one JSON document on
standard output, errors too: `{"error": {"code", "message", "hint"}}`), and prints the next command to run or how to
undo. On a terminal there are tables and colour, elsewhere plain lines. A command that is silent for long (two seconds
on a terminal, five elsewhere) says on standard error that it works and how far it is. Exit status: 0 done, 1 an error
([codes](errors.md)) or a failed check of `doctor`, 2 the command line is invalid, 3 the answer of `--check` is no,
130 interrupted.

This page is written from the commands themselves (`python -m tests.cli.help_pages`).
"""


def commands(
    command: click.Command = headway, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with its path, `headway data export`, depth first."""
    name = "headway" if parent is None else str(command.name)
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for list_command in command.list_commands(context):
            subcommand = command.get_command(context, list_command)
            assert subcommand is not None
            yield from commands(subcommand, context)


def page(command: click.Command, context: click.Context) -> str:
    context.terminal_width = 100
    return command.get_help(context) + "\n"


def file_of(path: str) -> Path:
    return GOLDEN / f"{path.replace(' ', '_')}.txt"


def reference() -> str:
    """The page of all commands."""
    parts = [INTRODUCTION]
    parts += [f"## {path}\n\n```text\n{page(command, context)}```\n" for path, command, context in commands()]
    return "\n".join(parts)


if __name__ == "__main__":
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for path, command, context in commands():
        file_of(path).write_text(page(command, context), "utf-8")
    REFERENCE.write_text(reference(), "utf-8")
