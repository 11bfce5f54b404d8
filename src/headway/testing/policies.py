"""The contract of families: valid policies, a deterministic learner, and success on the identity world."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from headway.decide import Pipeline, baseline, draw, uniform
from headway.nouns import Candidate, Catalogue, Encoder, Learned, Policy, Situation
from headway.testing.small_worlds import ARMS, CANDIDATES, WORLDS, MemoryLog, identity

_ROWS, _FRESH = 1200, 300


def learner_contract(
    catalogue: Catalogue,
    family: str,
    knobs: Mapping[str, Any] | None = None,
    *,
    world: str = "numbers",
    encoder: Encoder | None = None,
    least: float = 0.9,
    twice: bool = True,
) -> None:
    """The family learns the identity world, deterministically, and returns a policy that satisfies the policy contract.

    `world`: how situations name the best arm, "text" (needs an encoder), "numbers" or "category". `least`: the
    share of fresh situations that the policy must get right when it does not explore. `twice`: learn again and compare.
    """
    rows, wanted = identity(world, _ROWS), dict(knobs or {})
    learned = catalogue.learner(family, encoder=encoder).learn(MemoryLog(rows), wanted, seed=7)
    assert learned.family == family, f"the learner of {family!r} gives the family {learned.family!r}"
    if twice:
        _is_the_same(learned, catalogue.learner(family, encoder=encoder).learn(MemoryLog(rows), wanted, seed=7))
    for name, value in (*learned.metrics.items(), *learned.baselines.items()):
        assert np.isfinite(value), f"{name} of the metrics and baselines is {value!r}"

    policy = catalogue.build(family, learned.knobs, learned.tensors, learned.extra, encoder)
    situations = [settled.decision.situation for settled in rows[:40]]
    policy_contract(policy, rebuilt(catalogue, learned, encoder), situations, CANDIDATES)

    fresh = [WORLDS[world](number % len(ARMS), number + 5000) for number in range(_FRESH)]
    acting = Pipeline(policy, floor=0.0, explore="greedy").distributions(fresh, CANDIDATES, range(_FRESH))
    right = float(acting[np.arange(_FRESH), np.arange(_FRESH) % len(ARMS)].mean())
    assert right >= least, f"{family} gets {right:.3f} of the identity world right, expected at least {least}"


def rebuilt(catalogue: Catalogue, learned: Learned, encoder: Encoder | None) -> Policy:
    """The policy after its tensors have been through a safetensors file and its JSON through text."""
    tensors = load(save({name: np.ascontiguousarray(tensor) for name, tensor in learned.tensors.items()}))
    knobs, extra = json.loads(json.dumps(learned.knobs)), json.loads(json.dumps(learned.extra))
    return catalogue.build(learned.family, knobs, tensors, extra, encoder)


def policy_contract(
    policy: Policy, again: Policy, situations: Sequence[Situation], candidates: Sequence[Candidate]
) -> None:
    """The policy gives exact probabilities that depend on the seed alone; `again` is the same one, read from disk."""
    for floor in (0.0, 0.02):
        pipeline, other = Pipeline(policy, floor=floor), Pipeline(again, floor=floor)
        many = pipeline.distributions(situations, candidates, range(len(situations)))
        draws = pipeline.draw(situations, candidates, range(len(situations)))
        for seed, situation in enumerate(situations):
            opinion = policy.opinions((situation,), candidates, (seed,)).row(0)
            _is_distribution(opinion.probabilities, len(candidates))
            assert 0.0 <= opinion.confidence <= 1.0, f"a confidence is {opinion.confidence!r}"
            acted = pipeline.act(situation, candidates, seed)
            # The same seed gives the same result, here, from the stored form, and in a batch.
            for twin in (pipeline.act(situation, candidates, seed), other.act(situation, candidates, seed)):
                assert np.array_equal(twin.probabilities, acted.probabilities), "a repeated decision differs"
                assert (twin.index, twin.propensity, twin.u) == (acted.index, acted.propensity, acted.u)
                assert twin.opinion.confidence == acted.opinion.confidence, "a repeated confidence differs"
            assert np.array_equal(many[seed], acted.probabilities), "a batch differs from single decisions"
            assert draws[seed].probabilities == tuple(acted.probabilities.tolist()), "a batch draws from something else"
            assert (draws[seed].chosen, draws[seed].propensity) == (acted.index, acted.propensity)
            assert (draws[seed].exploration, draws[seed].assigned) == (acted.exploration, acted.assigned)
            # The logged propensity is the one acted with.
            assert acted.propensity == acted.probabilities[acted.index] > 0.0
            assert acted.u == uniform(seed)
            assert acted.index == draw(acted.probabilities.tolist(), acted.u)
            _is_distribution(acted.probabilities, len(candidates))
            if floor:
                assert acted.probabilities.min() >= floor / len(candidates) - 1e-15, "the exploration floor is missed"
    _masks(policy, situations[0], candidates)
    _sets(policy, situations, candidates)
    _falls_back(policy, situations, candidates)


def _is_the_same(one: Learned, other: Learned) -> None:
    assert one.tensors.keys() == other.tensors.keys(), "learning twice gives other tensors"
    for name, tensor in one.tensors.items():
        assert np.array_equal(tensor, other.tensors[name]), f"learning twice gives another tensor {name!r}"
    assert (one.knobs, one.metrics, one.baselines) == (other.knobs, other.metrics, other.baselines)


def _is_distribution(probabilities: Any, count: int) -> None:
    assert probabilities.shape == (count,), f"{probabilities.shape} probabilities for {count} candidates"
    assert probabilities.dtype == np.float64, f"probabilities are {probabilities.dtype}, expected float64"
    assert (probabilities >= 0.0).all(), f"a probability is negative: {probabilities}"
    assert abs(float(probabilities.sum()) - 1.0) <= 1e-12, f"probabilities sum to {float(probabilities.sum())!r}"


def _masks(policy: Policy, situation: Situation, candidates: Sequence[Candidate]) -> None:
    """A masked candidate gets exactly 0, and the others what they would get without it."""
    for masked in range(len(candidates)):
        allowed = [place != masked for place in range(len(candidates))]
        acted = Pipeline(policy).act(situation, candidates, 3, allowed=allowed)
        assert acted.probabilities[masked] == 0.0, "a masked candidate has a probability"
        assert acted.index != masked
        few = [candidate for candidate, free in zip(candidates, allowed, strict=True) if free]
        assert np.array_equal(acted.probabilities[allowed], Pipeline(policy).act(situation, few, 3).probabilities)


def _sets(policy: Policy, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> None:
    """Candidate sets may differ from row to row, be in another order, and contain unknown arms."""
    stranger = Candidate("never seen before")
    sets = [
        [*candidates, stranger],
        list(reversed(candidates)),
        [candidates[0]],
        [stranger],
    ]
    pipeline = Pipeline(policy)
    rows = [situations[place % len(situations)] for place in range(3 * len(sets))]
    asked = [sets[place % len(sets)] for place in range(len(rows))]
    many = pipeline.distributions(rows, asked, range(len(rows)))
    for seed, (situation, offered) in enumerate(zip(rows, asked, strict=True)):
        alone = pipeline.act(situation, offered, seed).probabilities
        assert np.array_equal(many[seed, : len(offered)], alone), "rows with other candidates change one another"
        assert (many[seed, len(offered) :] == 0.0).all()


def _falls_back(policy: Policy, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> None:
    """With an unreachable floor the fallback always acts; with a floor of 0 it never does."""
    last = baseline("fixed@0", arm=candidates[-1].name)
    for least, branch in ((0.0, "policy"), (1.0, "fallback")):
        pipeline = Pipeline(policy, fallback=last, confidence_floor=least, floor=0.0)
        for seed, situation in enumerate(situations):
            acted = pipeline.act(situation, candidates, seed)
            unsure = acted.opinion.confidence < least
            assert acted.branch == ("fallback" if unsure else "policy")
            if branch == "policy":
                assert acted.branch == "policy"
            if unsure:
                assert acted.index == len(candidates) - 1
        many = pipeline.distributions(situations, candidates, range(len(situations)))
        single = [pipeline.act(s, candidates, i).probabilities for i, s in enumerate(situations)]
        assert np.array_equal(many, np.stack(single))
