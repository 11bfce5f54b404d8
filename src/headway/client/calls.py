"""Every call to a server, described once: what is sent, how the answer is read, and whether it may be sent again.

`ServerVerbs` has one method per verb. `Client` and `AsyncClient` inherit them: the first sends what a method describes
and returns the answer, the second returns a coroutine of it. No socket is opened here.

A decision is sent with an id that the client made, so that sending it again gives the stored decision.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)
from urllib.parse import quote

from headway.client.answers import Decided
from headway.nouns import Candidate, Ending, catalogue, errors, ids

logger = logging.getLogger("headway.client")
_warned: set[str] = set()  # a warning of the server is told once per process
_MOST_WARNED = 1000
T = TypeVar("T")
P = ParamSpec("P")
Offer = str | Candidate | Mapping[str, Any]
Signals = Mapping[str, float | None]


class DecideOptions(TypedDict, total=False):
    """Optional fields of a decision, besides its text and its candidates."""

    state: Mapping[str, Any] | None
    episode: str | None
    step: int | None
    role: str
    id: str | None
    idempotency_key: str | None  # your name of the request: the same one twice is the same decision
    unit: str | None  # the first decision of the request that this one is a later attempt of
    position: int | None  # the number of that attempt, 1 if omitted
    masks: Mapping[str, Any] | None  # tasks of several heads: what each allows now


class DecideRequest(DecideOptions, total=False):
    """One decision of a batch."""

    task: str
    text: str
    candidates: Iterable[Offer] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCall(Generic[T]):
    """One request. `read` turns its decoded answer into what the verb returns.

    `repeatable`: it may be sent again after an answer got lost, because the server counts it once.
    """

    method: Literal["GET", "POST"]
    path: str
    read: Callable[[Any], T]
    body: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True

    @classmethod
    def get(cls, path: str, *names: str, read: Callable[[Any], T], **params: Any) -> ServerCall[T]:
        """`path` has a {} for each name; a parameter that is None is left out."""
        given = {name: str(value) for name, value in params.items() if value is not None}
        return cls(method="GET", path=path.format(*map(_segment, names)), params=given, read=read)

    @classmethod
    def post(
        cls, path: str, *names: str, body: Mapping[str, Any], read: Callable[[Any], T], repeatable: bool = True
    ) -> ServerCall[T]:
        """`path` has a {} for each name."""
        where = path.format(*map(_segment, names))
        if body.get("candidates") is not None:
            body = {**body, "candidates": [offer_body(offer) for offer in body["candidates"]]}
        return cls(method="POST", path=where, body=_encoded(body), read=read, repeatable=repeatable)


class ServerVerb(Generic[P, T]):
    """A method that describes a call. A `Client` sends it and returns T, an `AsyncClient` returns a coroutine of T."""

    def __init__(self, describe: Callable[Concatenate[Any, P], ServerCall[T]]) -> None:
        @functools.wraps(describe)
        def send(client: Any, *values: P.args, **named: P.kwargs) -> Any:
            return client._send(describe(client, *values, **named))

        @functools.wraps(describe)
        async def send_async(client: Any, *values: P.args, **named: P.kwargs) -> Any:
            return await client._send(describe(client, *values, **named))

        signature = inspect.signature(describe)
        answer = str(signature.return_annotation).removeprefix("ServerCall[").removesuffix("]")
        for function in (send, send_async):  # help() shows what a caller gets
            vars(function)["__signature__"] = signature.replace(return_annotation=answer)
            function.__annotations__ = {**describe.__annotations__, "return": answer}
        self.__doc__ = describe.__doc__
        self._send, self._send_async = send, send_async

    @overload
    def __get__(self, client: BlockingVerbs, owner: Any) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncVerbs, owner: Any) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: Any) -> Callable[..., Any]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        function = self._send_async if owner.is_async else self._send
        return function if client is None else MethodType(function, client)


class ServerVerbs:
    """The verbs of a project, spoken to its server."""

    is_async: ClassVar[bool]
    url: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    if not TYPE_CHECKING:  # a type checker still finds misspelt verbs

        def __getattr__(self, name: str) -> Any:
            """What a kit's server answers."""
            return catalogue().method("calls", self, name, ServerVerb)

    # -- decide

    @ServerVerb
    def decide(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **details: Unpack[DecideOptions]
    ) -> ServerCall[Decided]:
        """Choose one of the candidates; it is durably logged when this returns.

        The same `id` or `idempotency_key` gives the same answer.
        """
        body = _decision({**details, "task": task, "text": text, "candidates": candidates})
        return ServerCall.post("/v1/decisions", body=body, read=Decided.read)

    @ServerVerb
    def decide_many(self, asks: Iterable[DecideRequest]) -> ServerCall[list[Decided]]:
        """Up to 1,000 decisions at once, each a table of what `decide` takes: all of them are stored, or none."""

        def read(answer: Any) -> list[Decided]:
            return [Decided.read(decision) for decision in answer["decisions"]]

        body = {"decisions": [_decision(ask) for ask in asks]}
        return ServerCall.post("/v1/decisions/batch", body=body, read=read)

    # -- signal

    @ServerVerb
    def signal(
        self,
        /,
        subject: str,
        signals: Signals | None = None,
        *,
        key: str = "",
        label: str = "",
        early: bool = False,
        **named: float | None,
    ) -> ServerCall[int]:
        """Record how a decision or an episode went; None withdraws a signal. Returns how many were new.

        `early`: the decision may not have arrived yet; its signals wait for it.
        """
        values = {**(signals or {}), **named}
        if not values:
            raise errors.InvalidInput(
                "There is no signal to send.", code="no_signal", hint="Name at least one: reward=1.0 or solved=1."
            )
        return _signals({subject: values}, key=key, label=label, early=early)

    @ServerVerb
    def signals(self, values: Mapping[str, Signals]) -> ServerCall[int]:
        """Signals about up to 1,000 decisions or episodes, by id: all are stored, or none. Gives how many were new."""
        return _signals(values)

    def episode(self, task: str, episode: str) -> str:
        """The id by which an episode takes signals; computed here, nothing is sent."""
        return ids.episode(task, episode)

    @ServerVerb
    def end_episode(self, task: str, episode: str, ending: Ending = "terminated") -> ServerCall[None]:
        """End an episode: it accepts no more decisions."""

        def read(_: Any) -> None:
            return None

        body = {"ending": ending}
        return ServerCall.post("/v1/tasks/{}/episodes/{}/end", task, episode, body=body, read=read)

    # -- read

    @ServerVerb
    def explain(self, decision: str) -> ServerCall[dict[str, Any]]:
        """How a decision was made: policy, reason, probabilities and outcome."""
        return ServerCall.get("/v1/decisions/{}", ids.parse_decision(decision), read=dict)

    @ServerVerb
    def status(self) -> ServerCall[dict[str, Any]]:
        """Every task: which policy is current, what waits, how much data there is."""
        return ServerCall.get("/v1/tasks", read=dict)

    @ServerVerb
    def policies(self, task: str | None = None) -> ServerCall[list[dict[str, Any]]]:
        """Every policy that the ledger names, and its state."""
        return ServerCall.get("/v1/policies", task=task, read=lambda answer: list(answer["policies"]))

    @ServerVerb
    def policy(self, reference: str) -> ServerCall[dict[str, Any]]:
        """The header of a policy: what it is, what it was trained on, which baselines it was compared with."""
        return ServerCall.get("/v1/policies/{}", reference, read=dict)

    # -- change who decides

    @ServerVerb
    def promote(
        self,
        policy: str,
        *,
        task: str | None = None,
        trust_keys: Sequence[str] = (),
        trust_claims: bool = False,
        predicts_only: bool = False,
        at_once: bool = False,
    ) -> ServerCall[dict[str, Any]]:
        """Make a policy current on its latest evidence; GateRefused if that is not enough. Needs an admin key.

        `trust_keys`: these keys may decide it alone. `trust_claims`: the evidence may rest on probabilities that a
        client sent. `predicts_only`: better predictions of held-out rows are enough. `at_once`: without steps.
        """
        body: dict[str, Any] = {} if task is None else {"task": task}
        body |= {"trust_claims": True} if trust_claims else {}
        body |= {"predicts_only": True} if predicts_only else {}
        body |= {"at_once": True} if at_once else {}
        if trust_keys:
            body["trust_keys"] = list(trust_keys)
        return ServerCall.post("/v1/policies/{}/promote", policy, body=body, read=dict, repeatable=False)

    @ServerVerb
    def rollback(self, task: str, *, to: str | None = None, why: str = "") -> ServerCall[dict[str, Any]]:
        """Make the previous policy (or `to`) current again. Needs an admin key."""
        body = {"why": why} if to is None else {"why": why, "to": to}
        return ServerCall.post("/v1/tasks/{}/rollback", task, body=body, read=dict, repeatable=False)


