"""Stored records: situations, candidates, decisions, signals, outcomes, episodes.

A `Decision` has everything that evidence needs later: the candidate set, the full probability vector used for the draw,
the seed of the draw, and the content hashes of policy and configuration. Records are never updated in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeVar, dataclass_transform

from headway.nouns.wire import Internal

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    shut: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    assert shut.__bases__ == (object,), f"{cls.__name__} inherits"
    assert not hasattr(shut, "__post_init__"), f"{cls.__name__} has a __post_init__"
    known: dict[str, Any] = {
        "_shut": shut,
        "_open": type(cls.__name__, (), {"__slots__": shut.__slots__}),
        "_set": object.__setattr__,
        "_missing": MISSING,
    }
    parameters, lines = [], ["_set(self, '__class__', _open)"]
    for one in fields(shut):
        name = one.name
        line = f"self.{name} = {name}"
        if one.default is not MISSING:
            known[f"_{name}"] = one.default
            parameters.append(f"{name}=_{name}")
        elif one.default_factory is not MISSING:
            known[f"_{name}"] = one.default_factory
            parameters.append(f"{name}=_missing")
            line += f" if {name} is not _missing else _{name}()"
        else:
            parameters.append(name)
        lines.append(line)
    lines.append("self.__class__ = _shut")
    body = "\n    ".join(lines)
    exec(f"def __init__(self, *, {', '.join(parameters)}):\n    {body}\n", known)  # as dataclasses does
    made = known["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = shut.__init__.__annotations__
    shut.__init__ = made
    result: type[T] = shut
    return result


Value = bool | int | float | str | Sequence[float]
State = Mapping[str, Value]
Source = Literal["real", "synthetic", "mined", "imported"]
SOURCES: tuple[Source, ...] = ("real", "synthetic", "mined", "imported")
Status = Literal["pending", "rewarded", "failed", "censored"]
Ending = Literal["terminated", "truncated"]
ELSEWHERE = "elsewhere"  # in place of the hash of a configuration: Headway did not draw this decision
OWN_RATERS = ("", "owner", "page", "proxy:")  # this machine, the project token, its page, the server's measurements


def is_own(rater: str) -> bool:
    """Whether this rater is the project itself; keys cannot have these names. `world:NAME` signs sample data."""
    return rater in OWN_RATERS or rater.startswith("world:")


class Reader(NamedTuple):
    """Who asks for stored texts: a key; or with `everything` the owner, or a key that may train."""

    key: str = ""
    everything: bool = False

    def may_read(self, writer: str) -> bool:
        """The one rule on whose text it is: that of its key. Every route and every prompt asks here."""
        return self.everything or (writer == self.key and bool(writer))


OWNER = Reader(everything=True)


@record
class Situation:
    """What a policy sees: text, typed state, or both, and its place in an episode."""

    task: str
    text: str = ""
    state: State = field(default_factory=dict)
    episode: str | None = None
    step: int | None = None
    role: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """A kit's own data for a decision, under a name; at most 1 MiB."""

    kit: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible action. `features` describe it if its name is not enough."""

    name: str
    features: State = field(default_factory=dict)


@record
class Decision:
    """One choice, with the exact probability of every candidate."""

    id: str
    situation: Situation
    candidates: tuple[Candidate, ...]
    probabilities: tuple[float, ...]  # aligned with the candidates; empty if unknown (imported history)
    action: str
    propensity: float  # 0.0 if unknown: a choice never has probability 0
    policy: str  # the reference, "bandit@4f2a"
    policy_hash: str
    config_hash: str
    encoder: str
    exploration: str
    seed: int
    at: float  # seconds since the epoch, UTC
    source: Source = "real"
    draw_id: str = ""  # the decision that settles for this one: a sticky episode's draw, a request's first attempt
    assigned: str = ""  # under a canary: the policy assigned to this draw
    state_seq: int = 0  # online families: the last settled row in the state that decided
    key: str = ""  # name of the API key of the request
    unit: str = ""  # what shares one outcome with others: the first decision of its request, or its episode
    position: int = 0  # in the unit: the number of the attempt or step; only the first one, 0, counts
    seq: int = 0  # order in the store; 0 until stored

    @property
    def task(self) -> str:
        return self.situation.task

    @property
    def propensity_known(self) -> bool:
        """Whether evidence can use it, which needs the probability of the choice."""
        return bool(self.probabilities)

    @property
    def claimed(self) -> bool:
        """Whether something else made it, and its probabilities are what a client or a file says."""
        return self.config_hash == ELSEWHERE

    @property
    def index(self) -> int:
        """The index of the chosen action among the candidates."""
        for index, candidate in enumerate(self.candidates):
            if candidate.name == self.action:
                return index
        raise AssertionError(f"{self.action!r} is not among the candidates")


@record
class Signal:
    """A named number (or label) about how a decision or an episode went, from one rater."""

    subject: str  # a decision id "dec_…" or an episode id "epi_…"
    name: str
    value: float | None  # None withdraws the rater's earlier value
    label: str = ""
    rater: str = ""
    key: str = ""  # idempotency key; if empty, a repeated value counts once and another value replaces it
    at: float = 0.0
    seq: int = 0


@record
class Outcome:
    """The reward of a decision, from its signals under one reward version."""

    status: Status
    reward: float | None
    clipped: bool = False
    weight: Internal[float] = 1.0  # certainty of the reward: below 1 if raters disagree


@record
class Settled:
    """A decision with its outcome, in the order in which outcomes became known."""

    seq: int
    decision: Decision
    reward: float | None
    status: Status
    replaces: int | None = None
    first: int = 0  # the number of the first row that settled this decision, whatever replaced it; 0 if not read
    clipped: bool = False  # the reward lay outside of the task's range
    signals: Mapping[str, float] = field(default_factory=dict)
    weight: float = 1.0  # weight in learning; below 1 if raters disagree
    said: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)  # rater → signals, if several rate

    @property
    def raters(self) -> tuple[str, ...]:
        """The raters behind its reward; empty if there are none, or they were not requested."""
        return tuple(self.said)
