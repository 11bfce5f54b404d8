"""agents — the project as tools of a coding agent, and its hooks as signals.

Takes: MCP calls, hook events.   Gives: decisions, signals.
Never: keeps the text of a hook event: only numbers, tool names and ids are read.
May import: serve, cli, loop, project, settings, reward, observe, files, nouns.
"""

from headway.nouns import Command, Kit

KIT = Kit(
    name="agents",
    summary="Coding agents: MCP tools, and hooks as signals.",
    needs=("next_action",),
    routes=("headway.kits.agents.routes",),
    commands={
        "mcp": Command("headway.kits.agents.commands.mcp:mcp", "Offer the project to a coding agent as tools."),
        "connect": Command(
            "headway.kits.agents.commands.connect:connect",
            "Connect a coding agent or a program: MCP tools, hooks or a base URL, from start to first signal.",
            "Start",
        ),
        "hook": Command(
            "headway.kits.agents.commands.hook:hook",
            "Turn a coding agent's hook into signals: tests passed, change kept or reverted.",
        ),
    },
)
