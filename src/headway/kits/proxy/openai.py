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
from headway.kits.proxy.openai_chat import Chat
from headway.kits.proxy.openai_responses import Responses
from headway.kits.proxy.upstreams import upstreams_of
from headway.nouns import UnknownName, did_you_mean, rfc3339
from headway.serve import Call, Reply, Stream, endpoint, strict

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
    upstreams = upstreams_of(call.server)
    routed = [
        Model(id=PREFIX + task.name, owned_by="headway", display_name=task.name) for task in routed_tasks(upstreams)
    ]
    named = upstreams.settings.upstreams.values()
    return [*routed, *(Model(id=upstream.name, owned_by="upstream", display_name=upstream.model) for upstream in named)]


def _model(call: Call, name: str) -> Model:
    known = {model.id: model for model in _models(call)}
    if name not in known:
        raise UnknownName(f"There is no model {name[:80]!r}.", code="model_not_found", hint=did_you_mean(name, known))
    return known[name]
