"""OpenAI's endpoints: chat completions, responses and models, over any number of upstreams.

    client = OpenAI(base_url="http://127.0.0.1:8765/v1", api_key="-")
    client.chat.completions.create(model="headway/route", messages=[…])     # .id is the decision's id

Under `/e/{episode}/v1` the same endpoints belong to an episode, so that an agent only needs a different base URL.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.kits.proxy.answer import PREFIX, answer, routed_tasks
from headway.kits.proxy.conversations import Body, Conversation, of_input, plain
from headway.kits.proxy.events import StreamEvent, event_bytes
from headway.kits.proxy.openai_chat import Chat, error_body, text_field
from headway.kits.proxy.upstreams import UpstreamFailed, upstreams_of
from headway.kits.proxy.wire import (
    DecisionFields,
    StreamRewriter,
    StreamState,
    TokenUsage,
    WholeAnswer,
    cached,
    count,
    fields_of,
    prepared,
    raw,
)
from headway.nouns import errors, rfc3339
from headway.serve import Call, ErrorDetail, Reply, Stream, endpoint, strict
from headway.settings import Upstream

_LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class Responses(Chat):
    """POST /responses. Clients send a decision's id as `previous_response_id`; the upstream gets its own id."""

    name = "chat"
    path = "/responses"
    limits = ("max_output_tokens",)

    def read(self, body: Body) -> Conversation:
        return of_input(body)

    def request(self, body: Body, upstream: Upstream, *, decided: bool) -> bytes:  # noqa: ARG002 — an ApiFormat
        return msgspec.json.encode(prepared(body, upstream, self.limits))

    def whole(self, upstream: str, body: bytes, added: DecisionFields) -> WholeAnswer:
        fields = fields_of(upstream, body)
        if plain(fields, "status") == "failed" or "output" not in fields:
            raise UpstreamFailed(upstream, "upstream_error", "reported a failed response")
        upstream_id, model, usage = text_field(fields, "id"), text_field(fields, "model"), _usage(fields)
        return WholeAnswer(
            body=msgspec.json.encode(_add_decision(fields, added)), usage=usage, upstream_id=upstream_id, model=model
        )

    def rewriter(self, upstream: str, body: Body, added: DecisionFields) -> StreamRewriter:  # noqa: ARG002 — an ApiFormat
        return ResponseStream(upstream, added)

    def event_problem(self, detail: ErrorDetail) -> bytes:
        fields = {"type": "error", "sequence_number": 0, "error": error_body(502, detail), **error_body(502, detail)}
        return event_bytes(b"error", msgspec.json.encode({**fields, "type": "error"}))


class ResponseStream(StreamState):
    """response.* events; those that contain the response get the decision's id."""

    def rewrite(self, event: StreamEvent) -> bytes:
        if event.data is None:
            return event.raw
        if event.data.strip() == b"[DONE]":
            self.complete = self.finished = True
            return event.raw
        fields = fields_of(self._upstream, event.data)
        kind = self._kind(fields)
        self.started = self.started or kind.endswith(".delta")
        if "response" not in fields:
            return event.raw
        response = fields_of(self._upstream, bytes(fields["response"]))
        if not self.upstream_id:
            self.upstream_id, self.model = text_field(response, "id"), text_field(response, "model")
        if kind in _LAST:
            self.usage = _usage(response)
            self.complete = self.finished = True
            self.failed = "upstream_error" if kind == "response.failed" else ""
        fields["response"] = msgspec.Raw(msgspec.json.encode(_add_decision(response, self._added)))
        return event_bytes(event.name, msgspec.json.encode(fields))


def _add_decision(fields: Body, added: DecisionFields) -> Body:
    fields["id"], fields["headway"] = raw(added.id), raw(added.extras)
    if added.previous:
        fields["previous_response_id"] = raw(added.previous)
    return fields


