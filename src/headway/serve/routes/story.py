"""/v1/tasks/{task}/story: what happened to a task."""

from __future__ import annotations

import msgspec

from headway.serve.endpoint import Call, endpoint


class StoryEventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One event: when, what, and who did it; `kind` says what of."""

    at: str
    kind: str
    text: str
    who: str
    policy: str | None
    evidence: str | None
    word: str | None  # of a proof: its verdict


class StoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    events: list[StoryEventAnswer]


@endpoint("GET", "/v1/tasks/{task}/story", gives=StoryAnswer, errors=(404,), scope="train")
def story(call: Call) -> StoryAnswer:
    """What happened to a task, oldest first: learned, proven, promoted, tried, taken back, changed, deleted."""
    from headway.project import task_story  # not needed to decide, so not loaded at the start

    return msgspec.convert(task_story(call.server.project, call.params["task"]).document(), StoryAnswer)
