"""tally — a kit in six small files: a kind of task, a family, a world, a command and a route."""

from headway.nouns import Command, Family, Kit
from headway_tally.kind import TALLY

KIT = Kit(
    name="tally",
    summary="Mean rewards per value of one state variable.",
    kinds={"tally": TALLY},
    families={
        "tally": Family(
            kinds=("tally", "choice"),
            policy="headway_tally.family:read",
            learner="headway_tally.family:TallyLearner",
            knobs="headway_tally.family:TallyKnobs",
        )
    },
    worlds={"colours": "headway_tally.world:Colours"},
    commands={"tally": Command("headway_tally.commands:tally", "The mean reward of each action so far.")},
    routes=("headway_tally.routes",),
)
