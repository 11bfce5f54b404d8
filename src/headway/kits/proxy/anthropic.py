"""Anthropic's endpoint: messages, routed like chat completions.

    client = Anthropic(base_url="http://127.0.0.1:8765", api_key="-")
    client.messages.create(model="headway/route", max_tokens=200, messages=[…])     # .id is the decision's id

Headway calls the upstream in the format that the client used, at `messages` under its URL. Every upstream of a task
that is used here must support that format.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from headway.kits.proxy.answer import answer
from headway.kits.proxy.anthropic_messages import Messages
from headway.serve import Call, Reply, Stream, endpoint, strict

_MESSAGES = Messages()


class MessagesQuery(strict):
    """Anthropic's SDK selects its beta interface with a query parameter."""

    beta: bool | None = None


_post = partial(
    endpoint, "POST", takes=msgspec.Raw, query=MessagesQuery, gives=dict[str, Any], errors=(404, 409, 502, 504),
    scope="decide", batch=True,
)  # fmt: skip


@_post("/v1/messages")
async def messages(call: Call, body: bytes) -> Reply | Stream:
    """Anthropic's messages; `model: "headway/TASK"` decides among upstreams, and `id` is the decision's id."""
    return await answer(call, body, _MESSAGES, query=_beta(call))


@_post("/e/{episode}/v1/messages")
async def messages_of_episode(call: Call, body: bytes) -> Reply | Stream:
    """The same, as a step of an episode."""
    return await answer(call, body, _MESSAGES, query=_beta(call))


def _beta(call: Call) -> str:
    query: MessagesQuery = call.query
    return "?beta=true" if query.beta else ""
