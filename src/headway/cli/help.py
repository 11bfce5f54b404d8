"""`headway help`: every command with a line, one command, or a term of the glossary."""

from __future__ import annotations

from dataclasses import dataclass

import click

from headway.cli.glossary import find_term
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, verb


@verb("help", "headway help", "headway help propensity")
@click.argument("words", nargs=-1, metavar="[COMMAND or TERM]")
def help_(session: Session, words: tuple[str, ...]) -> None:
    """Explain every command in a line, one command, or a term.

    Terms are those of docs/reference/glossary.md: propensity, evidence, canary, effective sample size.
    """
    from headway.cli import main

    if not words:
        rows = tuple(
            CommandLine(name=name, group=group, summary=entry.summary)
            for group in main.GROUPS
            for name, entry in main.in_group(group)
        )
        session.show(CommandList(commands=rows))
        session.next("headway init")
        return
    if words[0] in main.commands():
        main.headway.main([*words, "--help"], prog_name="headway", standalone_mode=False)
        return
    import headway.cli.explain  # noqa: F401 — it renders terms

    session.show(find_term(" ".join(words)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A command and what it is for."""

    name: str
    group: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandList:
    """Every command."""

    commands: tuple[CommandLine, ...]


_LINES = RecordTable[CommandLine](
    Column.text("command", lambda line: line.name),
    Column.text("group", lambda line: line.group),
    Column.text("what it does", lambda line: line.summary),
)


@renders(CommandList)
def _list(out: Output, commands: CommandList) -> None:
    _LINES.print(out, commands.commands)
