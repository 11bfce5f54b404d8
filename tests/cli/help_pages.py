"""The help page of every command, as a terminal of 100 columns shows it.

python -m tests.cli.help_pages        writes tests/golden/help/*.txt anew; look at the difference before you commit
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from headway.cli.main import headway

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "help"


def commands(
    command: click.Command = headway, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with its path, `headway data export`, depth first."""
    name = "headway" if parent is None else str(command.name)
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from commands(found, context)


def page(command: click.Command, context: click.Context) -> str:
    context.terminal_width = 100
    return command.get_help(context) + "\n"


def file_of(path: str) -> Path:
    return GOLDEN / f"{path.replace(' ', '_')}.txt"


if __name__ == "__main__":
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for path, command, context in commands():
        file_of(path).write_text(page(command, context), "utf-8")
