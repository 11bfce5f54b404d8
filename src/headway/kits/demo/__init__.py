"""demo — sample traffic of known value, and the demo that plays the whole loop on it.

Takes: a seed.   Gives: asks whose outcomes are known, a project with a planted story, synthetic history.
Never: is mistaken for users: everything it writes is marked synthetic.
May import: cli, loop, project, settings, promote, prove, decide, reward, observe, encode, client, files, nouns.
"""

from headway.nouns import Command, Kit

KIT = Kit(
    name="demo",
    summary="Sample traffic whose true values are known, and a demo of the whole loop.",
    needs=("report",),
    samples={
        "route": "headway.kits.demo.routing:two_arms",
        "route-wide": "headway.kits.demo.routing:wide",
        "escalation": "headway.kits.demo.escalation:Escalation",
        "escalation-priced": "headway.kits.demo.escalation:priced",
    },
    commands={
        "data synth": Command(
            "headway.kits.demo.commands:synth",
            "Write the log of a router in a synthetic world: decisions with exact propensities.",
        ),
    },
    demos={
        "route": Command(
            "headway.kits.demo.commands:route",
            "Play the whole loop on synthetic routing traffic, from an empty folder.",
        ),
    },
    options={"up": "headway.kits.demo.commands:UP"},
)
