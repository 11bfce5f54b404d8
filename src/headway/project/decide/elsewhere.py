"""Checks decisions made elsewhere, so that evidence can use them."""

from __future__ import annotations

import math

from headway.nouns import ELSEWHERE, Candidate, Decision, PolicyRef, Situation, Source, errors
from headway.project.decide.inputs import checked_time


def recorded(
    situation: Situation,
    candidates: tuple[Candidate, ...],
    *,
    action: str,
    propensity: float | None,
    probabilities: tuple[float, ...] | None,
    policy: str,
    at: float,
    id: str,
    key: str,
    source: Source,
) -> Decision:
    """The decision as a record; an impossible action or probability is an InvalidInput and nothing is stored."""
    names = [candidate.name for candidate in candidates]
    if action not in names:
        raise errors.UnknownName(
            f"{action!r} is not among the candidates.", code="unknown_action", hint=errors.did_you_mean(action, names)
        )
    index = names.index(action)
    if probabilities is None:
        if propensity is None:
            raise errors.InvalidInput(
                "A recorded decision needs the probability that it was made with.",
                code="missing_propensity",
                hint="Pass propensity=… or probabilities=[…]; a deterministic choice has propensity 1.0.",
            )
        probabilities = _spread(propensity, index, len(names))
    _check(probabilities, index, propensity, len(names))
    return Decision(
        id=id,
        situation=situation,
        candidates=candidates,
        probabilities=probabilities,
        action=action,
        propensity=probabilities[index],
        policy=str(PolicyRef.parse(policy)),
        policy_hash="",
        config_hash=ELSEWHERE,
        encoder="",
        exploration="elsewhere",
        seed=0,
        at=checked_time(at),
        source=source,
        key=key,
    )


def _spread(propensity: float, index: int, count: int) -> tuple[float, ...]:
    _possible(propensity, "propensity")
    rest = (1.0 - propensity) / (count - 1) if count > 1 else 0.0
    return tuple(propensity if place == index else rest for place in range(count))


def _check(probabilities: tuple[float, ...], index: int, propensity: float | None, count: int) -> None:
    if len(probabilities) != count:
        raise errors.InvalidInput(
            f"There are {len(probabilities)} probabilities for {count} candidates.", code="bad_propensity"
        )
    for value in probabilities:
        if not isinstance(value, (int, float)) or not math.isfinite(value) or not 0.0 <= value <= 1.0:
            raise errors.InvalidInput(f"A probability is {value!r}, expected 0 to 1.", code="bad_propensity")
    if abs(math.fsum(probabilities) - 1.0) > 1e-6:
        raise errors.InvalidInput(
            f"The probabilities sum to {math.fsum(probabilities)!r}, expected 1.",
            code="bad_propensity",
            hint="With a propensity below 1 there must be another candidate that could have been chosen.",
        )
    _possible(probabilities[index], "propensity")
    if propensity is not None and abs(probabilities[index] - propensity) > 1e-9:
        raise errors.InvalidInput(
            f"The propensity {propensity!r} is not the action's probability {probabilities[index]!r}.",
            code="bad_propensity",
        )


def _possible(propensity: float, name: str) -> None:
    if not isinstance(propensity, (int, float)) or not math.isfinite(propensity) or not 0.0 < propensity <= 1.0:
        raise errors.InvalidInput(
            f"The {name} is {propensity!r}, expected above 0 and at most 1.",
            code="bad_propensity",
            hint="It is the probability with which this action was chosen among the candidates.",
        )
