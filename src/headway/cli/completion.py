"""`headway completion`: the completion script for a shell."""

from __future__ import annotations

from dataclasses import dataclass

import click

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, verb


@verb(
    "completion",
    'eval "$(headway completion bash)"',
    "headway completion fish > ~/.config/fish/completions/headway.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(session: Session, shell: str) -> None:
    """Print the script that makes your shell complete headway commands.

    It completes commands, options and the tasks of headway.toml.
    """
    from click.shell_completion import get_completion_class

    from headway.cli.main import headway

    complete = get_completion_class(shell)
    assert complete is not None, "click knows the three shells"
    script = complete(headway, {}, "headway", "_HEADWAY_COMPLETE").source()
    session.show(CompletionScript(shell=shell, script=script))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionScript:
    shell: str
    script: str


@renders(CompletionScript)
def _script(out: Output, completion: CompletionScript) -> None:
    out.raw(f"{completion.script.removesuffix(chr(10))}\n")
