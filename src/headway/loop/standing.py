"""Where a task stands, and what is due for it. Read from ledger and store alone, so that a restart resumes.

- **guard**: something acts that may be worse than what it replaced (a canary, or a promoted policy), and enough new
  outcomes have come in since the last look.
- **learn**: enough newly settled decisions. While a candidate is being tested, also half as much data again as it was
  learned from: each further candidate makes the gate stricter, and a test that keeps its candidate learns faster.
- **prove**: the candidate has no verdict against the current policy, or one that waits while new outcomes came in.
- **act**: a verdict that passed, and `promote = "auto"`.

A verdict that passed and waits for a person stops the rest: nothing replaces it under their hands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.nouns.evidence import Verdict
from headway.project.judging import Live, gate_rules, live, stored_evidence
from headway.promote import gate
from headway.promote.ledger import Entry

if TYPE_CHECKING:
    from headway.project import Project
    from headway.settings import TaskSettings

__all__ = ["Due", "Marks", "Standing", "due", "standing"]

_LEAST = 25  # new outcomes between two looks at the same question, and …
_SHARE = 10  # … a tenth of what there was: the number of looks grows with the logarithm of the data
_GROWTH = 2  # a tested candidate makes way when 1/_GROWTH of its data has come on top


@dataclass(slots=True)
class Marks:
    """What the running loop remembers of a task; losing it costs one look more."""

    guarded: int = -1  # settled decisions at the last guard
    proved: dict[str, int] = field(default_factory=dict)  # policy hash → settled decisions at its last proof
    failures: int = 0
    not_before: float = 0.0
    last: float = 0.0  # when its last cycle began
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A task at one moment."""

    settings: TaskSettings
    current: Live
    acting: Entry | None  # the row that made the current policy current, if one did
    canary: Entry | None
    candidate: Entry | None  # the newest, if it is neither current nor retired
    verdict: Verdict | None  # on the candidate, against the current policy
    settled: int
    since: int  # of these, after the newest candidate's mark

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed

    @property
    def waits(self) -> bool:
        """For a person: proven, and `promote = "ask"`."""
        return self.settings.promote == "ask" and self.settings.gate == "on" and self.passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a cycle would do."""

    guard: bool = False
    learn: bool = False
    prove: bool = False
    act: bool = False

    @property
    def why(self) -> str:
        return ", ".join(name for name in ("guard", "learn", "prove", "act") if getattr(self, name))


def standing(project: Project, task: str) -> Standing:
    """How the task stands now, from ledger and store."""
    settings = project.settings.task(task)
    ledger = project.ledger
    current = live(project, settings)
    heads = ledger.heads(task)
    newest = heads.candidate
    mark = int(newest.detail.get("upto", 0)) if newest is not None else 0
    candidate = newest
    if (
        newest is None
        or newest.policy_hash == current.digest
        or ledger.state(task, newest.policy_hash) in ("current", "retired")
    ):
        candidate = None
    return Standing(
        settings=settings,
        current=current,
        acting=heads.current,
        canary=heads.canary,
        candidate=candidate,
        verdict=None if candidate is None else verdict_on(project, settings, candidate, current),
        settled=project.query.count_settled(task),
        since=project.query.count_settled(task, after=mark),
    )


def verdict_on(project: Project, settings: TaskSettings, candidate: Entry, current: Live) -> Verdict | None:
    """The gate's word on the latest evidence, if that is against the policy that is current now."""
    identifier = project.ledger.latest_evidence(settings.name, candidate.policy_hash)
    if identifier is None:
        return None
    evidence = stored_evidence(project, identifier)
    if evidence.against_hash != current.digest or evidence.reward_version != project.rewards(settings.name).version:
        return None
    return gate.verdict(evidence, gate_rules(settings))


def due(found: Standing, marks: Marks, *, may_train: bool = True) -> Due:
    """What there is to do. Guarding and acting on a verdict need no permission; learning and proving do."""
    settings = found.settings
    promoted = found.acting is not None and found.acting.kind in ("promote", "snapshot")
    guard = (found.canary is not None or promoted) and enough(found.settled, marks.guarded)
    act = settings.promote == "auto" and found.candidate is not None and (found.passed or settings.gate == "off")
    if not may_train or found.waits or act:
        return Due(guard=guard, act=act)
    if _learns(found):
        return Due(guard=guard, learn=True, prove=True)
    return Due(guard=guard, prove=_proves(found, marks.proved))


def enough(now: int, then: int) -> bool:
    """Whether so much is new that looking again may say something else; -1: it was never looked at."""
    return then < 0 or now - then >= max(_LEAST, then // _SHARE)


def _learns(found: Standing) -> bool:
    if found.since < found.settings.retrain_after:
        return False
    if found.candidate is None:
        return True
    if found.verdict is None:
        return False  # every candidate is judged before another one takes its place
    return found.verdict.state == "worse" or found.since * _GROWTH >= found.settled - found.since


def _proves(found: Standing, proved: Mapping[str, int]) -> bool:
    if found.candidate is None:
        return False
    return found.verdict is None or enough(found.settled, proved.get(found.candidate.policy_hash, -1))
