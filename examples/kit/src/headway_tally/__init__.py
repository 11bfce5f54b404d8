"""tally — a kit in four small files: a family, a world, a command and a route."""

from headway.nouns.kit import Command, Family, Kit

KIT = Kit(
    name="tally",
    summary="Mean rewards per value of one state variable.",
    families={
        "tally": Family(
            kinds=("choice",),
            policy="headway_tally.family:read",
            learner="headway_tally.family:TallyLearner",
            knobs="headway_tally.family:TallyKnobs",
        )
    },
    worlds={"colours": "headway_tally.world:Colours"},
    commands={"tally": Command("headway_tally.commands:tally", "The mean reward of each action so far.")},
    routes=("headway_tally.routes",),
)
