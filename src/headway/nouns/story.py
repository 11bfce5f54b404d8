"""What happened to a task, one sentence per event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.nouns.evidence import VerdictWord
from headway.nouns.wire import Time

StoryKind = Literal[
    "started", "settings", "learned", "planned", "proven", "canary", "experiment", "promoted", "rolled back", "retired",
    "alarm", "outage", "deleted",
]  # fmt: skip


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
