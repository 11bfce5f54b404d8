"""What `explain` tells of a request besides: its attempts, and who answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway.kits.proxy.attempts import INTERRUPTED, RATER
from headway.kits.proxy.requests import KIT_NAME, REQUEST, left_out
from headway.nouns import Decision, ExplainedAttempt, ids

if TYPE_CHECKING:
    from headway.project import Project


def explain(project: Project, decision: Decision) -> dict[str, Any]:
    """The attempts of a request; of a later attempt, the request that it belongs to."""
    if decision.unit and not ids.is_episode(decision.unit):
        return {"request": decision.unit}
    details = project.query.details(decision.id, KIT_NAME)
    attempts = [decision] if ids.is_episode(decision.unit) else project.query.request(decision.id)
    if len(attempts) == 1 and REQUEST not in details:
        return {}
    lanes = [_lane(project, attempt) for attempt in attempts]
    served = [lane.upstream for lane in lanes if lane.status == "answered"]
    return {"attempts": tuple(lanes), "served": served[-1] if served else ""}


def _lane(project: Project, attempt: Decision) -> ExplainedAttempt:
    signals = {signal.name: signal for signal in project.query.signals(attempt.id, live=True) if signal.rater == RATER}
    if not signals:  # an attempt that something else made says so by its own signals
        signals = {signal.name: signal for signal in project.query.signals(attempt.id, live=True)}
    values = {name: signal.value for name, signal in signals.items()}
    failed = signals["failed"].label or "failed" if values.get("failed") else ""
    http_status = values.get("http_status")
    if failed:
        status = "interrupted" if failed == INTERRUPTED else "failed"
    elif "client_gone" in values:
        status = "left"
    elif not values:
        status = "running"
    else:
        status = "answered" if http_status is None or http_status < 400 else "refused"
    tokens = {name: int(values.get(name) or 0) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")}
    return ExplainedAttempt(
        id=attempt.id,
        upstream=attempt.action,
        at=attempt.at,
        propensity=attempt.propensity or None,
        status=status,
        code=failed,
        http_status=None if http_status is None else int(http_status),
        latency_s=values.get("latency_s"),
        first_token_s=values.get("first_token_s"),
        cost_usd=values.get("cost_usd"),
        left_out=left_out(project.query.details(attempt.id, KIT_NAME).get(REQUEST)),
        **{name: tokens[name] if name in values else None for name in tokens},
    )
