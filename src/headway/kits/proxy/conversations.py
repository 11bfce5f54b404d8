"""What a conversation tells the policy: its latest words, a few counts, and which conversation it is.

- **Text**: the text of the latest user message that has any (tool results are no words of the user's); of a very long
  one the first and the last 10,000 characters.
- **State**: `prompt_tokens_about` (characters / 4: exact counts come as signals), `messages`, `user_turns`, `tools`,
  `images`, `max_tokens` where asked for, `structured`, `stream`, `primary_failure_count` (upstreams that failed this
  request already), and what the client adds under `headway.state`.
- **Episode**: of the URL `/e/{episode}/v1/…`, else of the header `x-headway-episode`, else of `headway.episode` in the
  body. In a sticky task with none of these: a hash of key, task and the messages up to the first user message, which
  every later request of the conversation repeats. Two conversations that begin alike are one to this rule.

Requests are read leniently: what does not have the expected form counts for nothing, and the upstream judges it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.nouns.errors import InvalidInput
from headway.serve.endpoint import Call, strict
from headway.serve.wire import Name, State

__all__ = ["Asked", "Body", "Conversation", "asked_of", "body_of", "conversation_name", "of_chat", "of_input", "plain"]

Body = dict[str, msgspec.Raw]  # the values keep the client's own bytes
_END, _ROOM = 10_000, 5_000
_MOST_HASHED = 1_000_000
_TEXT_PARTS = ("text", "input_text", "output_text")
_IMAGE_PARTS = ("image", "image_url", "input_image")
_decode_body = msgspec.json.Decoder(Body).decode
_canonical = msgspec.json.Encoder(order="deterministic").encode


class Asked(strict):
    """What a request says to Headway itself, under the one key `headway`."""

    role: Annotated[str, Meta(max_length=200)] = ""
    episode: Name | None = None
    state: State | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request as the policy and the router see it."""

    text: str
    state: Mapping[str, Any]
    opening: bytes | None  # the messages that name the conversation; None: there is no user message
    stream: bool
    previous: str = ""  # Responses: the answer that this one continues

    def shortened(self, clean: Callable[[str], str]) -> str:
        """Both ends of a very long text. Secrets go first, with some room: a half of one is not known as one."""
        if len(self.text) <= 2 * _END:
            return clean(self.text)
        return f"{clean(self.text[: _END + _ROOM])[:_END]}\n…\n{clean(self.text[-_END - _ROOM :])[-_END:]}"


def body_of(raw: bytes) -> Body:
    """The request's fields, each as it was written."""
    raw.decode()  # what passes through unread must be UTF-8 all the same
    return _decode_body(raw)


def plain(body: Body, name: str) -> Any:
    """One field, decoded; None where it is missing."""
    found = body.get(name)
    return None if found is None else msgspec.json.decode(found)


def asked_of(call: Call, body: Body) -> Asked:
    """Role, episode and state, wherever the client put them."""
    found = body.get("headway")
    asked = Asked() if found is None else msgspec.json.decode(found, type=Asked)
    role = call.header("x-headway-role") or asked.role
    if not role:
        metadata = plain(body, "metadata")
        given = metadata.get("headway_role") if isinstance(metadata, dict) else None
        role = given if isinstance(given, str) else ""
    episode = call.params.get("episode") or call.header("x-headway-episode") or asked.episode
    for what, name in (("role", role), ("episode", episode or "")):
        if len(name) > 200 or not name.isprintable():
            raise InvalidInput(f"The {what} cannot be used.", code="bad_name", hint="Use up to 200 characters.")
    return Asked(role=role, episode=episode or None, state=asked.state)


def conversation_name(task: str, key: str, conversation: Conversation) -> str | None:
    """The episode of a conversation that nobody named."""
    if conversation.opening is None:
        return None
    digest = hashlib.blake2b(conversation.opening, digest_size=12, person=b"headway-talk")
    digest.update(f"\0{task}\0{key}".encode())
    return f"conversation-{digest.hexdigest()}"


def of_chat(body: Body, *, system: str = "") -> Conversation:
    """OpenAI's `messages`; Anthropic's too, whose system prompt stands in the field `system`."""
    before = plain(body, system) if system else None
    messages = plain(body, "messages")
    rows = messages if isinstance(messages, list) else []
    return _conversation(body, before, rows, tools="tools", limits=("max_completion_tokens", "max_tokens"))


def of_input(body: Body) -> Conversation:
    """OpenAI's Responses: `instructions`, and `input` as a text or as items."""
    given = plain(body, "input")
    rows = [{"role": "user", "content": given}] if isinstance(given, str) else given if isinstance(given, list) else []
    previous = plain(body, "previous_response_id")
    return _conversation(
        body,
        plain(body, "instructions"),
        rows,
        tools="tools",
        limits=("max_output_tokens",),
        previous=previous if isinstance(previous, str) else "",
    )


def _conversation(
    body: Body, before: Any, rows: list[Any], *, tools: str, limits: tuple[str, ...], previous: str = ""
) -> Conversation:
    messages = [each for each in rows if isinstance(each, dict)]
    text, turns, images = "", 0, 0
    characters = sum(map(len, _texts(before)))
    first: int | None = None
    for place, each in enumerate(messages):
        content = each.get("content")
        words = _texts(content)
        characters += sum(map(len, words))
        images += _images(content)
        if each.get("role") == "user" and (words or not isinstance(content, list)):
            turns += 1
            text = "\n".join(words) or text
            first = place if first is None else first
    offered = plain(body, tools)
    state: dict[str, Any] = {
        "prompt_tokens_about": (characters + 3) // 4,
        "messages": len(messages),
        "user_turns": turns,
        "tools": len(offered) if isinstance(offered, list) else 0,
        "images": images,
        "structured": "response_format" in body or "text" in body,
        "stream": plain(body, "stream") is True,
    }
    for name in limits:
        limit = plain(body, name)
        if isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit < 2**53:
            state["max_tokens"] = limit
            break
    opening = None
    if first is not None and not previous:
        opening = _canonical([before, messages[: first + 1]])[:_MOST_HASHED]
    return Conversation(
        text=text,
        state=state,
        opening=opening,
        stream=state["stream"],
        previous=previous,
    )


def _texts(content: Any) -> list[str]:
    """The words in a message's content: a text, or parts of which some are texts."""
    if isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        return []
    parts = (each for each in content if isinstance(each, dict) and each.get("type", "text") in _TEXT_PARTS)
    return [words for each in parts if isinstance(words := each.get("text"), str) and words]


def _images(content: Any) -> int:
    if not isinstance(content, list):
        return 0
    return sum(isinstance(each, dict) and each.get("type") in _IMAGE_PARTS for each in content)
