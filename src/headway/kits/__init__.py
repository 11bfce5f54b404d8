"""kits — what rides on the loop: one folder per capability, found by name.

Takes: a Project.   Gives: families, worlds, encoders, formats, routes, commands.
Never: is imported by the core; imports a kit that its passport does not name in `needs`.
May import: cli, serve, loop, project, settings, promote, learn, prove, decide, reward, observe, encode, client, files,
nouns.
"""

# In the order in which their families, formats and commands are listed; a kit comes after those that it needs.
BUILT_IN = (
    "models", "runs", "reply", "sandbox", "postgres", "backup", "heldout", "report", "data", "raters", "formats",
    "otel", "audit", "crews", "practice", "prompts", "offline", "proxy", "alerts", "next_action", "agents", "simulator",
    "grow", "demo",
)  # fmt: skip
