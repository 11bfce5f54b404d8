"""Checks the arguments of callers before anything happens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from headway.nouns import SOURCES, Candidate, PolicyRef, Situation, Source, State, Value, errors, ids
from headway.observe import Query, Redactor

Offer = str | Candidate | Mapping[str, Any]
_MOST_CANDIDATES = 10_000
_MOST_TEXT = 1_000_000
_NOTHING: State = {}
UNNAMED = {"key", "source", "state", "role", "episode", "step"}  # fields that give a decision no id
_ASIDE = {"key", "id", "source", "idempotency_key", "unit", "position", "draw"}  # fields that a policy does not see


class Details(TypedDict, total=False):
    """Optional arguments of a decision, besides its text and its candidates."""

    state: Mapping[str, Any] | None  # numbers, booleans, short texts, short sequences of numbers
    episode: str | None
    step: int | None
    role: str
    masks: Mapping[str, Any] | None  # tasks of several heads: what each allows now
    id: str | None  # supplied by the client: the same id twice is the same decision
    key: str
    source: Source
    idempotency_key: str | None  # the client's name of the request: the same one twice is the same decision
    unit: str | None  # the first decision of the request that this one is a later attempt of
    position: int | None  # the number of that attempt, from 1
    draw: str  # the decision whose draw it belongs to: set by `of_unit`


def situation_of(task: str, text: str, details: Details, redact: Redactor) -> Situation:
    """The policy's input, checked and redacted: no later code sees a secret."""
    clean = redact(checked_text(text))
    if details.keys() <= _ASIDE:  # the usual case, on the path of every served decision
        return Situation(task=task, text=clean, state=_NOTHING)
    episode = details.get("episode")
    state = checked_state(details.get("state"))
    return Situation(
        task=task,
        text=clean,
        state=redact.state(state) if state else state,
        episode=None if episode is None else checked_name("episode", episode),
        step=_step(details.get("step")),
        role=details.get("role", ""),
    )


def named_id(query: Query, task: str, details: Details) -> str | None:
    """The id that a caller gives a decision: itself, by an idempotency key, or by its place in a request."""
    identifier, name = details.get("id"), details.get("idempotency_key")
    if identifier is not None and name is None:
        return ids.parse_decision(identifier)
    if name is not None:
        if identifier is not None:
            raise errors.InvalidInput("A decision has an id or an idempotency_key, not both.", code="bad_id")
        return query.keyed_id(task, details.get("key", ""), checked_name("request", name))
    if (unit := details.get("unit")) is not None and (position := details.get("position")):
        return query.keyed_id(task, details.get("key", ""), f"{unit}\0{position}")
    return None


