"""What happened to a task, one sentence per event."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from headway.nouns.evidence import VerdictWord
from headway.nouns.times import rfc3339

__all__ = ["StoryEvent", "StoryKind", "TaskStory"]

StoryKind = Literal[
    "started", "settings", "learned", "planned", "proven", "canary", "experiment", "promoted", "rolled back", "retired",
    "alarm", "deleted",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """One event: when, what, and who did it."""

    at: float
    kind: StoryKind
    text: str
    who: str = ""  # a user, a key, or the background loop; empty: nobody in particular
    policy: str | None = None
    evidence: str | None = None  # the id of the evidence behind it
    word: VerdictWord | None = None  # of a proof: its verdict

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "at": rfc3339(self.at)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStory:
    """The events of a task, oldest first."""

    task: str
    events: tuple[StoryEvent, ...]

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"task": self.task, "events": [event.document() for event in self.events]}
