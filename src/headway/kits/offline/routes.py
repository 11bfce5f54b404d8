"""GET /v1/tasks/{task}/tradeoff: what less quality would save."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import msgspec

from headway.nouns import errors
from headway.serve import Call, endpoint

_PATIENCE_S = 120.0
_WAIT_S = 10.0  # for a curve that another request computes
_computing = threading.Lock()  # one curve at a time: each is a process


class SpanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A mean with its 95% interval."""

    value: float
    low: float
    high: float


class TradeoffPointAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One policy; `weight` is what a unit of cost is worth in units of quality; null: the cheapest."""

    weight: float | None
    quality: SpanAnswer
    cost: SpanAnswer
    shares: dict[str, float]


class TradeoffAnswer(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    quality: str
    cost: str
    decisions: int
    points: list[TradeoffPointAnswer]  # from quality alone to the cheapest
    constants: dict[str, TradeoffPointAnswer]  # always one action


@endpoint("GET", "/v1/tasks/{task}/tradeoff", gives=TradeoffAnswer, errors=(404,), scope="train")
def tradeoff_curve(call: Call) -> TradeoffAnswer:
    """The curve from the best answer to the cheapest, on the newest decisions; computed in a process of its own."""
    project = call.server.project
    task = project.settings.task(call.params["task"]).name
    command = [sys.executable, "-P", "-m", "headway", "-C", str(project.folder), "tradeoff", task]
    command += ["--as-stored", "--json"]
    if not _computing.acquire(timeout=_WAIT_S):
        raise errors.Busy("Another curve is being computed.", code="queue_full", retry_after_s=_WAIT_S)
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
        document: dict[str, Any] = msgspec.json.decode(done.stdout)
    except (subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        raise errors.Unavailable(
            "The curve was not computed.",
            code="tradeoff_failed",
            hint=f"Compute it in the terminal: headway tradeoff {task}",
        ) from error
    finally:
        _computing.release()
    if "error" in document:
        problem = document["error"]
        raise errors.InvalidInput(problem["message"], code=problem["code"], hint=problem.get("hint", ""))
    return msgspec.convert(document, TradeoffAnswer)
