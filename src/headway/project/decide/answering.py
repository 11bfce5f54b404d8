"""Who answers in a reply task: the current policy, and a canary on its share of the conversations.

A reply's candidates are the policies that could have written it, and its action is the one that did. The policies
themselves are held by a worker: choosing among them needs their references only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headway.decide.acting import Pipeline
from headway.decide.baselines import baseline
from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import UnknownName

if TYPE_CHECKING:
    from headway.project.decide.serving import Serving


def answering(task: str, body: Mapping[str, Any], ref: str) -> Pipeline:
    """The pipeline of a reply task under a configuration body: the current policy, or the canary on its share."""
    if PolicyRef.parse(ref).built_in and ref != "base@0":
        raise UnknownName(
            f"{ref} writes no replies, and {task!r} is a reply task.",
            code="policy_missing",
            hint="Its built-in policy is base@0: the base model without an adapter.",
        )
    canary = body.get("canary")
    return Pipeline(
        baseline("fixed@0", arm=ref),
        floor=0.0,
        canary=baseline("fixed@0", arm=canary["ref"]) if canary else None,
        canary_share=canary["share"] if canary else 0.0,
        canary_name=canary.get("name", "canary") if canary else "canary",
    )


def conversation_seed(task: str, episode: str) -> int:
    """The seed of every reply of a conversation: the same policy answers all of it while the shares stay as they are.

    Unlike the decisions of a sticky episode, its replies have outcomes of their own.
    """
    return int.from_bytes(hashlib.sha256(f"{task}\0{episode}".encode()).digest()[:8], "little")


def who_can_answer(serving: Serving) -> tuple[str, ...]:
    """The references of the policies that can answer now."""
    return (serving.ref, serving.canary) if serving.canary else (serving.ref,)
