"""Results of `explain` and `replay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headway.nouns.records import Outcome, Signal, State
from headway.nouns.wire import IfKnown, Internal, Time

_ROUNDING = 1e-12  # probabilities that differ by no more are the same but for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCandidate:
    """A candidate with its probability then; `predicted` and `std` only if the policy predicts them."""

    name: str
    probability: float | None
    predicted: IfKnown[float] = None
    std: IfKnown[float] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnHead:
    """One head of a stored decision: its choice, and what it was drawn from, given the choice of the first head."""

    name: Internal[str]
    choice: str
    index: int
    propensity: float  # the probability of the choice
    probabilities: Mapping[str, float]  # by choice; 0 where the mask forbids it
    allowed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyText:
    """What was answered, as far as it was kept; `foreign`: by an upstream."""

    text: str
    model: str = ""
    foreign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAttempt:
    """One call of a request: where it went, how it ended, and what it took."""

    id: str
    upstream: str
    at: Time
    propensity: float | None
    status: str  # answered, refused (the request was at fault), failed, left (by the client), interrupted, running
    code: str = ""  # why it failed
    http_status: IfKnown[int] = None
    latency_s: IfKnown[float] = None
    first_token_s: IfKnown[float] = None
    prompt_tokens: IfKnown[int] = None
    completion_tokens: IfKnown[int] = None
    cached_tokens: IfKnown[int] = None
    cost_usd: IfKnown[float] = None  # unknown where the upstream did not say what it counted
    left_out: tuple[str, ...] = ()  # upstreams that were down, and no candidates of this draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How a decision was made: policy, reason, probabilities and outcome."""

    id: str
    task: str
    at: str
    text: str
    state: State
    episode: str | None
    step: int | None
    role: str
    policy: str
    policy_hash: str
    exploration: str
    source: str
    draw: str
    assigned: str
    action: str
    propensity: float | None  # None if it was not recorded
    candidates: tuple[ExplainedCandidate, ...]
    signals: tuple[Signal, ...]
    outcome: Outcome
    parts: Mapping[str, float]  # what each signal adds to the reward
    why: str
    asked_again: Internal[bool]  # whether the same policy could be asked again; if not, `why` names what is missing
    heads: IfKnown[Mapping[str, DrawnHead]] = None  # only of an action of several heads
    reply: IfKnown[ReplyText] = None  # only if the answer was kept
    request: IfKnown[str] = None  # only of a later attempt: the first decision of its request
    attempts: IfKnown[tuple[ExplainedAttempt, ...]] = None  # only of a request
    served: IfKnown[str] = None  # of a request: what answered it in the end; empty: nothing did
    confidence: float | None = None  # if the policy can still be asked, and predicts it

    def __str__(self) -> str:
        return f"{self.id}: {self.action} by {self.policy} ({self.why}); {self.outcome.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAction:
    """An action and its probability when it was chosen."""

    action: str
    propensity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A decision and its replay. `exact`: bit for bit the same; None if something is missing.

    Another processor or library may round the last digit of a probability otherwise: `difference` is the greatest one,
    and `alike` means the same action and no more than rounding.
    """

    id: str
    policy: str
    policy_hash: str
    seed: int
    stored: DrawnAction
    exact: bool | None
    gone: str = ""
    replayed: DrawnAction | None = None
    why: str = ""
    difference: float = 0.0

    @property
    def alike(self) -> bool:
        return bool(self.replayed and self.replayed.action == self.stored.action and self.difference <= _ROUNDING)

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON; with `replayed`, `why` and `difference` if it could be replayed."""
        known = asdict(self)
        if self.replayed is None:
            del known["replayed"], known["why"], known["difference"]
        return known


def most_apart(before: Sequence[float], after: Sequence[float]) -> float:
    """The greatest difference of two lists of probabilities; 1 if they are not of the same choices."""
    if len(before) != len(after):
        return 1.0
    return max((abs(one - other) for one, other in zip(before, after, strict=True)), default=0.0)
