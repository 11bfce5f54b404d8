"""Many decisions considered at once, each exactly as `Project.consider` would: for servers that group what comes in.

Those that share policy and candidates are scored in one call, whose rows equal the single calls bit for bit; so replay,
propensities and evidence cannot tell the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import unpack
from typing import TYPE_CHECKING, NamedTuple

from headway.nouns.errors import HeadwayError
from headway.nouns.ids import decision_id, parse_decision_id
from headway.nouns.records import Candidate, Decision, Situation
from headway.project.inputs import Details, Offer, situation_of

if TYPE_CHECKING:
    from headway.project.facade import Project
    from headway.project.serving import Serving

__all__ = ["Ask", "Considered", "consider_many"]

Considered = tuple[Decision, "Serving", bool]


class Ask(NamedTuple):
    """What `consider` takes."""

    task: str
    text: str
    candidates: Iterable[Offer] | None
    details: Details


@dataclass(slots=True)
class _Group:
    serving: Serving
    offered: tuple[Candidate, ...]
    places: list[int]
    situations: list[Situation]
    seeds: list[int]


def consider_many(project: Project, asks: Sequence[Ask]) -> list[Considered | HeadwayError]:
    """A considered decision per ask, or what is wrong with that one; nothing is stored."""
    found: list[Considered | HeadwayError | None] = [None] * len(asks)
    groups: dict[tuple[int, int], _Group] = {}
    servings: dict[str, tuple[Serving, Sequence[str], bool]] = {}
    seeds = unpack(f"<{len(asks)}Q", os.urandom(8 * len(asks)))
    for place, ask in enumerate(asks):
        details = ask.details
        try:
            known = servings.get(ask.task)
            if known is None:
                known = servings[ask.task] = _serving(project, ask.task)
            serving, actions, mixes = known
            if mixes or details.get("episode") is not None:
                found[place] = project.consider(ask.task, ask.text, ask.candidates, **details)
                continue
            offered = project.offers.candidates(ask.task, ask.candidates, actions)
            situation = situation_of(ask.task, ask.text, details, project.redact)
            if (identifier := details.get("id")) is not None:
                parse_decision_id(identifier)
        except HeadwayError as error:
            found[place] = error
            continue
        group = groups.get((id(serving), id(offered)))
        if group is None:
            group = groups[id(serving), id(offered)] = _Group(serving, offered, [], [], [])
        group.places.append(place)
        group.situations.append(situation)
        group.seeds.append(seeds[place])
    for group in groups.values():
        try:
            _decide(project, group, asks, found)
        except HeadwayError as error:
            for place in group.places:
                found[place] = error
    return [each for each in found if each is not None]


def _serving(project: Project, task: str) -> tuple[Serving, Sequence[str], bool]:
    """A task's serving and actions, and whether rows may be acted on in different ways: by a canary, or by a fallback
    that some of them get.
    """
    settings = project.settings.task(task)
    serving = project.servings.of(settings)
    pipeline = serving.pipeline
    unsure = pipeline.fallback is not None and pipeline.confidence_floor > 0.0
    return serving, settings.actions, pipeline.canary is not None or unsure


def _decide(
    project: Project, group: _Group, asks: Sequence[Ask], found: list[Considered | HeadwayError | None]
) -> None:
    serving, offered, seeds = group.serving, group.offered, group.seeds
    draws = serving.pipeline.draw(group.situations, offered, seeds)
    now = round(project.clock() * 1e6) / 1e6  # as the store keeps it
    source = project._source_of({})
    noise = os.urandom(8 * len(seeds))
    for row, (place, situation, seed, draw) in enumerate(
        zip(group.places, group.situations, seeds, draws, strict=True)
    ):
        details = asks[place].details
        identifier = details.get("id")
        decision = Decision(
            id=decision_id(now, noise[8 * row : 8 * row + 8]) if identifier is None else parse_decision_id(identifier),
            situation=situation,
            candidates=offered,
            probabilities=draw.probabilities,
            action=offered[draw.chosen].name,
            propensity=draw.propensity,
            policy=serving.ref,
            policy_hash=serving.digest,
            config_hash=serving.config_hash,
            encoder=serving.encoder,
            exploration=draw.exploration,
            seed=seed,
            at=now,
            source=source if "source" not in details else project._source_of(details),
            state_seq=serving.state_seq,
            key=details.get("key", ""),
        )
        found[place] = (decision, serving, False)
