"""The opinion of a policy on one situation, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from headway.nouns.protocols import Opinion, Policy
from headway.nouns.records import Candidate, Situation


def opinion_on(policy: Policy, situation: Situation, candidates: Sequence[Candidate], *, seed: int = 0) -> Opinion:
    """The policy's opinion on one situation."""
    return policy.opinions((situation,), candidates, (seed,)).row(0)
