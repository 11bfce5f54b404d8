"""Answer a request in any wire format: the part that all endpoints share.

`model` selects the upstream: `headway/TASK` lets that task decide; the name of an upstream goes straight to it, without
a decision or a log entry. Errors have the shape that the format's own SDK reads.
"""

from __future__ import annotations

import time

import msgspec

from headway.kits.proxy.attempts import RATER
from headway.kits.proxy.conversations import body_of, conversation_name, options_of, plain
from headway.kits.proxy.relay import Relay
from headway.kits.proxy.routing import NoUpstreamAnswered, ProxiedRequest, Routing, pass_on, request_id
from headway.kits.proxy.upstreams import AT_FAULT, Slot, UpstreamFailed, Upstreams, upstreams_of
from headway.kits.proxy.wire import ApiFormat
from headway.kits.reply import completion
from headway.nouns import errors
from headway.serve import Call, Reply, Stream, problem
from headway.settings import TaskSettings

PREFIX = "headway/"


async def answer(call: Call, raw: bytes, wire: ApiFormat, *, query: str = "") -> Reply | Stream:
    """The answer, or the error in the format's own shape."""
    try:
        return await _answer(call, raw, wire, query)
    except (errors.HeadwayError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        status, detail, headers = problem(error)
        if isinstance(error, NoUpstreamAnswered):
            headers["x-headway-decision"] = error.decision.id
        if isinstance(error, NoUpstreamAnswered | UpstreamFailed) and error.retry_after:
            headers["retry-after"] = error.retry_after
        return Reply(body=wire.problem(status, detail), status=status, headers=headers)


async def _answer(call: Call, raw: bytes, wire: ApiFormat, query: str) -> Reply | Stream:
    body = body_of(raw)
    model = plain(body, "model")
    if not isinstance(model, str):
        raise errors.InvalidInput(
            "The request does not name a model.", code="bad_model", hint=f"Use {PREFIX}TASK or the name of an upstream."
        )
    options, conversation = options_of(call, body), wire.read(body)
    if model.startswith(PREFIX) and (local := _reply_task(call, model.removeprefix(PREFIX))) is not None:
        if wire.name != "chat":
            raise errors.InvalidInput(
                f"{model!r} answers chat completions only.",
                code="bad_kind",
                hint="Use POST /v1/chat/completions, or a task that decides among upstreams.",
            )
        episode = options.episode or conversation_name(local, call.key, conversation)
        return await completion(call, body, local, episode=episode, role=options.role)
    upstreams = upstreams_of(call)
    asked = ProxiedRequest(
        call=call, wire=wire, upstreams=upstreams, body=body, options=options, conversation=conversation, query=query
    )
    routing = _routing(asked, model.removeprefix(PREFIX)) if model.startswith(PREFIX) else None
    if routing is None and not upstreams.ready(model):
        raise _unknown(upstreams, model)
    slot = upstreams.take()
    reply: Reply | Stream | None = None
    try:
        reply = await (_call_upstream(asked, model, slot) if routing is None else routing.answer(slot))
        return reply
    finally:
        if not isinstance(reply, Stream):  # a stream frees its slot when it ends
            slot.free()


def _reply_task(call: Call, name: str) -> str | None:
    """The name, if the task's replies are written by a local model."""
    task = call.server.project.settings.tasks.get(name)
    return name if task is not None and task.kind == "reply" else None


def _routing(asked: ProxiedRequest, name: str) -> Routing:
    task = asked.call.server.project.settings.task(name)
    if task.kind != "choice":
        raise errors.InvalidInput(
            f"The task {name!r} has the kind {task.kind!r}, expected 'choice'.",
            code="bad_kind",
            hint='Use a task of kind "choice" whose actions are upstreams.',
        )
    routing = Routing(asked=asked, task=task.name, candidates=asked.upstreams.candidates(task))
    if asked.conversation.previous.startswith("dec_"):
        _continue(routing)
    return routing


def _continue(routing: Routing) -> None:
    """Continue a stored response: only the upstream that stored it can answer, so there is nothing to choose."""
    call = routing.asked.call
    query = call.server.project.query
    before, ready = call.decision(routing.asked.conversation.previous), routing.candidates
    for attempt in reversed(query.request(before.id)):  # the last one that has an answer
        for signal in query.signals(attempt.id, live=True):
            if signal.rater == RATER and signal.name == "http_status" and signal.label:
                routing.candidates, routing.previous = (attempt.action,), signal.label
        if routing.previous:
            break
    if not routing.previous or routing.candidates[0] not in ready:
        raise errors.UnknownName(
            f"{before.id!r} cannot be continued: its upstream did not store the response, or no longer exists.",
            code="unknown_response",
            hint="Send the whole conversation instead of previous_response_id.",
        )
    routing.episode = before.situation.episode


async def _call_upstream(asked: ProxiedRequest, name: str, slot: Slot) -> Reply | Stream:
    """Call an upstream by name: the same caps apply, and its answer is passed on unchanged."""
    wire, upstream = asked.wire, asked.upstreams.settings.upstream(name)
    until = time.monotonic() + upstream.timeout_s
    answer = await asked.open(upstream, asked.body, until=until, decided=False)
    try:
        if answer.status in AT_FAULT:
            return pass_on(wire, answer, await answer.beginning(until), {})
        if asked.conversation.stream:
            relay = Relay(wire, answer, slot, None, None, asked.call.server.settings.max_batch_bytes)
            await relay.begin()
            return Stream(chunks=relay, headers=request_id(answer))
        content = await answer.whole(until)
    except BaseException:
        await answer.close()
        raise
    await answer.close()
    return Reply(body=content, headers=request_id(answer))


def _unknown(upstreams: Upstreams, model: str) -> errors.HeadwayError:
    settings = upstreams.settings
    if model in settings.upstreams:
        return errors.Unavailable(
            f"The key of the upstream {model!r} is not set.",
            code="missing_key",
            hint=f"Set {settings.upstreams[model].key_env} and restart the server.",
        )
    known = [*settings.upstreams, *(PREFIX + task.name for task in routed_tasks(upstreams))]
    return errors.UnknownName(
        f"There is no model {model[:80]!r}.",
        code="model_not_found",
        hint=errors.did_you_mean(model[:80], known) or "Declare [upstreams.NAME] in headway.toml.",
    )


def routed_tasks(upstreams: Upstreams) -> list[TaskSettings]:
    """The declared tasks that choose among upstreams or write replies; `route` if no task is declared."""
    settings = upstreams.settings
    if not settings.declared:
        return [settings.task("route")] if settings.upstreams else []
    return [
        task
        for task in settings.tasks.values()
        if task.kind == "reply"
        or (task.kind == "choice" and any(name in settings.upstreams for name in task.actions or settings.upstreams))
    ]