class Offers:
    """Turns offers into candidates; equal offers give the same tuple, which later rooms intern."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._known: dict[tuple[object, ...], tuple[Candidate, ...]] = {}

    def candidates(self, task: str, offers: Iterable[Offer] | None, declared: Sequence[str]) -> tuple[Candidate, ...]:
        names = tuple(declared if offers is None else offers)
        key = (task, *names)
        try:
            known = self._known.get(key)
        except TypeError:  # described candidates are dictionaries
            return self._redact.candidates(_checked(task, names, declared))
        if known is None:
            known = self._redact.candidates(_checked(task, names, declared))
            if len(self._known) > 4096:
                self._known.clear()
            self._known[key] = known
        return known


def _checked(task: str, offers: Sequence[Offer], declared: Sequence[str]) -> tuple[Candidate, ...]:
    if not offers:
        raise errors.InvalidInput(
            f"There is nothing to choose from in {task!r}.",
            code="no_candidates",
            hint="Pass candidates, or declare `actions` for the task in headway.toml.",
        )
    if len(offers) > _MOST_CANDIDATES:
        raise errors.InvalidInput(
            f"{len(offers):,} candidates are more than the {_MOST_CANDIDATES:,} that one decision may have.",
            code="too_many_candidates",
        )
    candidates = tuple(_candidate(offer) for offer in offers)
    names = [candidate.name for candidate in candidates]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.InvalidInput(f"The candidate {twice!r} is offered twice.", code="duplicate_candidate")
    for name in names:
        if declared and name not in declared:
            raise errors.UnknownName(
                f"{name!r} is not an action of the task {task!r}.",
                code="unknown_action",
                hint=errors.did_you_mean(name, declared),
            )
    return candidates


def _candidate(offer: Offer) -> Candidate:
    if isinstance(offer, Candidate):
        return offer
    if isinstance(offer, str):
        name, features = offer, _NOTHING
    elif isinstance(offer, Mapping):
        name = str(offer.get("name") or offer.get("description") or "")
        features = checked_state({key: value for key, value in offer.items() if key != "name"})
    else:
        raise errors.InvalidInput(
            f"A candidate is {offer!r}, expected a name or a table with a name.", code="bad_candidate"
        )
    if not name or len(name) > 2000 or "\0" in name:
        raise errors.InvalidInput(
            f"{name[:80]!r} cannot name a candidate.", code="bad_candidate", hint="Use 1 to 2,000 characters."
        )
    return Candidate(name, features)


def checked_text(text: str) -> str:
    if not isinstance(text, str) or len(text) > _MOST_TEXT or "\0" in text:
        raise errors.InvalidInput(
            f"The text is {type(text).__name__} {str(text)[:40]!r}…, expected at most {_MOST_TEXT:,} characters "
            "without a NUL.",
            code="bad_text",
        )
    return text


def checked_state(state: Mapping[str, Any] | None) -> State:
    """Numbers, booleans, short texts and short sequences of numbers, all finite."""
    if not state:
        return _NOTHING
    return {_name(name): _value(name, value) for name, value in state.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name or len(name) > 200:
        raise errors.InvalidInput(f"{name!r} cannot name a state variable.", code="bad_state")
    return name


def _value(name: str, value: Any) -> Value:
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return _finite(name, value)
    if isinstance(value, Sequence) and len(value) <= 10_000:
        return [_finite(name, number) for number in value]
    if hasattr(value, "tolist"):  # a numpy scalar or array
        return _value(name, value.tolist())
    raise errors.InvalidInput(
        f"The state variable {name!r} is a {type(value).__name__}.",
        code="bad_state",
        hint="Use a number, a boolean, a short text or a list of numbers.",
    )


def _finite(name: str, value: Any) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return value
    raise errors.InvalidInput(
        f"The state variable {name!r} holds {value!r}, expected a finite number.",
        code="not_finite",
        hint="Omit unknown values.",
    )


def checked_time(at: float) -> float:
    if not isinstance(at, (int, float)) or not 0.0 <= at < 1e11:
        raise errors.InvalidInput(f"The time is {at!s:.40}, expected seconds since 1970.", code="bad_time")
    return float(at)


def checked_name(what: str, name: str) -> str:
    if not isinstance(name, str) or not name or len(name) > 200 or "\0" in name:
        raise errors.InvalidInput(
            f"{str(name)[:80]!r} cannot name a {what}.", code="bad_name", hint="Use 1 to 200 characters."
        )
    return name


def _step(step: int | None) -> int | None:
    if step is not None and (not isinstance(step, int) or not 0 <= step < 2**53):
        raise errors.InvalidInput(f"The step is {step!r}, expected a whole number from 0.", code="bad_step")
    return step


def checked_source(source: str) -> Source:
    if source not in SOURCES:
        raise errors.InvalidInput(f"The source is {source!r}, expected one of {', '.join(SOURCES)}.", code="bad_source")
    return source


def is_comparison(candidates: Sequence[Candidate]) -> bool:
    """Whether this is a choice between two policies: which of them a voter is shown first."""
    return len(candidates) == 2 and all(PolicyRef.matches(candidate.name) for candidate in candidates)
