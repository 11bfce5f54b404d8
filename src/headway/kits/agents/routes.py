"""POST /v1/hooks/{task}: an agent's hook event as signals, for agents whose hooks can call a URL.

The answer is an empty object: go on. The rest is as in `headway hook --latest`, for the key's own decisions.
"""

from __future__ import annotations

from typing import Any

from headway.serve import Call, endpoint


@endpoint("POST", "/v1/hooks/{task}", takes=bytes, gives=dict, errors=(404,), scope="signal")
def hook(call: Call, body: bytes) -> dict[str, Any]:
    """A coding agent's event after a shell command; whether tests passed or a change was kept becomes a signal."""
    from headway.kits.agents.events import parsed, read, subject_of

    report = read(parsed(body))
    if report.signals:
        project = call.server.project
        subject = subject_of(project, report, call.params["task"], latest=True, key=call.key or None)
        project.signal(subject, report.signals, rater=call.key, key=report.key, label=report.label)
    return {}
