"""The eight endpoints of the prompt-mutation service that callers know, and /generate.

Their learner is the `actor_critic` family; while this installation does not have it, they answer `family_missing`.
Bodies are checked all the same: an unknown action or a number that is not finite is a 422 and stores nothing.
GET /health, the eighth, is in looking.py.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.nouns.errors import UnknownName
from headway.serve.endpoint import Call, endpoint, strict
from headway.serve.routes.tasks import need_worker
from headway.serve.wire import NAME, matching

FAMILY = "actor_critic"
Vector = Annotated[list[float], Meta(min_length=1, max_length=16_384)]
PolicyName = Annotated[str, matching(NAME, 64)]


class SelectRequest(strict):
    embedding: Vector
    deterministic: bool = False


class SelectAnswer(msgspec.Struct, frozen=True, kw_only=True):
    action: int
    mutation_type: str
    log_prob: float
    value: float


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


class NamedRequest(strict):
    """A name inside the registry, never a path."""

    path: PolicyName | None = None


class LoadRequest(strict):
    path: PolicyName


class Nothing(strict):
    pass


class GenerateRequest(strict):
    prompt: Annotated[str, Meta(min_length=1, max_length=100_000)]
    max_tokens: Annotated[int, Meta(ge=1, le=4096)] = 128


def _missing() -> UnknownName:
    return UnknownName(
        f"This installation has no family {FAMILY!r}, which learns this.",
        code="family_missing",
        hint="Use /v1/decisions with a task of kind choice; `headway status` lists what is there.",
    )


@endpoint("POST", "/select_action", takes=SelectRequest, gives=SelectAnswer, errors=(404,), scope="decide")
async def select_action(call: Call, body: SelectRequest) -> SelectAnswer:
    """Choose one of the five mutations for an embedded prompt."""
    raise _missing()


@endpoint(
    "POST", "/get_distribution", takes=DistributionRequest, gives=DistributionAnswer, errors=(404,), scope="decide"
)
async def get_distribution(call: Call, body: DistributionRequest) -> DistributionAnswer:
    """The probability of each mutation."""
    raise _missing()


@endpoint("POST", "/store_experience", takes=ExperienceRequest, gives=StoredAnswer, errors=(404,), scope="signal")
async def store_experience(call: Call, body: ExperienceRequest) -> StoredAnswer:
    """Keep one step for the next update."""
    raise _missing()


@endpoint("POST", "/update", takes=Nothing, gives=dict[str, Any], errors=(404,), scope="train", optional=True)
async def update(call: Call, body: Nothing) -> dict[str, Any]:
    """Learn from the stored steps."""
    raise _missing()


@endpoint("POST", "/save", takes=NamedRequest, gives=dict[str, Any], errors=(404,), scope="train", optional=True)
async def save(call: Call, body: NamedRequest) -> dict[str, Any]:
    """Keep the present policy under a name."""
    raise _missing()


@endpoint("POST", "/load", takes=LoadRequest, gives=dict[str, Any], errors=(404,), scope="admin")
async def load(call: Call, body: LoadRequest) -> dict[str, Any]:
    """Make a kept policy current."""
    raise _missing()


@endpoint("GET", "/stats", gives=dict[str, Any], errors=(404,), scope="train")
async def stats(call: Call) -> dict[str, Any]:
    """How learning went so far."""
    raise _missing()


@endpoint("POST", "/generate", takes=GenerateRequest, gives=dict[str, Any], errors=(404,), scope="decide")
def generate(call: Call, body: GenerateRequest) -> dict[str, Any]:
    """A reply of the local model; needs a language worker."""
    need_worker(call)
    raise UnknownName(
        "The worker that is running holds no language model.",
        code="family_missing",
        hint="Declare a task of kind reply, and install headway[language].",
    )
