"""The state of a task: its current policy, its candidate, the gate's verdict, and how much has settled.

A plain record. `headway.project` fills it from ledger and store; `next_step` and the background loop both use it, so
that the advice to a person, the actions of the loop and the gate agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.nouns import CHOICE, Evidence, Kind, RampState, Verdict, errors
from headway.promote.gate import Admission
from headway.promote.ledger import Entry

_GROWTH = 2  # while a candidate is under test, the next one is learned once the data has grown by 1/_GROWTH
_EARLY_GROWTH = 10  # a candidate that is not tested yet, or whose test is over, is replaced after less


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPolicy:
    """The current policy by the ledger, whatever HEADWAY_POLICY sets for this process."""

    ref: str
    digest: str
    expects: str  # the `expects` of the next ledger row; empty before the first one
    since: int = 0  # the ledger row of the last promotion or rollback
    alarmed: bool = False  # whether the task ever had an alarm
    origin: str = ""  # the hash that it started from, if it learns as it decides; else its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePolicy:
    """A policy that may replace the current one."""

    task: str
    ref: str
    digest: str
    newest: bool = True  # the default of commands that name no policy

    @classmethod
    def of(cls, entry: Entry) -> CandidatePolicy:
        """The policy of a ledger row."""
        return cls(task=entry.task, ref=entry.policy, digest=entry.policy_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A task at one moment."""

    task: str
    current: CurrentPolicy
    kind: Kind = CHOICE
    world: str = ""  # in which its policies practise, if they are judged by one
    acting: Entry | None = None  # the row that made the current policy current, if any
    canary: Entry | None = None
    ramp: RampState | None = None  # the promotion that is on its way; `candidate` is its policy then
    alarm: Entry | None = None  # the newest open alarm
    outdated: bool = False  # the newest candidate was learned before the alarm
    candidate: CandidatePolicy | None = None  # the newest, if it is neither current nor retired
    admission: Admission | None = None  # of the candidate
    shadow: Entry | None = None  # learned while the candidate is under test; it is next
    experiment: Entry | None = None  # the row that started the one that runs
    offer: str = ""  # the experiment that a person is asked to start, in words
    settled: int = 0
    votes: int = 0  # how often somebody has compared two policies, if votes judge them
    since: int = 0  # of these, since the newest candidate or shadow
    tested: bool = False  # the candidate's test was charged to the error budget, or its experiment runs
    most: int = 0  # decisions that a test may take
    retrain_after: int = 1
    gate: Literal["on", "off"] = "on"
    promote: Literal["ask", "auto"] = "ask"
    too_young: bool = False  # the evidence on the candidate is of a log younger than `final_after_s`
    final: bool = True  # the log is older now
    canary_share: float = 0.0  # share that the loop gives a promising candidate
    has_actions: bool = True  # whether the task declares what can be chosen
    kit_missing: str | None = None  # the family of the current policy, if no kit provides it
    disputed: Verdict | None = None  # the canary, or else the current policy, is worse, but only by one key's ratings
    answer: str = ""  # why a proof of the candidate can only fail, as its training rows say
    unprovable: errors.HeadwayError | None = None  # why no proof of the candidate can be made now

    @property
    def judged(self) -> int:
        """How much there is by which a candidate is judged: decisions that settled, or votes."""
        return self.votes if self.kind.judged == "votes" else self.settled

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the candidate against the current policy; None without fresh evidence."""
        return self.admission.verdict if self.admission is not None and self.admission.fresh else None

    @property
    def evidence(self) -> Evidence | None:
        """The latest evidence about the candidate, fresh or not."""
        known = None if self.admission is None else self.admission.verdict
        return None if known is None else known.evidence

    @property
    def admitted(self) -> bool:
        """Whether the gate admits the candidate now."""
        return self.admission is not None and self.admission.state == "admitted"

    @property
    def asks(self) -> bool:
        """Whether it is proven by what only a person may accept (`Evidence.reliance`)."""
        return self.admission is not None and self.admission.state == "asks"

    @property
    def waits(self) -> bool:
        """Whether it waits for a person: `promote = "ask"`, a young log, or what only a person may accept."""
        return self.ramp is None and (self.asks or (self.gate == "on" and self.admitted and not self.acts))

    @property
    def acts(self) -> bool:
        """Whether the loop promotes the candidate."""
        return self.ramp is None and self.promote == "auto" and self.admitted and not self.too_young

    @property
    def proven(self) -> bool:
        """Whether the candidate is promoted now or next, by the loop or by a person: nothing takes its place."""
        return self.ramp is not None or self.waits or self.acts

    @property
    def until_retrain(self) -> int:
        """Settled decisions until the task is learned again; 0 if it is due."""
        return max(0, self.retrain_after - self.since)

    @property
    def until_next(self) -> int:
        """Settled decisions until the next candidate is learned, where none is under test."""
        grown = 0 if self.candidate is None else -(-(self.settled - self.since) // _EARLY_GROWTH) - self.since
        return max(0, self.until_retrain, grown)

    @property
    def decided(self) -> bool:
        """Whether the test of the candidate is over: better, worse, no difference, or refused for good.

        Not while it passes by a client's claims only: decisions that Headway draws may show it yet.
        """
        verdict, evidence = self.verdict, self.evidence
        if verdict is None or evidence is None or verdict.state == "wait":
            return False
        if self.asks and evidence.reliance == "claims":
            return False
        if verdict.state == "refused" and verdict.disowned:  # by a data check, which may still recover
            return bool(self.most) and evidence.n >= self.most
        return True

    @property
    def under_test(self) -> bool:
        """Whether the candidate is held: its test has begun and is not over. Only logs grow until a test ends."""
        if self.outdated:
            return False
        return self.tested and not self.decided and (self.evidence is None or self.evidence.kind == "log")

    @property
    def turn(self) -> bool:
        """Whether the shadow becomes the candidate now."""
        if self.shadow is None or self.outdated or self.proven:
            return False
        return self.candidate is None or self.decided

    @property
    def learns(self) -> bool:
        """Whether learning is due: a new candidate, or a shadow while the candidate is under test.

        The next candidate after a test is learned once there is more to learn from. It would be tested on the rows that
        have just shown no difference, and each such test makes the gate stricter.
        """
        if self.kind.judged == "world":
            return False
        if self.outdated:
            return True  # what it learned is about a world that is gone
        if self.until_retrain or self.turn:
            return False
        if self.candidate is None:
            return True
        if self.under_test:
            return self.since * _GROWTH >= self.settled - self.since
        if self.verdict is None and self.unprovable is not None:
            return False
        return self.since * _EARLY_GROWTH >= self.settled - self.since
