"""Who answers in a reply task: the current policy, and a canary on its share of the conversations.

A reply's candidates are the policies that could have written it, and its action is the one that did. The policies
themselves are held by a worker: choosing among them needs their references only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from headway.decide import Pipeline, baseline
from headway.nouns import PolicyRef, errors
from headway.project import Ask, Offer, Project
from headway.settings import TaskSettings


def answering(servings: object, task: str, body: Mapping[str, Any], ref: str, digest: str) -> Pipeline:
    """The pipeline of a reply task under a configuration body: the current policy, or the canary on its share."""
    del servings, digest
    if PolicyRef.parse(ref).built_in and ref != "base@0":
        raise errors.UnknownName(
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


def offers(project: Project, settings: TaskSettings, ask: Ask) -> tuple[Iterable[Offer], int | None]:
    """Who can answer now, unless the caller says whom to compare; and the seed of the conversation.

    The same policy answers all of a conversation while the shares stay as they are. Unlike the decisions of a sticky
    episode, its replies have outcomes of their own.
    """
    candidates, episode = ask.candidates, ask.details.get("episode")
    if candidates is None:
        serving = project.servings.of(settings)
        candidates = (serving.ref, serving.canary) if serving.canary else (serving.ref,)
    if episode is None:
        return candidates, None
    return candidates, int.from_bytes(hashlib.sha256(f"{ask.task}\0{episode}".encode()).digest()[:8], "little")
