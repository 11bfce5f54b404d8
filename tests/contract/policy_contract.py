"""What every family's policy must keep, whatever is inside; `test_families.py` holds all of them to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from headway.decide.acting import Pipeline
from headway.decide.baselines import baseline
from headway.decide.explore import draw, uniform
from headway.nouns.protocols import Encoder, Learned, Policy
from headway.nouns.records import Candidate, Situation
from tests.families import build
from tests.opinions import opinion_on

__all__ = ["policy_contract", "rebuilt"]


def rebuilt(learned: Learned, encoder: Encoder | None) -> Policy:
    """The policy after its tensors have been through a safetensors file and its JSON through text."""
    import json

    tensors = load(save({name: np.ascontiguousarray(each) for name, each in learned.tensors.items()}))
    knobs, extra = json.loads(json.dumps(learned.knobs)), json.loads(json.dumps(learned.extra))
    return build(learned.family, knobs, tensors, extra, encoder)


def policy_contract(
    policy: Policy, again: Policy, situations: Sequence[Situation], candidates: Sequence[Candidate]
) -> None:
    """`again` is the same policy out of its stored form."""
    for floor in (0.0, 0.02):
        pipeline, other = Pipeline(policy, floor=floor), Pipeline(again, floor=floor)
        many = pipeline.distributions(situations, candidates, range(len(situations)))
        draws = pipeline.draw(situations, candidates, range(len(situations)))
        for seed, situation in enumerate(situations):
            opinion = opinion_on(policy, situation, candidates, seed=seed)
            _is_distribution(opinion.probabilities, len(candidates))
            assert 0.0 <= opinion.confidence <= 1.0
            # The same seed gives the same result, here, from the stored form, and in a batch.
            acted = pipeline.act(situation, candidates, seed)
            for twin in (pipeline.act(situation, candidates, seed), other.act(situation, candidates, seed)):
                assert np.array_equal(twin.probabilities, acted.probabilities)
                assert (twin.index, twin.propensity, twin.u) == (acted.index, acted.propensity, acted.u)
                assert twin.opinion.confidence == acted.opinion.confidence
            assert np.array_equal(many[seed], acted.probabilities)
            assert draws[seed].probabilities == tuple(acted.probabilities.tolist())
            assert (draws[seed].chosen, draws[seed].propensity) == (acted.index, acted.propensity)
            assert (draws[seed].exploration, draws[seed].assigned) == (acted.exploration, acted.assigned)
            # The logged propensity is the one acted with.
            assert acted.propensity == acted.probabilities[acted.index] > 0.0
            assert acted.u == uniform(seed)
            assert acted.index == draw(acted.probabilities, acted.u)
            _is_distribution(acted.probabilities, len(candidates))
            if floor:
                assert acted.probabilities.min() >= floor / len(candidates) - 1e-15
    _masks(policy, situations[0], candidates)
    _sets(policy, situations, candidates)
    _falls_back(policy, situations, candidates)


def _is_distribution(probabilities: Any, count: int) -> None:
    assert probabilities.shape == (count,)
    assert probabilities.dtype == np.float64
    assert (probabilities >= 0.0).all()
    assert abs(float(probabilities.sum()) - 1.0) <= 1e-12


def _masks(policy: Policy, situation: Situation, candidates: Sequence[Candidate]) -> None:
    """A masked candidate gets exactly 0, and the others what they would get without it."""
    for masked in range(len(candidates)):
        allowed = [place != masked for place in range(len(candidates))]
        acted = Pipeline(policy).act(situation, candidates, 3, allowed=allowed)
        assert acted.probabilities[masked] == 0.0
        assert acted.index != masked
        few = [each for each, free in zip(candidates, allowed, strict=True) if free]
        assert np.array_equal(acted.probabilities[allowed], Pipeline(policy).act(situation, few, 3).probabilities)


def _sets(policy: Policy, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> None:
    """Candidate sets may differ from row to row, be in another order, and name arms that nobody has met."""
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
    found = pipeline.distributions(rows, asked, range(len(rows)))
    for seed, (situation, each) in enumerate(zip(rows, asked, strict=True)):
        alone = pipeline.act(situation, each, seed).probabilities
        assert np.array_equal(found[seed, : len(each)], alone)
        assert (found[seed, len(each) :] == 0.0).all()


def _falls_back(policy: Policy, situations: Sequence[Situation], candidates: Sequence[Candidate]) -> None:
    """With the floor out of reach the fallback acts always; with the floor at nothing, never."""
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
        each = [pipeline.act(s, candidates, i).probabilities for i, s in enumerate(situations)]
        assert np.array_equal(many, np.stack(each))
