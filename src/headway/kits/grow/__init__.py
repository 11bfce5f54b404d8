"""grow — policies with a memory for factored actions, and networks that grow while they train.

Takes: a world of factored actions.   Gives: a recurrent policy, with the curve of its returns; the world `morph`.
Never: loads torch in order to act.
May import: cli, serve, project, settings, decide, observe, files, nouns.
"""

from headway.nouns.kind import Kind
from headway.nouns.kit import Command, Family, Kit

KIT = Kit(
    name="grow",
    summary="Practise with a memory, for actions of several parts: the family recurrent.",
    needs=("practice", "runs"),
    kinds={
        "factored": Kind(
            summary="Draw an action of several heads.",
            keys=("floor",),
            settings="headway.kits.grow.settings:FactoredSettings",
            reads="headway.kits.grow.settings:read_factored",
            defaults={"floor": 0.0},
            pipeline="headway.project.decide.heads:heads_pipeline",
            consider="headway.project.decide.factored:consider_heads",
            decide="headway.project.decide.factored:decide_heads",
            judged="world",
            template={},
            decides="headway decide {task}",
        )
    },
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
        "morph": "headway.kits.grow.morph.taught:morph",
    },
    spaces={
        "masked_cartpole": "headway.kits.grow.masked_cartpole:SPACE",
        "morph": "headway.kits.grow.morph.space:SPACE",
        "scaffold": "headway.kits.grow.scaffold:SPACE",
    },
    options={"init": "headway.kits.grow.commands.init:INIT"},
    routes=("headway.kits.grow.routes",),
    commands={
        "grow": Command(
            "headway.kits.grow.commands.grow:grow",
            "Networks that grow while they train, and policies that decide what grows.",
        ),
        "grow train": Command(
            "headway.kits.grow.commands.train:train",
            "Practise growing: which seed, where, when to blend it in, keep it or prune it.",
        ),
        "grow evaluate": Command(
            "headway.kits.grow.commands.evaluate:evaluate",
            "Play POLICY and the baselines on held-out hosts: accuracy on test images, net of rent.",
        ),
        "grow ablate": Command(
            "headway.kits.grow.commands.evaluate:ablate",
            "Show what the parts of POLICY are worth: without memory, without inputs, with one head drawn at random.",
        ),
        "grow bench": Command(
            "headway.kits.grow.commands.bench:bench",
            "Measure whole steps with random valid actions over all blueprints, on one thread.",
        ),
    },
)