def _usage(fields: Body) -> TokenUsage:
    usage = plain(fields, "usage")
    if not isinstance(usage, dict):
        return TokenUsage()
    return TokenUsage(
        prompt=count(usage.get("input_tokens")),
        completion=count(usage.get("output_tokens")),
        cached=cached(usage, "input_tokens_details"),
    )


_CHAT, _RESPONSES = Chat(), Responses()
_post = partial(
    endpoint, "POST", takes=msgspec.Raw, gives=dict[str, Any], errors=(404, 409, 502, 504), scope="decide", batch=True
)
_SINCE = 1_700_000_000  # upstreams have no creation time, but SDKs expect one


@_post("/v1/chat/completions", hot=True)
async def chat_completions(call: Call, body: bytes) -> Reply | Stream:
    """OpenAI's chat completions; `model: "headway/TASK"` decides among upstreams, and `id` is the decision's id."""
    return await answer(call, body, _CHAT)


@_post("/e/{episode}/v1/chat/completions")
async def chat_completions_of_episode(call: Call, body: bytes) -> Reply | Stream:
    """The same, as a step of an episode."""
    return await answer(call, body, _CHAT)


@_post("/v1/responses")
async def responses(call: Call, body: bytes) -> Reply | Stream:
    """OpenAI's responses, routed the same way; `previous_response_id` takes a decision's id."""
    return await answer(call, body, _RESPONSES)


@_post("/e/{episode}/v1/responses")
async def responses_of_episode(call: Call, body: bytes) -> Reply | Stream:
    """The same, as a step of an episode."""
    return await answer(call, body, _RESPONSES)


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as OpenAI's and Anthropic's SDKs read it."""

    id: str
    object: str = "model"
    type: str = "model"
    created: int = _SINCE
    created_at: str = rfc3339(_SINCE)
    owned_by: str
    display_name: str


class Models(msgspec.Struct, frozen=True, kw_only=True):
    """All models at once: there are never more pages."""

    object: str = "list"
    data: list[Model]
    has_more: bool = False
    first_id: str | None
    last_id: str | None


class ModelsQuery(strict):
    """What Anthropic's SDK may ask; every page is the last one."""

    limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    after_id: Annotated[str, Meta(max_length=200)] | None = None
    before_id: Annotated[str, Meta(max_length=200)] | None = None


@endpoint("GET", "/v1/models", query=ModelsQuery, gives=Models, scope="decide")
async def models(call: Call) -> Models:
    """Every task that decides among upstreams, as `headway/TASK`, and every upstream."""
    query: ModelsQuery = call.query
    page = [] if query.after_id or query.before_id else _models(call)
    return Models(data=page, first_id=page[0].id if page else None, last_id=page[-1].id if page else None)


@endpoint("GET", "/v1/models/{model}", gives=Model, errors=(404,), scope="decide")
async def model(call: Call) -> Model:
    """One upstream."""
    return _model(call, call.params["model"])


@endpoint("GET", "/v1/models/headway/{task}", gives=Model, errors=(404,), scope="decide")
async def routed_model(call: Call) -> Model:
    """One task."""
    return _model(call, PREFIX + call.params["task"])


@endpoint("GET", "/e/{episode}/v1/models", query=ModelsQuery, gives=Models, scope="decide")
async def models_of_episode(call: Call) -> Models:
    """The same, under an episode's base URL."""
    page: Models = await models(call)
    return page


def _models(call: Call) -> list[Model]:
    upstreams = upstreams_of(call)
    routed = [
        Model(id=PREFIX + task.name, owned_by="headway", display_name=task.name) for task in routed_tasks(upstreams)
    ]
    named = upstreams.settings.upstreams.values()
    return [*routed, *(Model(id=upstream.name, owned_by="upstream", display_name=upstream.model) for upstream in named)]


def _model(call: Call, name: str) -> Model:
    known = {model.id: model for model in _models(call)}
    if name not in known:
        raise errors.UnknownName(
            f"There is no model {name[:80]!r}.", code="model_not_found", hint=errors.did_you_mean(name, known)
        )
    return known[name]
