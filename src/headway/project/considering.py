"""Many decisions considered at once, each exactly as `Project.consider` would: for servers that group what comes in.

Those that share policy and candidates are scored in one call, whose rows equal the single calls bit for bit; so replay,
propensities and evidence cannot tell the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.decide import explore
from headway.decide.acting import Pipeline
from headway.nouns.errors import HeadwayError
from headway.nouns.ids import decision_id, parse_decision_id
from headway.nouns.records import Candidate, Decision, Situation
from headway.project.inputs import Details, Offer, situation_of

if TYPE_CHECKING:
    from headway.project.facade import Project
    from headway.project.serving import Serving

__all__ = ["Ask", "Considered", "consider_many"]

Considered = tuple[Decision, "Serving", bool]


@dataclass(frozen=True, slots=True)
class Ask:
    """What `consider` takes."""

    task: str
    text: str = ""
    candidates: Iterable[Offer] | None = None
    details: Details = field(default_factory=Details)


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
    random = os.urandom(8 * len(asks))
    for place, ask in enumerate(asks):
        try:
            settings = project.settings.task(ask.task)
            serving = project.servings.of(settings)
            if ask.details.get("episode") is not None or _mixes(serving.pipeline):
                found[place] = project.consider(ask.task, ask.text, ask.candidates, **ask.details)
                continue
            offered = project.offers.candidates(ask.task, ask.candidates, settings.actions)
            situation = situation_of(ask.task, ask.text, ask.details, project.redact)
            if (identifier := ask.details.get("id")) is not None:
                parse_decision_id(identifier)
        except HeadwayError as error:
            found[place] = error
            continue
        group = groups.get((id(serving), id(offered)))
        if group is None:
            group = groups[id(serving), id(offered)] = _Group(serving, offered, [], [], [])
        group.places.append(place)
        group.situations.append(situation)
        group.seeds.append(int.from_bytes(random[8 * place : 8 * place + 8], "little"))
    for group in groups.values():
        try:
            _decide(project, group, asks, found)
        except HeadwayError as error:
            for place in group.places:
                found[place] = error
    return [each for each in found if each is not None]


def _mixes(pipeline: Pipeline) -> bool:
    """Whether rows may be acted on in different ways: by a canary, or by a fallback that some of them get."""
    return pipeline.canary is not None or (pipeline.fallback is not None and pipeline.confidence_floor > 0.0)


def _decide(
    project: Project, group: _Group, asks: Sequence[Ask], found: list[Considered | HeadwayError | None]
) -> None:
    serving, offered = group.serving, group.offered
    pipeline = serving.pipeline
    first = pipeline.distribution(group.situations[0], offered, group.seeds[0])
    rows = [first.probabilities]
    if len(group.places) > 1:
        rows += [*pipeline.distributions(group.situations[1:], offered, group.seeds[1:])]
    now = round(project.clock() * 1e6) / 1e6  # as the store keeps it
    for place, situation, seed, row in zip(group.places, group.situations, group.seeds, rows, strict=True):
        index = explore.draw(row, explore.uniform(seed))
        probabilities = tuple(row.tolist())
        details = asks[place].details
        identifier = details.get("id")
        decision = Decision(
            id=decision_id(now) if identifier is None else parse_decision_id(identifier),
            situation=situation,
            candidates=offered,
            probabilities=probabilities,
            action=offered[index].name,
            propensity=probabilities[index],
            policy=serving.ref,
            policy_hash=serving.digest,
            config_hash=serving.config_hash,
            encoder=serving.encoder,
            exploration=first.exploration,
            seed=seed,
            at=now,
            source=project._source_of(details),
            state_seq=serving.state_seq,
            key=details.get("key", ""),
        )
        found[place] = (decision, serving, False)
