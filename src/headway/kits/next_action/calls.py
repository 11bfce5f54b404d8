"""What `headway.client` can ask a server about rankings: `client.rank(…)`, `client.improvers()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headway.client import ServerCall

if TYPE_CHECKING:
    from headway.project import Offer


def rank(
    _: Any,
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
    body = {"text": text, "role": role, "state": state, "policy": policy, "candidates": candidates}
    known = {name: value for name, value in body.items() if value not in (None, "")}
    return ServerCall.post("/v1/tasks/{}/rank", task, body=known, read=dict)


def predictions(
    _: Any, task: str, *, policy: str | None = None, limit: int | None = None
) -> ServerCall[dict[str, Any]]:
    """Predicted rewards of the latest decisions beside their outcomes, and the calibration over time."""
    return ServerCall.get("/v1/tasks/{}/predictions", task, policy=policy, limit=limit, read=dict)


def improvers(_: Any) -> ServerCall[list[dict[str, Any]]]:
    """Every improver: what it improves, its rounds by verdict, and the branch with what was kept."""
    return ServerCall.get("/v1/improve", read=lambda answer: list(answer["improvers"]))


def rounds(_: Any, improver: str, *, limit: int | None = None) -> ServerCall[list[dict[str, Any]]]:
    """The latest rounds of an improver, the oldest first: proposal, prediction, measurements, verdict, reason."""
    return ServerCall.get("/v1/improve/{}/rounds", improver, limit=limit, read=lambda answer: list(answer["rounds"]))
