"""runs — training runs: which there are, their curves, and how to stop one.

Takes: what learners wrote under `.headway/work/`.   Gives: runs, curves, a request to stop, snapshots.
Never: changes the metrics that a run wrote; believes a file of another program.
May import: cli, serve, observe, files, nouns.
"""

from headway.nouns.kit import Command, Kit

KIT = Kit(
    name="runs",
    summary="Training runs and their curves.",
    routes=("headway.kits.runs.routes",),
    commands={
        "runs": Command("headway.kits.runs.commands:runs", "List training runs, or show the curves of one."),
    },
)
