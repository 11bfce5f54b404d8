"""practice — policies that practise in a world: one PPO core, rollouts, the family actor_critic.

    from headway.kits.practice import practise

    practise(project, "cartpole", seed=7).policy    # a candidate; nothing decides with it until it is promoted

Takes: a world, or a log.   Gives: an actor-critic policy, with the curve of its returns.
Never: imports a kit that brings a world.
May import: cli, project, settings, promote, learn, prove, decide, observe, encode, files, nouns.
"""

from typing import TYPE_CHECKING, Any

from headway.nouns.kit import Family, Kit, load

if TYPE_CHECKING:
    from headway.kits.practice.run import Practised, practise

__all__ = ["KIT", "Practised", "practise"]

KIT = Kit(
    name="practice",
    summary="Practise in a world by PPO: the family actor_critic, and Gymnasium environments.",
    needs=("heldout", "runs"),
    families={
        "actor_critic": Family(
            kinds=("choice",),
            policy="headway.kits.practice.policy:read",
            learner="headway.kits.practice.learner:ActorCriticLearner",
            knobs="headway.kits.practice.knobs:ActorCriticKnobs",
            evidence=("world", "log"),
        ),
    },
    evidence={"world": "headway.kits.practice.world_evidence:WORLD"},
    worlds={
        "cartpole": "headway.kits.practice.environments:cartpole",
        "acrobot": "headway.kits.practice.environments:acrobot",
        "lunarlander": "headway.kits.practice.environments:lunarlander",
    },
    options={"learn": "headway.kits.practice.commands:LEARN"},
)

_WHERE = {"Practised": "run", "practise": "run"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"{__name__}.{_WHERE[name]}:{name}")
