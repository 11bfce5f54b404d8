"""The eight endpoints of the prompt-mutation service.

They serve `service.py`: reads use an immutable policy; an update is a job for a worker (`headway up`, `headway watch`).
An unknown action, another width or a number that is not finite is a 422 and stores nothing. GET
/health, the eighth, belongs to the server.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.kits.prompts.experiences import Step
from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.prompts.service import LEAST, Embedded, SelectedMutation, service
from headway.nouns import errors
from headway.serve import Call, endpoint, matching, strict

_UPDATE_S = 120.0  # how long a request waits for its update
_LOOK_S = 0.05
Vector = Annotated[list[float], Meta(min_length=1, max_length=16_384)]
PolicyName = Annotated[str, matching()]


class SelectRequest(strict):
    embedding: Vector
    deterministic: bool = False


class ExperienceRequest(strict):
    state: Vector
    action: Annotated[int, Meta(ge=0, le=4)]
    reward: float
    next_state: Vector
    done: bool
    log_prob: float
    value: float


class StoredAnswer(msgspec.Struct, frozen=True):
    stored: bool
    buffer_size: int


class DistributionRequest(strict):
    embedding: Vector


class DistributionAnswer(msgspec.Struct, frozen=True):
    probabilities: list[float]
    mutation_types: list[str]


class StatsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`avg_reward` and `max_reward` are of the stored steps; losses, entropy and KL are means over the updates."""

    total_updates: int
    total_episodes: int
    avg_reward: float
    max_reward: float
    avg_policy_loss: float
    avg_value_loss: float
    avg_entropy: float
    avg_kl: float


class NamedRequest(strict):
    """A name inside the registry, never a path."""

    path: PolicyName | None = None


class LoadRequest(strict):
    path: PolicyName


class Nothing(strict):
    pass


def _service(call: Call) -> Embedded:
    return service(call.server.project)


@endpoint("POST", "/select_action", takes=SelectRequest, gives=SelectedMutation, scope="decide")
def select_action(call: Call, body: SelectRequest) -> SelectedMutation:
    """Choose one of the five mutations for an embedded prompt."""
    return _service(call).select(body.embedding, deterministic=body.deterministic)


@endpoint("POST", "/get_distribution", takes=DistributionRequest, gives=DistributionAnswer, scope="decide")
def get_distribution(call: Call, body: DistributionRequest) -> DistributionAnswer:
    """The probability of each mutation."""
    return DistributionAnswer(_service(call).distribution(body.embedding), list(MUTATIONS))


@endpoint("POST", "/store_experience", takes=ExperienceRequest, gives=StoredAnswer, scope="signal")
def store_experience(call: Call, body: ExperienceRequest) -> StoredAnswer:
    """Keep one step for the next update."""
    step = Step(**msgspec.structs.asdict(body))
    return StoredAnswer(stored=True, buffer_size=_service(call).store(step, key=call.key))


@endpoint("POST", "/update", takes=Nothing, gives=dict[str, Any], errors=(503,), scope="train", optional=True)
async def update(call: Call, body: Nothing) -> dict[str, Any]:
    """Learn from the stored steps: a worker does, and the answer waits for it. Reading goes on meanwhile."""
    server = call.server
    if await call.in_thread(_service(call).waiting) < LEAST:
        return {"message": "Not enough experiences"}
    number = await call.in_thread(_ask_for_update, call)
    until = time.monotonic() + _UPDATE_S
    while time.monotonic() < until and not server.stopping:
        job = await call.in_thread(server.jobs.get, number)
        if job.state == "done":
            return {name: value for name, value in job.result.items() if name != "policy"}
        if job.state == "failed":
            told = job.result["error"]
            raise errors.Unavailable(
                told["message"], code="update_failed", hint=told["hint"] or "The policy is as it was."
            )
        await asyncio.sleep(_LOOK_S)
    raise errors.Unavailable(
        "The update is not done yet.",
        code="timeout",
        hint=f"It continues in the background; GET /v1/jobs/{number} shows its state.",
    )


def _ask_for_update(call: Call) -> int:
    """The job's number: a new one, or the one that waits or runs already."""
    call.server.need_worker()
    server = call.server
    for job in server.jobs.latest():
        if job.kind == "update" and job.state in ("queued", "running"):
            return job.job
    return server.jobs.add("update", {}, now=server.project.clock(), key=call.key).job


@endpoint("POST", "/save", takes=NamedRequest, gives=dict[str, Any], errors=(404,), scope="train", optional=True)
def save(call: Call, body: NamedRequest) -> dict[str, Any]:
    """Keep the present policy under a name."""
    return {"saved": True, "path": body.path or "policy", "policy": _service(call).save(body.path, who=call.key)}


@endpoint("POST", "/load", takes=LoadRequest, gives=dict[str, Any], errors=(404,), scope="admin")
def load(call: Call, body: LoadRequest) -> dict[str, Any]:
    """Make a kept policy current."""
    return {"loaded": True, "path": body.path, "policy": _service(call).load(body.path, who=call.key)}


@endpoint("GET", "/stats", gives=StatsAnswer, scope="train")
def stats(call: Call) -> StatsAnswer:
    """How learning went so far."""
    return msgspec.convert(_service(call).stats(), StatsAnswer)
