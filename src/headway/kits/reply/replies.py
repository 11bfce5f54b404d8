"""`POST /generate`: a reply of a local model over HTTP, whole or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headway.kits.models import Completion, Delta, Turn
from headway.kits.reply.answer import AnsweredTurn, PendingReply, generator_of, keep, prepare
from headway.kits.reply.client import AsyncLanguageWorker
from headway.nouns import errors
from headway.serve import Call, Reply, Stream, Text, endpoint, problem, strict


class GenerateTurn(strict):
    """One message of the conversation."""

    role: Literal["system", "user", "assistant"]
    content: Text


class GenerateRequest(strict):
    """What to answer: a prompt, or a conversation. What is omitted comes from the task's settings."""

    prompt: Text = ""
    messages: Annotated[list[GenerateTurn], Meta(max_length=1000)] = []  # noqa: RUF012 — msgspec copies it
    task: Annotated[str, Meta(max_length=64)] = "reply"
    episode: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    role: Annotated[str, Meta(max_length=200)] = ""
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=100)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    stop: Annotated[list[Annotated[str, Meta(min_length=1, max_length=1000)]], Meta(max_length=16)] = []  # noqa: RUF012
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    stream: bool = False


class GenerateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply. Rate it by its id: POST /v1/decisions/{id}/signals {"stars": 5}."""

    id: str
    task: str
    text: str
    policy: str
    propensity: float
    finish: str
    prompt_tokens: int
    completion_tokens: int
    dropped_turns: int
    latency_s: float
    seed: int


@endpoint(
    "POST", "/generate", takes=GenerateRequest, gives=GenerateAnswer, errors=(404, 409, 503), scope="decide", batch=True
)
async def generate(call: Call, body: GenerateRequest) -> GenerateAnswer | Reply | Stream:
    """A reply of a task's local model; with `stream`, server-sent events with `text`, and the whole at the end."""
    server = call.server
    if bool(body.prompt) == bool(body.messages):
        raise errors.InvalidInput("Send either `prompt` or `messages`.", code="bad_prompt")
    turns = [Turn(turn.role, turn.content) for turn in body.messages] or [Turn("user", body.prompt)]
    if body.task not in server.project.settings.tasks:
        raise errors.UnknownName(
            f"No reply task is called {body.task!r}.",
            code="unknown_task",
            hint=f'Declare [tasks.{body.task}] with kind = "reply" in headway.toml.',
        )
    pending = await call.in_thread(
        lambda: prepare(
            server.project,
            body.task,
            turns,
            episode=body.episode,
            role=body.role,
            max_tokens=body.max_tokens,
            temperature=body.temperature,
            top_p=body.top_p,
            stop=body.stop,
            seed=body.seed,
            reader=call.reader,
        )
    )
    if body.stream:
        return Stream(chunks=_events(call, pending), headers={"x-headway-decision": pending.id})
    async for delta in deltas(call, pending):
        if delta.completion is not None:
            return await _kept(call, pending, delta.completion)
    raise AssertionError("a stream ends with its completion, or raises")


async def _events(call: Call, pending: PendingReply) -> AsyncIterator[bytes]:
    try:
        async for delta in deltas(call, pending):
            if delta.text:
                yield _event({"text": delta.text})
            if delta.completion is not None:
                yield _event(msgspec.structs.asdict(await _kept(call, pending, delta.completion)))
    except errors.HeadwayError as error:
        yield b"data: " + problem(error).body + b"\n\n"


async def _kept(call: Call, pending: PendingReply, completion: Completion) -> GenerateAnswer:
    stored: AnsweredTurn = await call.in_thread(keep, call.server.project, pending, completion)
    call.server.metrics.count("decisions", stored.decision.task)
    decision, kept = stored
    return GenerateAnswer(
        id=decision.id,
        task=decision.task,
        text=completion.text,
        policy=decision.action,
        propensity=decision.propensity,
        finish=completion.finish,
        prompt_tokens=len(completion.prompt_tokens),
        completion_tokens=len(completion.tokens),
        dropped_turns=kept.dropped_turns,
        latency_s=kept.latency_s,
        seed=completion.seed,
    )


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


async def deltas(call: Call, pending: PendingReply) -> AsyncIterator[Delta]:
    """The reply piece by piece, from the worker; an upstream's comes in one piece."""
    project = call.server.project
    if pending.foreign:

        def whole() -> Completion:
            with generator_of(project, pending) as generator:
                return generator.generate([pending.prompt])[0]

        completion = await call.in_far_thread(whole)
        yield Delta(completion.text, completion)
        return
    worker = AsyncLanguageWorker(project.folder, pending.base, adapter=pending.adapter)
    async for delta in worker.stream(pending.prompt):
        yield delta
