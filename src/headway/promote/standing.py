"""Where a task stands: who is current, who is tested, what the gate says, and how much has settled.

A plain record. `headway.project` fills it from ledger and store; `next_step` and the background loop decide by it, so
that what a person is advised to do, what the loop does and what the gate allows are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.nouns.evidence import Evidence, Verdict
from headway.promote.gate import Admission
from headway.promote.ledger import Entry

__all__ = ["CandidatePolicy", "CurrentPolicy", "Standing"]

_GROWTH = 2  # a tested candidate makes way when 1/_GROWTH of its data has come on top


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPolicy:
    """Who is current by the ledger, whatever HEADWAY_POLICY says for this process."""

    ref: str
    digest: str
    expects: str  # what a change of the ledger must name; empty before the first one


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePolicy:
    """A policy that may replace the current one."""

    task: str
    ref: str
    digest: str
    newest: bool = True  # the one that commands mean when they name none


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A task at one moment."""

    task: str
    current: CurrentPolicy
    acting: Entry | None = None  # the row that made the current policy current, if one did
    canary: Entry | None = None
    candidate: CandidatePolicy | None = None  # the newest, if it is neither current nor retired
    admission: Admission | None = None  # of the candidate
    settled: int = 0
    since: int = 0  # of these, after the newest candidate's mark
    retrain_after: int = 1
    gate: Literal["on", "off"] = "on"
    promote: Literal["ask", "auto"] = "ask"
    canary_share: float = 0.0  # that the loop gives a promising candidate
    has_actions: bool = True  # whether the task declares what can be chosen
    kit_missing: str | None = None  # the family of the current policy, if no kit brings it

    @property
    def verdict(self) -> Verdict | None:
        """On the candidate against the current policy; None: nothing fresh was proven."""
        return self.admission.verdict if self.admission is not None and self.admission.fresh else None

    @property
    def evidence(self) -> Evidence | None:
        """The latest about the candidate, fresh or not."""
        known = None if self.admission is None else self.admission.verdict
        return None if known is None else known.evidence

    @property
    def admitted(self) -> bool:
        """Whether the gate lets the candidate through now."""
        return self.admission is not None and self.admission.state == "admitted"

    @property
    def waits(self) -> bool:
        """For a person: proven, and `promote = "ask"`."""
        return self.promote == "ask" and self.gate == "on" and self.admitted

    @property
    def until_retrain(self) -> int:
        """Settled decisions that are missing before the task is learned again; 0: it is due."""
        return max(0, self.retrain_after - self.since)

    @property
    def learns(self) -> bool:
        """Whether a new candidate is due.

        While one is tested, only when it is proven worse or half as much data again has come in: each further candidate
        makes the gate stricter, and a test that keeps its candidate learns faster.
        """
        if self.until_retrain:
            return False
        if self.candidate is None:
            return True
        if self.verdict is None:
            return False  # every candidate is judged before another one takes its place
        return self.verdict.state == "worse" or self.since * _GROWTH >= self.settled - self.since
