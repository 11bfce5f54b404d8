"""practice — policies that practise in a world: one PPO core, rollouts, the family actor_critic.

    from headway.kits.practice import practise

    practise(project, "cartpole", seed=7).policy    # a candidate; nothing decides with it until it is promoted

Takes: a world, or a log.   Gives: an actor-critic policy, with the curve of its returns.
Never: imports a kit that brings a world.
May import: cli, project, settings, promote, learn, prove, decide, observe, encode, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Family, Kit, door

if TYPE_CHECKING:
    from headway.kits.practice import fit as fit, logged as logged, ppo as ppo
    from headway.kits.practice.acting import RunningScale as RunningScale, final_observations as final_observations
    from headway.kits.practice.commands import (
        practice_values as practice_values,
        practise_several as practise_several,
        show as show,
    )
    from headway.kits.practice.engine import Adam as Adam
    from headway.kits.practice.environments import (
        ENVIRONMENTS as ENVIRONMENTS,
        Environments as Environments,
        copies as copies,
        identify as identify,
    )
    from headway.kits.practice.fit import (
        Evaluation as Evaluation,
        Fitted as Fitted,
        Practice as Practice,
        practise_in as practise_in,
        standardised as standardised,
    )
    from headway.kits.practice.learner import (
        PROMPTS as PROMPTS,
        Experiences as Experiences,
        Standardised as Standardised,
        embedding_features as embedding_features,
        fresh as fresh,
        on_text as on_text,
        update as update,
    )
    from headway.kits.practice.logged import LoggedRows as LoggedRows
    from headway.kits.practice.mlp import Network as Network, Shape as Shape
    from headway.kits.practice.play import MOST_STEPS as MOST_STEPS, Played as Played, check_returns as check_returns
    from headway.kits.practice.policy import ActorCritic as ActorCritic, read as read
    from headway.kits.practice.rollout import gae as gae, refuse_not_finite as refuse_not_finite
    from headway.kits.practice.run import (
        Practised as Practised,
        SnapshotFolder as SnapshotFolder,
        TrainedPolicy as TrainedPolicy,
        engine_on as engine_on,
        fresh_settings as fresh_settings,
        practise as practise,
        publish_practised as publish_practised,
        run_about as run_about,
        slug as slug,
    )
    from headway.kits.practice.seeds import practise_seeds as practise_seeds
    from headway.kits.practice.spaces import actions_of as actions_of, inputs_of as inputs_of
    from headway.kits.practice.threads import one_thread as one_thread, torch_threads as torch_threads
    from headway.kits.practice.torch_engine import available as available
    from headway.kits.practice.trunks import Trunk as Trunk
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="practice",
    summary="Practise in a world by PPO: the family actor_critic, and Gymnasium environments.",
    needs=("heldout", "runs", "report", "crews"),
    families={
        "actor_critic": Family(
            kinds=("choice",),
            policy="headway.kits.practice.policy:read",
            learner="headway.kits.practice.learner:ActorCriticLearner",
            knobs="headway.kits.practice.learner:ActorCriticKnobs",
            evidence=("world", "log"),
        ),
    },
    evidence={"world": "headway.kits.practice.world_evidence:WORLD"},
    worlds={
        "cartpole": "headway.kits.practice.environments:cartpole",
        "acrobot": "headway.kits.practice.environments:acrobot",
        "lunarlander": "headway.kits.practice.environments:lunarlander",
    },
    options={
        "learn": "headway.kits.practice.commands:LEARN",
        "prove": "headway.kits.practice.commands:PROVE",
    },
)
