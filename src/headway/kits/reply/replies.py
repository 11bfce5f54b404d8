"""Replies of a local model over HTTP, whole or as a stream: `POST /generate`, and OpenAI's chat completions.

`headway/TASK` of a reply task is the model of a chat completion; the completion's id is the decision's id.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
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
    return await _kept(call, pending, await _finished(call, pending))


async def _finished(call: Call, pending: PendingReply) -> Completion:
    """The whole reply."""
    async for delta in deltas(call, pending):
        if delta.completion is not None:
            return delta.completion
    raise AssertionError("a stream ends with its completion, or raises")


async def _stored(call: Call, pending: PendingReply, completion: Completion) -> AnsweredTurn:
    """The finished reply with its decision, in the store."""
    stored: AnsweredTurn = await call.in_thread(keep, call.server.project, pending, completion)
    call.server.metrics.count("decisions", stored.decision.task)
    return stored


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
    decision, kept = await _stored(call, pending, completion)
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


_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_SAMPLING = ("temperature", "top_p", "seed")


async def completion(
    call: Call, body: Mapping[str, msgspec.Raw], task: str, *, episode: str | None, role: str
) -> Reply | Stream:
    """The answer to a request for a chat completion, whole or as a stream."""
    fields = {name: msgspec.json.decode(value) for name, value in body.items()}
    if fields.get("n") not in (None, 1) or fields.get("tools"):
        raise _bad("It asks for several choices or for tools", "A local model gives one choice and calls no tools.")
    server = call.server
    pending = await call.in_thread(
        lambda: prepare(
            server.project,
            task,
            turns_of(fields.get("messages")),
            episode=episode,
            role=role,
            reader=call.reader,
            max_tokens=_whole(fields, "max_completion_tokens", "max_tokens"),
            stop=_stop(fields.get("stop")),
            **{name: fields[name] for name in _SAMPLING if _number(fields, name)},
        )
    )
    headers = {"x-headway-decision": pending.id}
    if fields.get("stream") is True:
        options = fields.get("stream_options")
        usage = isinstance(options, dict) and options.get("include_usage") is True
        return Stream(chunks=_chunks(call, pending, task, usage), headers=headers)
    finished = await _finished(call, pending)
    stored = await _stored(call, pending, finished)
    message = {"role": "assistant", "content": finished.text}
    choice = {"index": 0, "message": message, "finish_reason": finished.finish, "logprobs": None}
    answer = _head(pending, task, "chat.completion") | {"choices": [choice], "usage": _usage(finished)}
    return Reply(body=answer | {"headway": _extras(stored)}, headers=headers)


async def _chunks(call: Call, pending: PendingReply, task: str, usage: bool) -> AsyncIterator[bytes]:
    """Chunks as OpenAI sends them. A reply that fails on the way ends in an error event, and is not stored."""
    head = _head(pending, task, "chat.completion.chunk")
    first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    yield _event(head | {"choices": [first]})
    try:
        async for delta in deltas(call, pending):
            if delta.text:
                piece = {"index": 0, "delta": {"content": delta.text}, "finish_reason": None}
                yield _event(head | {"choices": [piece]})
            if delta.completion is not None:
                finished = delta.completion
                stored = await _stored(call, pending, finished)
                last = {"index": 0, "delta": {}, "finish_reason": finished.finish}
                yield _event(head | {"choices": [last], "headway": _extras(stored)})
                if usage:
                    yield _event(head | {"choices": [], "usage": _usage(finished)})
        yield b"data: [DONE]\n\n"
    except errors.HeadwayError as error:
        yield b"data: " + problem(error).body + b"\n\n"


def turns_of(messages: Any) -> list[Turn]:
    """OpenAI's messages as turns: texts, or lists of text parts."""
    if not isinstance(messages, list) or not messages:
        raise _bad("It has no messages", "Send at least one message of the user.")
    turns: list[Turn] = []
    for message in messages:
        role = _ROLES.get(str(message.get("role"))) if isinstance(message, dict) else None
        if role is None:
            raise _bad("A message has no known role", "Use system, developer, user and assistant.")
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [part["text"] for part in parts if _is_text(part)] if isinstance(parts, list) else []
        if not isinstance(parts, list) or len(texts) != len(parts):
            raise _bad("A message has content that is not text", "A local model reads text only.")
        turns.append(Turn(role, "\n".join(texts)))  # type: ignore[arg-type]  # a value of _ROLES
    return turns


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("text", "input_text") and isinstance(part.get("text"), str)


def _head(pending: PendingReply, task: str, kind: str) -> dict[str, Any]:
    return {"id": pending.id, "object": kind, "created": int(time.time()), "model": f"headway/{task}"}


def _usage(finished: Completion) -> dict[str, int]:
    read, written = len(finished.prompt_tokens), len(finished.tokens)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _extras(stored: AnsweredTurn) -> dict[str, Any]:
    decision = stored.decision
    return {
        "decision": decision.id,
        "policy": decision.action,
        "propensity": decision.propensity,
        "dropped_turns": stored.kept.dropped_turns,
    }


def _stop(value: Any) -> tuple[str, ...]:
    stops = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(stops, (list, tuple)) or not all(isinstance(stop, str) for stop in stops):
        raise _bad("`stop` is not a text or a list of texts", "Omit it, or send texts.")
    return tuple(stops)


def _number(fields: Mapping[str, Any], name: str) -> bool:
    """Whether a number is given; anything else is refused."""
    value = fields.get(name)
    if value is None:
        return False
    whole = name == "seed"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not 0 <= value < 2**63:
        raise _bad(f"`{name}` is {value!r}", "Send a number from 0.")
    return True


def _whole(fields: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
                raise _bad(f"`{name}` is {value!r}", "Send a whole number from 1.")
            return value
    return None


def _bad(what: str, hint: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"The request cannot be answered: {what[0].lower()}{what[1:]}.", code="bad_prompt", hint=hint
    )
