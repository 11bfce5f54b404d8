"""grow — actions of several heads, policies with a memory for them, and networks that grow while they train.

    from headway.kits.grow import Factored, Head

    Factored((Head("op", ("WAIT", "GROW")), Head("slot", ("left", "right"))), needs={"WAIT": ()})

Takes: a world of factored actions.   Gives: a recurrent policy, with the curve of its returns; the world `morph`.
Never: loads torch in order to act.
May import: cli, serve, project, settings, decide, observe, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Command, Family, Kind, Kit, door

if TYPE_CHECKING:
    from headway.kits.grow.factored.space import (
        Factored as Factored,
        FactoredOpinions as FactoredOpinions,
        Head as Head,
        Observations as Observations,
    )
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="grow",
    summary="Practise with a memory, for actions of several parts: the family recurrent.",
    needs=("practice", "runs"),
    kinds={
        "factored": Kind(
            summary="Draw an action of several heads.",
            keys=("floor",),
            settings="headway.kits.grow.factored.settings:FactoredSettings",
            reads="headway.kits.grow.factored.settings:read_factored",
            defaults={"floor": 0.0},
            pipeline="headway.kits.grow.factored.pipeline:pipeline",
            consider="headway.kits.grow.factored.decide:consider",
            decide="headway.kits.grow.factored.decide:decide",
            answer="headway.kits.grow.factored.decide:answer",
            replay="headway.kits.grow.factored.decide:replay",
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
        "masked_cartpole": "headway.kits.grow.gymnasium_world:masked_cartpole",
        "scaffold": "headway.kits.grow.scaffold:scaffold",
        "morph": "headway.kits.grow.morph.baselines:morph",
    },
    spaces={
        "masked_cartpole": "headway.kits.grow.gymnasium_world:SPACE",
        "morph": "headway.kits.grow.morph.blueprints:SPACE",
        "scaffold": "headway.kits.grow.scaffold:SPACE",
    },
    options={"decide": "headway.kits.grow.commands.options:DECIDE", "init": "headway.kits.grow.commands.options:INIT"},
    verbs={"heads": "headway.kits.grow.factored.decide:heads"},
    contracts={
        "heads_contract": "headway.kits.grow.factored.contracts:heads_contract",
        "factored_world_contract": "headway.kits.grow.factored.contracts:factored_world_contract",
    },
    routes=("headway.kits.grow.routes",),
    explains=("headway.kits.grow.factored.decide:explain",),
    commands={
        "grow": Command(
            "headway.kits.grow.commands.grow:grow",
            "Networks that grow while they train, and policies that decide what grows.",
        ),
        "grow train": Command(
            "headway.kits.grow.commands.grow:train",
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
            "headway.kits.grow.commands.grow:bench",
            "Measure whole steps with random valid actions over all blueprints, on one thread.",
        ),
    },
)
