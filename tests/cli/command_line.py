"""Parses command lines with the real parser, to check that a command exists with these options."""

from __future__ import annotations

import shlex
import warnings

import click

from headway.cli.main import headway

__all__ = ["parse", "words_after"]


def words_after(context: click.Context) -> list[str]:
    """What of the words of a group is left for its commands. click 9 has all of it in `args`, and warns before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return [*getattr(context, "protected_args", ()), *context.args]


def parse(text: str) -> click.Context:
    """The context of a parsed command line; nothing is run. Raises a usage error if it is invalid."""
    program, *words = shlex.split(text)
    assert program == "headway", f"{text!r} is not a command of ours"
    command: click.Command = headway
    context = command.make_context("headway", list(words))
    while isinstance(command, click.Group):
        name, result, words = command.resolve_command(context, words_after(context))
        assert result is not None, f"there is no command {name!r}"
        command = result
        context = command.make_context(name, words, parent=context)
    return context
