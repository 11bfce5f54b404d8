"""What each verb sends and how its answer is read; no socket. `Client` and `AsyncClient` both send these.

A decision is sent with an id of ours, so that sending it again gives the stored decision: `repeatable` says which calls
may be sent again after an answer got lost.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypedDict, TypeVar
from urllib.parse import quote

from headway.client.answers import Decided
from headway.nouns.errors import InvalidInput
from headway.nouns.ids import decision_id, is_episode, parse_decision_id
from headway.nouns.records import Candidate, Ending

__all__ = ["Ask", "Call", "Details", "Offer"]

T = TypeVar("T")
Offer = str | Candidate | Mapping[str, Any]
Signals = Mapping[str, float | None]


class Details(TypedDict, total=False):
    """What may be said of a decision beside its text and its candidates."""

    state: Mapping[str, Any] | None
    episode: str | None
    step: int | None
    role: str
    id: str | None


class Ask(Details, total=False):
    """One decision of a batch."""

    task: str
    text: str
    candidates: Iterable[Offer] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request: `read` turns its decoded answer into what the verb gives."""

    method: Literal["GET", "POST"]
    path: str
    read: Callable[[Any], T]
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


def decide(task: str, text: str, candidates: Iterable[Offer] | None, details: Details) -> Call[Decided]:
    body = _ask({**details, "task": task, "text": text, "candidates": candidates})
    return Call(method="POST", path="/v1/decisions", body=_encoded(body), read=Decided.read)


def decide_many(asks: Iterable[Ask]) -> Call[list[Decided]]:
    body = {"decisions": [_ask(each) for each in asks]}

    def read(answer: Any) -> list[Decided]:
        return [Decided.read(each) for each in answer["decisions"]]

    return Call(method="POST", path="/v1/decisions/batch", body=_encoded(body), read=read)


def signals(values: Mapping[str, Signals], *, key: str = "", label: str = "", early: bool = False) -> Call[int]:
    items = []
    for subject, given in values.items():
        item: dict[str, Any] = {"subject": _subject(subject), "signals": dict(given)}
        if label:
            item["label"] = label
        # What is taken back twice is an error, so that a repetition needs a key to be known by.
        used = key or (f"client-{uuid.uuid4().hex}" if None in given.values() else "")
        if used:
            item["key"] = used
        items.append(item)
    body = {"signals": items, "early": True} if early else {"signals": items}
    return Call(method="POST", path="/v1/signals", body=_encoded(body), read=lambda answer: int(answer["new"]))


def end_episode(task: str, episode: str, ending: Ending) -> Call[None]:
    path = f"/v1/tasks/{_segment(task)}/episodes/{_segment(episode)}/end"
    return Call(method="POST", path=path, body=_encoded({"ending": ending}), read=_nothing)


def explain(decision: str) -> Call[dict[str, Any]]:
    return Call(method="GET", path=f"/v1/decisions/{parse_decision_id(decision)}", read=dict)


def status() -> Call[dict[str, Any]]:
    return Call(method="GET", path="/v1/tasks", read=dict)


def policies(task: str | None) -> Call[list[dict[str, Any]]]:
    params = {} if task is None else {"task": task}
    return Call(method="GET", path="/v1/policies", params=params, read=lambda answer: list(answer["policies"]))


def policy(reference: str) -> Call[dict[str, Any]]:
    return Call(method="GET", path=f"/v1/policies/{_segment(reference)}", read=dict)


def promote(reference: str, task: str | None, trust_keys: Sequence[str] = ()) -> Call[dict[str, Any]]:
    body: dict[str, Any] = {} if task is None else {"task": task}
    if trust_keys:
        body["trust_keys"] = list(trust_keys)
    path = f"/v1/policies/{_segment(reference)}/promote"
    return Call(method="POST", path=path, body=_encoded(body), read=dict, repeatable=False)


def rollback(task: str, to: str | None, why: str) -> Call[dict[str, Any]]:
    body = {"why": why} if to is None else {"why": why, "to": to}
    path = f"/v1/tasks/{_segment(task)}/rollback"
    return Call(method="POST", path=path, body=_encoded(body), read=dict, repeatable=False)


def named(values: Signals | None, more: Mapping[str, float | None]) -> dict[str, float | None]:
    found = {**(values or {}), **more}
    if not found:
        raise InvalidInput(
            "There is no signal to send.", code="no_signal", hint="Name at least one: reward=1.0 or solved=1."
        )
    return found


def _ask(ask: Mapping[str, Any]) -> dict[str, Any]:
    known = {*Ask.__annotations__, *Details.__annotations__}
    unknown = sorted(ask.keys() - known)
    if unknown or not ask.get("task"):
        raise InvalidInput(
            f"A decision cannot have {unknown[0]!r}." if unknown else "A decision needs a task.",
            code="bad_decision",
            hint=f"Its fields are {', '.join(sorted(known))}.",
        )
    found = {name: value for name, value in ask.items() if value is not None}
    if "candidates" in found:
        found["candidates"] = [_offer(each) for each in found["candidates"]]
    given = found.get("id")
    found["id"] = decision_id(time.time()) if given is None else parse_decision_id(given)
    return found


def _offer(offer: Offer) -> Any:
    if isinstance(offer, str):
        return offer
    if isinstance(offer, Candidate):
        return {"name": offer.name, "features": dict(offer.features)}
    if isinstance(offer, Mapping):
        name = str(offer.get("name") or offer.get("description") or "")
        return {"name": name, "features": {key: value for key, value in offer.items() if key != "name"}}
    raise InvalidInput(f"A candidate is {offer!r}, expected a name or a table with a name.", code="bad_candidate")


def _subject(subject: str) -> str:
    return subject if is_episode(subject) else parse_decision_id(subject)


def _segment(text: str) -> str:
    return quote(text, safe="@")


def _nothing(_: Any) -> None:
    return None


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, default=_plain, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:  # a lone surrogate is a ValueError too
        raise InvalidInput(
            f"This cannot be sent as JSON: {error}.",
            code="not_json",
            hint="Use finite numbers, booleans, text and lists of numbers; leave out what is not known.",
        ) from error


def _plain(value: Any) -> Any:
    """A numpy scalar or array, a mapping that is no dict."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")
