"""/v1/tasks/{task}/story: what happened to a task."""

from __future__ import annotations

from headway.nouns.story import TaskStory
from headway.serve.endpoint import Call, endpoint


@endpoint("GET", "/v1/tasks/{task}/story", gives=TaskStory, errors=(404,), scope="train")
def story(call: Call) -> TaskStory:
    """What happened to a task, oldest first: learned, proven, promoted, tried, taken back, changed, deleted."""
    from headway.project import task_story  # not needed to decide, so not loaded at the start

    return task_story(call.server.project, call.params["task"])
