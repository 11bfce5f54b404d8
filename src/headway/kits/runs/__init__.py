"""runs — training runs: which there are, their curves, and how to stop one.

Takes: what learners wrote under `.headway/work/`.   Gives: runs, curves, a request to stop, snapshots.
Never: changes the metrics that a run wrote; believes a file of another program.
May import: cli, serve, observe, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Command, Kit, door

if TYPE_CHECKING:
    from headway.kits.runs.training_runs import (
        drop_snapshot as drop_snapshot,
        name_policy as name_policy,
        opened_snapshot as opened_snapshot,
        read_curves as read_curves,
        write_snapshot as write_snapshot,
    )
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="runs",
    summary="Training runs and their curves.",
    routes=("headway.kits.runs.routes",),
    commands={
        "runs": Command("headway.kits.runs.commands:runs", "List training runs, or show the curves of one."),
    },
)
