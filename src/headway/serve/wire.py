"""Requests and answers as types. Requests reject unknown fields; /openapi.json is generated from both."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.serve.endpoints import strict

NAME = "[a-z0-9][a-z0-9_.-]{0,63}"
LARGEST = 2**53  # beyond it, JSON numbers of other languages lose digits


def matching(pattern: str = NAME, longest: int = 64, description: str | None = None) -> Meta:
    """A text that matches the pattern completely: Python's `$` would allow a line break at the end."""
    schema = {"pattern": f"^{pattern}$"}
    return Meta(pattern=rf"^{pattern}\Z", max_length=longest, description=description, extra_json_schema=schema)


Task = Annotated[
    str,
    matching(NAME, 64, "A kind of decision; created on first use unless headway.toml declares tasks."),
]
Text = Annotated[str, Meta(max_length=1_000_000, description="The situation to decide in, as text.")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Arm = Annotated[str, Meta(min_length=1, max_length=2000)]
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Value = bool | Whole | float | str | Annotated[list[float], Meta(max_length=10_000)]
State = dict[Name, Value]
SignalName = Annotated[str, Meta(min_length=1, max_length=64)]
# null withdraws a signal of the same key
Signals = Annotated[dict[SignalName, bool | float | None], Meta(min_length=1, max_length=100)]

ClientId = Annotated[str, Meta(max_length=80, description="Your own UUID: repeating the request is safe.")]


First = Annotated[str, Meta(max_length=80, description="The first decision of a request; this is a later attempt.")]
Idempotency = Annotated[
    Name, Meta(description="Your own name of the request: repeating it with the same name gives the stored decision.")
]


class CandidateBody(strict):
    """A candidate with features: text and numbers."""

    name: Arm
    features: State = msgspec.field(default_factory=dict)


Candidates = Annotated[list[Arm | CandidateBody], Meta(min_length=1, max_length=10_000)]


Allowed = Annotated[
    list[bool | Name],
    Meta(max_length=1000, description="The names of the choices that are allowed, or true and false by choice."),
]
Masks = Annotated[
    dict[Name, Allowed | dict[Name, Allowed]],
    Meta(
        max_length=64,
        description="Actions of several heads: what each allows now, or what it allows by the choice of the first one.",
    ),
]


class DecisionRequest(strict):
    """A decision to make. The client cannot choose the policy or the probability."""

    task: Task
    text: Text = ""
    candidates: Candidates | None = None
    state: State | None = None
    episode: Name | None = None
    step: Annotated[int, Meta(ge=0, le=LARGEST - 1)] | None = None
    role: Annotated[str, Meta(max_length=200)] = ""
    id: ClientId | None = None
    idempotency_key: Idempotency | None = None
    unit: First | None = None
    position: Annotated[int, Meta(ge=1, lt=2**31, description="The number of that attempt; 1 if omitted.")] | None = (
        None
    )
    masks: Masks | None = None


class HeadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One head of an action: its choice, and what it was drawn from, given the choice of the first head."""

    choice: str
    index: int
    propensity: Annotated[float, Meta(gt=0.0, le=1.0)]
    probabilities: dict[str, float]
    allowed: list[str]


class DecisionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A decision; it is durably logged before the answer is sent. `heads` and `step` only where an action has heads."""

    id: str
    action: str
    propensity: Annotated[float, Meta(gt=0.0, le=1.0)]
    policy: str
    heads: dict[str, HeadAnswer] | msgspec.UnsetType = msgspec.UNSET
    step: int | msgspec.UnsetType | None = msgspec.UNSET


class DecisionBatch(strict):
    decisions: Annotated[list[DecisionRequest], Meta(min_length=1, max_length=1000)]


class DecisionsAnswer(msgspec.Struct, frozen=True):
    decisions: list[DecisionAnswer]


class SignalItem(strict):
    """Signals about one decision or episode."""

    subject: Annotated[str, Meta(max_length=80)]
    signals: Signals
    label: Annotated[str, Meta(max_length=200)] = ""
    key: Annotated[str, Meta(max_length=200, description="Repeating the key counts once.")] = ""


class SignalBatch(strict):
    signals: Annotated[list[SignalItem], Meta(min_length=1, max_length=1000)]
    early: Annotated[bool, Meta(description="Decisions may not have arrived yet; their signals wait for them.")] = False


class SignalsAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    new: int
    warnings: Annotated[list[str], Meta(description="Signals that nothing reads, one sentence each.")] = []


def described(offers: list[Any] | None) -> list[Any] | None:
    """The candidates for the project."""
    if offers is None:
        return None
    return [
        offer if isinstance(offer, str) else {**offer.features, "name": offer.name} if offer.features else offer.name
        for offer in offers
    ]
