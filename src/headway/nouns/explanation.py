"""Results of `explain`, `replay` and `rank`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headway.nouns.factored import DrawnHead
from headway.nouns.records import Outcome, Signal, State
from headway.nouns.wire import IfKnown, Internal

_Z80 = 1.2815515655446004  # ±1.28 deviations hold 80% of a normal distribution
_ROUNDING = 1e-12  # probabilities that differ by no more are the same but for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCandidate:
    """A candidate with its probability then; `predicted` and `std` only if the policy predicts them."""

    name: str
    probability: float | None
    predicted: IfKnown[float] = None
    std: IfKnown[float] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyText:
    """What was answered, as far as it was kept; `foreign`: by an upstream."""

    text: str
    model: str = ""
    foreign: bool = False


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
    heads: IfKnown[Mapping[str, DrawnHead]] = None  # only of a factored decision
    reply: IfKnown[ReplyText] = None  # only if the answer was kept
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its predicted reward and its uncertainty; `low` to `high` is an 80% interval."""

    name: str
    predicted: float
    std: float | None
    features: Mapping[str, Any] = field(default_factory=dict)

    @property
    def half(self) -> float | None:
        """Half the width of the interval."""
        return None if self.std is None else _Z80 * self.std

    @property
    def low(self) -> float | None:
        return None if self.half is None else self.predicted - self.half

    @property
    def high(self) -> float | None:
        return None if self.half is None else self.predicted + self.half

    @property
    def advice(self) -> str:
        """PROCEED if the whole interval is above 0, SKIP if it is below 0, else NEUTRAL; "" without an interval."""
        if self.low is None or self.high is None:
            return ""
        return "PROCEED" if self.low > 0 else "SKIP" if self.high < 0 else "NEUTRAL"

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON: the candidate's features and the prediction."""
        known: dict[str, Any] = {"name": self.name, "predicted": self.predicted, "std": self.std}
        if self.half is not None:
            known |= {"low": self.low, "high": self.high, "advice": self.advice}
        return {**self.features, **known}
