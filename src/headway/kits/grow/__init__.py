"""grow — policies with a memory for factored actions, and networks that grow while they train.

Takes: a world of factored actions.   Gives: a recurrent policy, with the curve of its returns.
Never: loads torch in order to act.
May import: project, decide, nouns.
"""

from headway.nouns.kit import Family, Kit

KIT = Kit(
    name="grow",
    summary="Practise with a memory, for actions of several parts: the family recurrent.",
    needs=("practice",),
    families={
        "recurrent": Family(
            kinds=("factored",),
            policy="headway.kits.grow.policy:read",
            learner="headway.kits.grow.learner:RecurrentLearner",
            knobs="headway.kits.grow.knobs:RecurrentKnobs",
            evidence=("world",),
            practice="headway.kits.grow.learner:practise",
        ),
    },
    worlds={
        "masked_cartpole": "headway.kits.grow.masked_cartpole:masked_cartpole",
        "scaffold": "headway.kits.grow.scaffold:scaffold",
    },
    spaces={
        "masked_cartpole": "headway.kits.grow.masked_cartpole:SPACE",
        "morph": "headway.kits.grow.morph.space:SPACE",
        "scaffold": "headway.kits.grow.scaffold:SPACE",
    },
)
