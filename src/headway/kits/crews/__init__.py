"""crews — work spread over processes: one function, many shards, results in order; `headway learn --all`.

Takes: a function by its name, shards.   Gives: the result of each shard, whoever computed it.
Never: lets the number of workers, or one that dies, change a result.
May import: cli, project, client, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Kit, door

if TYPE_CHECKING:
    from headway.kits.crews.commands import crew_here as crew_here
    from headway.kits.crews.processes import crew as crew
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="crews",
    summary="Spread work over processes, and learn every due task side by side.",
    crews={"processes": "headway.kits.crews.processes:ProcessCrew"},
    options={"learn": "headway.kits.crews.commands:LEARN"},
)
