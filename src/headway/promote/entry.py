"""One row of the ledger, and the state of a task that its last rows give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headway.nouns import Internal, Time, served
from headway.promote.ramp import Ramp

EntryKind = Literal[
    "candidate", "plan", "test", "shadow", "canary", "experiment", "promote", "rollback", "retire", "snapshot", "alarm",
    "deletion", "name",
]  # fmt: skip
State = Literal["candidate", "shadow", "canary", "current", "retired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the ledger: a policy's new state, when, why, and on which evidence."""

    task: str
    kind: EntryKind
    policy: str
    policy_hash: str
    expects: Internal[str] = ""  # hash of the current policy at the time of the decision
    who: str = ""
    why: str = ""
    evidence_id: Internal[str | None] = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    at: Time = 0.0
    n: int = 0
    seq: int = 0

    @served
    def evidence(self) -> str | None:
        return self.evidence_id

    @property
    def share(self) -> float:
        """The share of the traffic that a canary or an experiment gives the policy; 0 for any other row."""
        return float(self.detail.get("share", 0.0))

    @property
    def ramp(self) -> Ramp | None:
        """The step of a promotion that this row begins; None for any other row."""
        return Ramp.of(self.detail["ramp"]) if self.kind == "canary" and "ramp" in self.detail else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The state of a task, from one read of the last rows."""

    seq: int = 0  # of the last row; 0 if there is none
    current: Entry | None = None  # the row that made the current policy current; None: the built-in baseline
    canary: Entry | None = None  # the active canary
    experiment: Entry | None = None  # the start of the experiment that is running
    plan: Entry | None = None  # the registered test that is open
    candidate: Entry | None = None  # the newest one, whatever its state
    shadow: Entry | None = None  # the newest one that no candidate has followed
    alarm: Entry | None = None  # the newest open alarm: the world changed under the current policy
    changed: int = 0  # the number of the last promotion or rollback
    alarmed: bool = False  # whether there ever was an alarm

    @property
    def expects(self) -> str:
        """The `expects` of a change based on this view; empty before the first change."""
        return self.current.policy_hash if self.current is not None else ""

    def after(self, entry: Entry) -> Heads:
        """The view after appending this row."""
        seen = replace(self, seq=entry.seq)
        match entry.kind:
            case "candidate":
                replaced = self.experiment is not None and self.experiment.policy_hash != entry.policy_hash
                return replace(seen, candidate=entry, shadow=None, experiment=None if replaced else self.experiment)
            case "shadow":
                return replace(seen, shadow=entry)
            case "plan":
                return replace(seen, plan=entry)
            case "canary":
                return replace(seen, canary=entry if entry.share > 0 else None)
            case "experiment":
                return replace(seen, experiment=entry if entry.share > 0 else None)
            case "alarm":
                return replace(seen, alarm=None if "ended" in entry.detail else entry, alarmed=True)
            case "promote" | "rollback":
                return replace(
                    seen, current=entry, canary=None, experiment=None, plan=None, alarm=None, changed=entry.n
                )
            case "snapshot":
                return replace(seen, current=entry)
            case "retire":
                return replace(seen, canary=_unless(self.canary, entry), experiment=_unless(self.experiment, entry))
        return seen


def _unless(acting: Entry | None, retired: Entry) -> Entry | None:
    """What acts on a share, unless this row retires its policy."""
    return None if acting is not None and acting.policy_hash == retired.policy_hash else acting
