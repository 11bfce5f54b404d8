"""`headway completion`: the script that a shell sources."""

from __future__ import annotations

import click

from headway.cli.verb import Session, verb

__all__ = ["completion"]


@verb(
    "completion",
    'eval "$(headway completion bash)"',
    "headway completion fish > ~/.config/fish/completions/headway.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(session: Session, shell: str) -> None:
    """The script that teaches your shell to complete headway.

    It completes commands, options and the tasks of headway.toml.
    """
    from click.shell_completion import get_completion_class

    from headway.cli.main import headway

    found = get_completion_class(shell)
    assert found is not None, "click knows the three shells"
    script = found(headway, {}, "headway", "_HEADWAY_COMPLETE").source()
    session.out.document({"shell": shell, "script": script})
    session.out.raw(script if script.endswith("\n") else f"{script}\n")
