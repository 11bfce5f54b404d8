"""The actor-critic: a network for the probability of each action, and one for the value of the situation.

    policy.opinions(situations, candidates, seeds)         # probabilities, confidence
    policy.acts(x, draws)                                  # worlds: actions of any head for observations [row, width]
    policy.values(x)                                       # [row]: the critic's estimate

Acting is numpy in float64 with exact sums (`decide.trunks`); torch is never loaded. `explore = "policy"` acts from the
network's distribution, `"greedy"` on its first choice (a later stage may still explore). Confidence is the network's
probability of its first choice among the candidates.

An unknown arm gets the mean probability of the known ones: logit = log Σ exp(logits) − log(arms).

Not covered: predicted rewards per candidate (an actor-critic has none), several heads or real numbers as candidates
(`acts` gives those).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import Arms, damaged, explore
from headway.encode import Features
from headway.kits.practice import heads
from headway.kits.practice.heads import Actions
from headway.kits.practice.trunks import Trunk
from headway.nouns import Candidate, Encoder, Floats, Opinions, Situation, errors

EXPLORE = ("policy", "greedy")
_DEEPEST = 20.0  # bounds of a log deviation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ActorCritic:
    """The policy. Immutable; safe from threads."""

    family = "actor_critic"
    arms: Arms
    actions: Actions
    features: Features
    encoder: Encoder | None
    actor: Trunk
    critic: Trunk
    log_std: Floats
    knobs: Mapping[str, Any]
    tensors: Mapping[str, Any]

    # -- tasks: one of some named candidates

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, confidence, std
        return self.judge(self.features.vectors(situations, self.encoder), candidates)

    def judge(self, x: Floats, candidates: Sequence[Candidate]) -> Opinions:
        """Opinions on precomputed feature vectors [row, width]."""
        if len(self.actions.sizes) != 1 or self.actions.kind != "categorical":
            raise errors.InvalidInput(
                f"This policy gives {self.actions.kind} actions of sizes {self.actions.sizes}, not one of some "
                "candidates.",
                code="not_a_choice",
                hint="It was learned in a world: use `acts`.",
            )
        scores = self.arms.offered(self.logits(x), candidates)
        own = explore.softmax(scores, 1.0)
        acting = explore.greedy(scores) if self.knobs.get("explore") == "greedy" else own
        return Opinions(acting, own.max(axis=1))

    # -- worlds: observations in, actions out

    def logits(self, x: Floats) -> Floats:
        """[row, outputs] of the actor, for rows from `features`."""
        return self.actor(x) if len(x) != 1 else self.actor.one(x[0])[None, :]

    def values(self, x: Floats) -> Floats:
        """[row]: the critic's estimate of the future return."""
        return self.critic(x)[:, 0]

    def rows(self, observations: NDArray[Any]) -> Floats:
        """[row, width] of bare observations [row, …], for a policy learned in a world."""
        flat = np.asarray(observations, dtype=np.float64).reshape(len(observations), -1)
        name = self.features.vectors_of[0][0] if self.features.vectors_of else "observation"
        return self.features.vectors([Situation(task="", state={name: row.tolist()}) for row in flat])

    def acts(
        self, x: Floats, draws: Floats | None = None, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Actions [row, head] and their log-probabilities [row]; without draws the most probable ones."""
        outputs = self.logits(x)
        raw = (
            heads.greedy(self.actions, outputs, allowed)
            if draws is None
            else heads.sample(self.actions, outputs, self.log_std, draws, allowed)
        )
        return raw, heads.log_probability(self.actions, outputs, self.log_std, raw, allowed)


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> ActorCritic:
    """The policy from a learner's tensors and JSON. The input is untrusted: a mismatch is refused as damaged."""
    actions = Actions.from_json(extra.get("actions"))
    arms, features = Arms.read(extra, least=0), Features.read(extra, encoder)
    single = actions.kind == "categorical" and len(actions.sizes) == 1
    if single and len(arms) != actions.outputs:
        raise damaged(f"The bundle names {len(arms)} arms for {actions.outputs} outputs", "bad_header")
    if knobs.get("explore", "policy") not in EXPLORE:
        raise damaged(f"The bundle has the explorer {knobs.get('explore')!r:.40}", "bad_header")
    activation = knobs.get("activation", "relu")
    actor = Trunk.read(tensors, "policy", inputs=features.width, outputs=actions.outputs, activation=activation)
    critic = Trunk.read(tensors, "value", inputs=features.width, outputs=1, activation=activation)
    log_std = np.array(tensors.get("free", np.zeros(0)), dtype=np.float64)
    if log_std.shape != (actions.free,) or not (np.abs(log_std) <= _DEEPEST).all():
        raise damaged("The bundle's deviations do not match its actions", "bad_tensor")
    return ActorCritic(
        arms=arms, actions=actions, features=features, encoder=encoder, actor=actor, critic=critic,
        log_std=log_std, knobs=knobs, tensors=tensors,
    )  # fmt: skip
