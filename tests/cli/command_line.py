"""The real command line as a parser: does a command that we show exist, with these options?"""

from __future__ import annotations

import shlex

import click

from headway.cli.main import headway

__all__ = ["parse"]


def parse(text: str) -> click.Context:
    """The context that a command line parses into; nothing is run. A usage error says what is wrong with it."""
    program, *words = shlex.split(text)
    assert program == "headway", f"{text!r} is not a command of ours"
    command: click.Command = headway
    context = command.make_context("headway", list(words))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, result, words = command.resolve_command(context, rest)
        assert result is not None, f"there is no command {name!r}"
        command = result
        context = command.make_context(name, words, parent=context)
    return context
