"""raters — how rewards are distributed, how raters compare, and which decision to ask them about next.

Takes: settled decisions, and the signals of their raters.   Gives: `headway rewards analyze` and `ask`.
Never: changes a reward: the consensus of raters that counts is in `reward`.
May import: cli, project, serve, reward, observe, nouns.
"""

from headway.nouns import Command, Kit

KIT = Kit(
    name="raters",
    summary="Show how rewards are distributed and how raters compare; ask them what tells most.",
    needs=("report",),
    routes=("headway.kits.raters.routes",),
    commands={
        "rewards": Command(
            "headway.kits.raters.commands.rescore:rewards", "Analyse rewards, and compute them again after a change."
        ),
        "rewards analyze": Command(
            "headway.kits.raters.commands.analyze:analyze",
            "Show how rewards are distributed: by role, source, action and rater; how many are missing or failed.",
        ),
        "rewards ask": Command(
            "headway.kits.raters.commands.analyze:ask",
            "List the decisions to ask people about next: those where one more rating tells most.",
        ),
    },
    verbs={
        "raters": "headway.kits.raters.agreement:raters",
        "questions": "headway.kits.raters.agreement:questions",
    },
)
