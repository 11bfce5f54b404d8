"""What is written down: situations, candidates, decisions, signals, outcomes, episodes.

A `Decision` carries everything that evidence needs later: the candidate set, the full probability vector that was acted
from, the seed of the draw, and the content hashes of policy and configuration. Nothing here is ever updated in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headway.nouns.record import record

__all__ = [
    "OWN_RATERS",
    "SOURCES",
    "Candidate",
    "Decision",
    "Detail",
    "Ending",
    "Outcome",
    "Settled",
    "Signal",
    "Situation",
    "Source",
    "State",
    "Status",
    "Value",
    "is_own",
]

Value = bool | int | float | str | Sequence[float]
State = Mapping[str, Value]
Source = Literal["real", "synthetic", "mined", "imported"]
SOURCES: tuple[Source, ...] = ("real", "synthetic", "mined", "imported")
Status = Literal["pending", "rewarded", "failed", "censored"]
Ending = Literal["terminated", "truncated"]
OWN_RATERS = ("", "owner", "page", "proxy:")  # this machine, the project token, its page, what the server measures


def is_own(rater: str) -> bool:
    """Whether the project itself rates: none of these names can be a key's. `world:NAME` signs sample data."""
    return rater in OWN_RATERS or rater.startswith("world:")


@record
class Situation:
    """What a policy sees: words, typed state, or both, and where in an episode it stands."""

    task: str
    text: str = ""
    state: State = field(default_factory=dict)
    episode: str | None = None
    step: int | None = None
    role: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """Something that a kit keeps beside a decision, under a name of its own; at most 1 MiB."""

    kit: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible action. `features` describe it in words and numbers where a name alone says too little."""

    name: str
    features: State = field(default_factory=dict)


@record
class Decision:
    """One choice, with the exact probability of every candidate under everything that was random in it."""

    id: str
    situation: Situation
    candidates: tuple[Candidate, ...]
    probabilities: tuple[float, ...]  # aligned with the candidates; empty: nobody knows (imported history)
    action: str
    propensity: float  # 0.0 where it is not known: no choice that was made had probability 0
    policy: str  # the reference, "bandit@4f2a"
    policy_hash: str
    config_hash: str
    encoder: str
    exploration: str
    seed: int
    at: float  # seconds since the epoch, UTC
    source: Source = "real"
    draw_id: str = ""  # a later decision of a sticky episode repeats this draw; empty: it drew itself
    assigned: str = ""  # under a canary: the policy that this draw was assigned to
    state_seq: int = 0  # online families: the settled row up to which the acting state had been folded
    key: str = ""  # the API key it came with, by name
    seq: int = 0  # the store's own order; 0 until stored

    @property
    def task(self) -> str:
        return self.situation.task

    @property
    def propensity_known(self) -> bool:
        """Whether evidence can rest on it: without the probability that it was made with, none can."""
        return bool(self.probabilities)

    @property
    def index(self) -> int:
        """Where the chosen action stands among the candidates."""
        for index, each in enumerate(self.candidates):
            if each.name == self.action:
                return index
        raise AssertionError(f"{self.action!r} is not among the candidates")


@record
class Signal:
    """A named number (or label) about how a decision or an episode went, from one rater."""

    subject: str  # a decision id "dec_…" or an episode id "epi_…"
    name: str
    value: float | None  # None: this row withdraws the rater's earlier value
    label: str = ""
    rater: str = ""
    key: str = ""  # idempotency key; empty: the same value twice counts once, another value replaces it
    at: float = 0.0
    seq: int = 0


@record
class Outcome:
    """What the signals of a decision come to under one reward version."""

    status: Status
    reward: float | None
    clipped: bool = False
    weight: float = 1.0  # how surely the reward is known: below 1 where raters disagree


@record
class Settled:
    """A decision with its outcome, in the order in which outcomes became known."""

    seq: int
    decision: Decision
    reward: float | None
    status: Status
    replaces: int | None = None
    signals: Mapping[str, float] = field(default_factory=dict)
    weight: float = 1.0  # how much the row counts in learning; below 1 where raters disagree
    said: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)  # rater → signals, where several rate

    @property
    def raters(self) -> tuple[str, ...]:
        """Who gave the signals that its reward came from; empty where it came from none, or was not asked for."""
        return tuple(self.said)
