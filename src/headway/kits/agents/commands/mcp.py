"""`headway mcp`: the project as tools for coding agents."""

from __future__ import annotations

import click

from headway.cli import Session, verb


@verb("mcp", "headway mcp", "headway -C demo mcp --no-signal", waits=True)
@click.option("--no-signal", is_flag=True, help="Omit the tool `signal`, so that the agent cannot judge itself.")
def mcp(session: Session, no_signal: bool) -> None:
    """Offer the project to a coding agent as tools.

    Speaks the Model Context Protocol on standard input and output, and ends when its input ends. Tools: decide, signal,
    score, rank, explain, status.
    """
    from headway.kits.agents.mcp import serve_stdio

    session.out.json = False  # standard output belongs to the protocol
    with session.project(create=True) as project:
        serve_stdio(project, signals=not no_signal)
