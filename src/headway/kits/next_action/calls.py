"""What `headway.client` can ask a server about rankings: `client.rank(…)`, `client.improvers()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headway.client import Offer, ServerCall, ServerVerb, ServerVerbs, encoded, offer_body, segment


@ServerVerb
def rank(
    client: ServerVerbs,
    task: str,
    candidates: Iterable[Offer] | None = None,
    text: str = "",
    *,
    state: Mapping[str, Any] | None = None,
    role: str = "",
    policy: str | None = None,
) -> ServerCall[dict[str, Any]]:
    """Candidates in order of predicted reward with 80% intervals and advice, under `ranking`; nothing is logged.

    Without a state, a ranking task takes that of its latest decision, which `state_of` names.
    """
    body: dict[str, Any] = {"text": text, "role": role, "state": state, "policy": policy}
    if candidates is not None:
        body["candidates"] = [offer_body(offer) for offer in candidates]
    known = {name: value for name, value in body.items() if value not in (None, "")}
    return ServerCall(method="POST", path=f"/v1/tasks/{segment(task)}/rank", body=encoded(known), read=dict)


@ServerVerb
def predictions(
    client: ServerVerbs, task: str, *, policy: str | None = None, limit: int | None = None
) -> ServerCall[dict[str, Any]]:
    """Predicted rewards of the latest decisions beside their outcomes, and the calibration over time."""
    known = {"policy": policy, "limit": limit}
    params = {name: str(value) for name, value in known.items() if value is not None}
    return ServerCall(method="GET", path=f"/v1/tasks/{segment(task)}/predictions", params=params, read=dict)


@ServerVerb
def improvers(client: ServerVerbs) -> ServerCall[list[dict[str, Any]]]:
    """Every improver: what it improves, its rounds by verdict, and the branch with what was kept."""
    return ServerCall(method="GET", path="/v1/improve", read=lambda answer: list(answer["improvers"]))


@ServerVerb
def rounds(client: ServerVerbs, improver: str, *, limit: int | None = None) -> ServerCall[list[dict[str, Any]]]:
    """The latest rounds of an improver, the oldest first: proposal, prediction, measurements, verdict, reason."""
    return ServerCall(
        method="GET",
        path=f"/v1/improve/{segment(improver)}/rounds",
        params={} if limit is None else {"limit": str(limit)},
        read=lambda answer: list(answer["rounds"]),
    )
