"""What `prove` returns and what the gate decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

__all__ = ["Diagnostic", "Estimate", "Evidence", "EvidenceKind", "Guard", "Plan", "Rater", "Verdict", "VerdictState"]

EvidenceKind = Literal["log", "preference", "world", "heldout"]
VerdictState = Literal["pass", "wait", "refused", "worse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval, and how much data stands behind it."""

    value: float
    low: float
    high: float
    n: int
    ess: float
    method: str = "dr"
    level: float = 0.95

    def __str__(self) -> str:
        return (
            f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]  {self.method}  n={self.n:,}  ESS={self.ess:,.0f}"
        )

    def _repr_html_(self) -> str:
        return f"<code>{escape(str(self))}</code>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One check of the data. `blocks` means: no verdict is given on such data."""

    name: str
    value: float
    limit: float
    ok: bool
    blocks: bool
    message: str
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A metric that must not get worse by more than its tolerance (cost, latency, failures, a segment)."""

    name: str
    difference: Estimate
    tolerance: float
    ok: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A registered test: the decisions it may use, fixed before they are looked at."""

    horizon: int
    uplift: float
    power: float
    alpha: float
    margin: float = 0.0
    from_seq: int = 0  # the settled row after which the horizon counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Rater:
    """How much of an evidence comes from one rater, and what the rule says without what it said.

    A decision that several rated counts under each of them, so that shares may add up to more than 1. Without a rater,
    decisions that others rated too count with their reward alone, and those that it alone rated tell nothing.
    """

    name: str  # the key's; "" is this machine, without a key
    rows: int  # scored decisions whose reward it gave, alone or with others
    share: float  # of all scored decisions
    uplift: float | None  # the share of what speaks for the candidate that goes without it; may be over 1, or below 0
    own: bool = False  # the project itself: it never decides
    others: int = 0  # scored decisions that are left without it
    statistic: float = 0.0  # without it
    threshold: float = 0.0  # without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything the gate may look at. Two evidences of the same data hash and policies are equal."""

    task: str
    kind: EvidenceKind
    candidate: str
    candidate_hash: str
    against: str
    against_hash: str
    n: int
    difference: Estimate  # for display: candidate minus current
    values: Mapping[str, Estimate]  # candidate, current, behaviour, constants …
    statistic: float  # what the rule compares: Σ score − margin·n, or log E
    threshold: float
    rule: str  # "registered horizon 20000", "confidence sequence", "e-process"
    alpha: float
    challenger: int = 1  # the k-th candidate since the last promotion
    diagnostics: Sequence[Diagnostic] = ()
    guards: Sequence[Guard] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  # rewarded, failed, censored, pending, by source
    needed: int | None = None  # decisions still needed for 80% power at the observed effect
    plan: Plan | None = None
    curve: Sequence[tuple[int, float, float, float]] = ()  # n, mean, gate's lower bound, upper: for the plot
    reward_version: str = ""
    data_hash: str = ""
    seed: int = 0
    id: str = ""
    margin: float = 0.0  # the candidate must be better by more than this
    statistic_worse: float = 0.0  # the same rule turned round: above the threshold, it is proven worse
    bounds: tuple[float, float] | None = None  # what the gate's own rule leaves possible, as a difference
    ended: bool = False  # the registered horizon is used up: no later look can pass
    command: str = ""  # recomputes this evidence from the stored hashes
    notes: Sequence[str] = ()
    raters: Sequence[Rater] = ()  # who gave the rewards, most first
    trusted: Sequence[str] = ()  # keys that may decide it: named by hand when it was proven

    def deciding(self) -> tuple[str, ...]:
        """Keys without each of which the candidate would not pass: too little is left, or it speaks otherwise."""
        if self.statistic <= self.threshold:
            return ()
        least = max((each.limit for each in self.diagnostics if each.name == "rows"), default=1.0)
        return tuple(
            each.name
            for each in self.raters
            if not each.own and (each.others < least or each.statistic <= each.threshold)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the candidate may be promoted, and why, in sentences."""

    state: VerdictState
    reasons: tuple[str, ...]
    hint: str = ""
    evidence: Evidence | None = None

    @property
    def passed(self) -> bool:
        return self.state == "pass"

    def __str__(self) -> str:
        word = {"pass": "PASS", "wait": "WAIT", "refused": "REFUSED", "worse": "WORSE"}[self.state]
        if self.evidence is None:
            return f"{word}: {' '.join(self.reasons)}"
        return f"{self.evidence.difference} against {self.evidence.against}: {word}"

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        return f"<p><b>{escape(str(self))}</b></p><ul>{items}</ul>"
