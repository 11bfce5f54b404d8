"""The status of a project and the story of a task, for terminal, page and agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headway.nouns.alarm import Alarm, Outage
from headway.nouns.evidence import VerdictWord
from headway.nouns.experiment import ExperimentState, RampState
from headway.nouns.forecast import VerdictForecast
from headway.nouns.wire import Internal, Time
from headway.nouns.words import plural
from headway.nouns.worth import TaskWorth

StepVerb = Literal[
    "doctor", "rollback", "end_canary", "promote", "ramp", "experiment", "alarm", "prove", "learn", "plan", "report",
    "log", "decide",
]  # fmt: skip
StoryKind = Literal[
    "started", "settings", "learned", "planned", "proven", "canary", "experiment", "promoted", "rolled back", "retired",
    "alarm", "outage", "deleted",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """The next command for a task, the reason, and the evidence behind it."""

    verb: StepVerb
    command: str
    why: str
    evidence: str | None = None  # the id of the evidence behind it

    def __str__(self) -> str:
        return f"{self.command}  ({self.why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVerdict:
    """The verdict on a task's candidate: better, worse, too early, no difference or cannot tell, and one sentence."""

    word: VerdictWord
    text: str
    candidate: str
    against: str
    more: int | None  # rows that are still needed, about
    forecast: VerdictForecast | None  # how many more, and how long that takes
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One task: its current policy, candidate and counts."""

    task: str
    kind: str
    family: str
    current: str
    current_hash: str
    canary: str | None
    experiment: ExperimentState | None  # the one that is running
    candidates: tuple[str, ...]
    decisions: int
    signals: int
    outcomes: Mapping[str, int]
    sources: Mapping[str, int]
    until_retrain: int
    evidence: str | None  # on its candidate, or else on its last change, or else the newest
    next: NextStep
    kit_missing: str | None = None  # the family of the current policy, if no kit provides it: the rules decide
    alarms: tuple[Alarm, ...] = ()  # the open ones, oldest first
    outages: tuple[Outage, ...] = ()  # of what it chooses among: open ones, and those of the last day
    warnings: tuple[str, ...] = ()  # signals of the latest decisions that nothing reads, outcomes that change
    verdict: TaskVerdict | None = None  # on the candidate; None without fresh evidence
    unit: str = "decision"  # what gets one outcome: a decision, a request or an episode
    units: int = 0  # how many of them were made
    ramp: RampState | None = None  # the promotion that is on its way
    worth: TaskWorth | None = None  # money and quality of the current policy; None without decisions

    def __str__(self) -> str:
        return f"{self.task}: {self.current}, {plural(self.decisions, 'decision')}. Next: {self.next.command}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """Where the rows are stored."""

    engine: str
    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStatus:
    """Every task of a project, and the most urgent next step of all."""

    folder: str
    store: StoreStatus
    tasks: tuple[TaskStatus, ...]
    next: Internal[NextStep]
    alert_failure: str = ""  # why the last alert about an alarm did not reach its receivers

    def task(self, name: str) -> TaskStatus | None:
        return next((status for status in self.tasks if status.task == name), None)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.tasks), f"Next: {self.next}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check; `ok` is null where it only informs."""

    name: str
    found: str
    ok: bool | None
    cure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """One event: when, what, and who did it; `kind` says what of."""

    at: Time
    kind: StoryKind
    text: str
    who: str = ""  # a user, a key, or the background loop; empty: nobody in particular
    policy: str | None = None
    evidence: str | None = None  # the id of the evidence behind it
    word: VerdictWord | None = None  # of a proof: its verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStory:
    """The events of a task, oldest first."""

    task: str
    events: tuple[StoryEvent, ...]