class BlockingVerbs(ServerVerbs):
    """A call returns the answer."""

    is_async = False


class AsyncVerbs(ServerVerbs):
    """A call returns a coroutine of the answer."""

    is_async = True


def _signals(values: Mapping[str, Signals], *, key: str = "", label: str = "", early: bool = False) -> ServerCall[int]:
    items = []
    for subject, signals in values.items():
        subject_id = subject if ids.is_episode(subject) else ids.parse_decision(subject)
        item: dict[str, Any] = {"subject": subject_id, "signals": dict(signals)}
        if label:
            item["label"] = label
        # Withdrawing twice is an error: with a key, the server recognises a repetition.
        item_key = key or (f"client-{uuid.uuid4().hex}" if None in signals.values() else "")
        if item_key:
            item["key"] = item_key
        items.append(item)
    body = {"signals": items, "early": True} if early else {"signals": items}
    return ServerCall.post("/v1/signals", body=body, read=_new_signals)


def _new_signals(answer: Mapping[str, Any]) -> int:
    for warning in answer.get("warnings", ()):
        if warning not in _warned and len(_warned) < _MOST_WARNED:
            _warned.add(warning)
            logger.warning("%s", warning)
    return int(answer["new"])


def _decision(ask: Mapping[str, Any]) -> dict[str, Any]:
    known = DecideRequest.__annotations__.keys() | DecideOptions.__annotations__.keys()
    unknown = sorted(ask.keys() - known)
    if unknown or not ask.get("task"):
        raise errors.InvalidInput(
            f"A decision cannot have {unknown[0]!r}." if unknown else "A decision needs a task.",
            code="bad_decision",
            hint=f"Its fields are {', '.join(sorted(known))}.",
        )
    body = {name: value for name, value in ask.items() if value is not None}
    if "candidates" in body:
        body["candidates"] = [offer_body(offer) for offer in body["candidates"]]
    if "id" in body:
        body["id"] = ids.parse_decision(body["id"])
    elif "idempotency_key" not in body and "unit" not in body:  # these name the decision already
        body["id"] = ids.decision(time.time())
    return body


def offer_body(offer: Offer) -> Any:
    if isinstance(offer, str):
        return offer
    if isinstance(offer, Candidate):
        return {"name": offer.name, "features": dict(offer.features)}
    if isinstance(offer, Mapping):
        name = str(offer.get("name") or offer.get("description") or "")
        return {"name": name, "features": {key: value for key, value in offer.items() if key != "name"}}
    raise errors.InvalidInput(
        f"A candidate is {offer!r}, expected a name or a table with a name.", code="bad_candidate"
    )


def _segment(text: str) -> str:
    return quote(text, safe="@")


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, default=_plain, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:  # a lone surrogate is a ValueError too
        raise errors.InvalidInput(
            f"This cannot be sent as JSON: {error}.",
            code="not_json",
            hint="Use finite numbers, booleans, text and lists of numbers; omit unknown values.",
        ) from error


def _plain(value: Any) -> Any:
    """A numpy scalar or array, or a mapping that is not a dict."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not a JSON value")
