"""Parses command lines with the real parser, to check that a command exists with these options."""

from __future__ import annotations

import shlex

import click

from headway.cli.main import headway

__all__ = ["parse"]


def parse(text: str) -> click.Context:
    """The context of a parsed command line; nothing is run. Raises a usage error if it is invalid."""
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
