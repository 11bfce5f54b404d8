"""Learners by the name of their family.

learner("bandit", encoder=encoder("hashing")).learn(experience, knobs={}, seed=7)
"""

from __future__ import annotations

from collections.abc import Callable

from headway.learn.actor_critic import ActorCriticLearner
from headway.learn.bandit import BanditLearner
from headway.learn.clone import CloneLearner
from headway.learn.cql import CQLLearner
from headway.learn.outcome import OutcomeLearner
from headway.nouns.errors import UnknownName, did_you_mean
from headway.nouns.protocols import Encoder, Learner

__all__ = ["FAMILIES", "ONLINE", "RESUMABLE", "learner", "online_learner"]

FAMILIES: dict[str, Callable[[Encoder | None], Learner]] = {
    "bandit": BanditLearner,
    "clone": CloneLearner,
    "cql": CQLLearner,
    "outcome": OutcomeLearner,
    "actor_critic": ActorCriticLearner,
}
RESUMABLE = ("clone", "cql")  # their `learn` takes `resume`: a policy to go on from
ONLINE: dict[str, Callable[[Encoder | None], BanditLearner]] = {"bandit": BanditLearner}


def learner(family: str, *, encoder: Encoder | None = None) -> Learner:
    """The learner of a family. Without an encoder it reads numbers and categories only."""
    make = FAMILIES.get(family)
    if make is None:
        raise UnknownName(f"There is no family {family!r}.", code="family_missing", hint=did_you_mean(family, FAMILIES))
    return make(encoder)


def online_learner(family: str, *, encoder: Encoder | None = None) -> BanditLearner:
    """The learner of a family that can also be updated row by row: start, state_from, update, snapshot, learned."""
    make = ONLINE.get(family)
    if make is None:
        learner(family)  # an unknown name says so itself
        raise UnknownName(
            f"The family {family!r} cannot learn row by row.", code="not_online", hint=did_you_mean(family, ONLINE)
        )
    return make(encoder)
