"""What the policy sees of a conversation: the latest user message, a few counts, and the episode.

- **Text**: the latest user message that contains text (tool results do not count). Of a very long message, the first
  and the last 10,000 characters.
- **State**: `prompt_tokens_about` (characters / 4; exact counts are signals), `messages`, `user_turns`, `tools`,
  `images`, `max_tokens` if the request sets it, `structured`, `stream`, `primary_failure_count` (upstreams that have
  already failed for this request), and the fields of `headway.state`.
- **Episode**: from the URL `/e/{episode}/v1/…`, else the header `x-headway-episode`, else `headway.episode` in the
  body. A sticky task without any of these uses a hash of key, task and the messages up to the first user message, which
  every later request of the conversation repeats. Two conversations with the same beginning share one episode.

Reading is lenient: parts in an unexpected form are ignored here, and the upstream decides whether to accept them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.nouns import errors
from headway.serve import Call, strict

Body = dict[str, msgspec.Raw]  # values keep the client's bytes
_END, _ROOM = 10_000, 5_000
_MOST_HASHED = 1_000_000
_TEXT_PARTS = ("text", "input_text", "output_text")
_IMAGE_PARTS = ("image", "image_url", "input_image")
_decode_body = msgspec.json.Decoder(Body).decode
_canonical = msgspec.json.Encoder(order="deterministic").encode


class RequestOptions(strict):
    """The options for Headway itself, which a request carries under the key `headway`."""

    role: Annotated[str, Meta(max_length=200)] = ""
    episode: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    state: dict[str, Any] | None = None  # the project checks it
    idempotency_key: Annotated[str, Meta(max_length=200)] = ""
    request_id: Annotated[str, Meta(max_length=200)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request as the policy and the router see it."""

    text: str
    state: Mapping[str, Any]
    opening: bytes | None  # the messages that identify the conversation; None: there is no user message
    stream: bool
    previous: str = ""  # Responses: the answer that this one continues

    def shortened(self, clean: Callable[[str], str]) -> str:
        """Both ends of a very long text, redacted before they are cut: half a secret would not be recognised."""
        if len(self.text) <= 2 * _END:
            return clean(self.text)
        return f"{clean(self.text[: _END + _ROOM])[:_END]}\n…\n{clean(self.text[-_END - _ROOM :])[-_END:]}"


def body_of(raw: bytes) -> Body:
    """The request's fields, as raw bytes."""
    raw.decode()  # fields that are forwarded unread must be UTF-8 too
    return _decode_body(raw)


def plain(body: Body, name: str) -> Any:
    """One field, decoded; None if it is missing."""
    value = body.get(name)
    return None if value is None else msgspec.json.decode(value)


def _list(body: Body, name: str) -> list[Any]:
    value = plain(body, name)
    return value if isinstance(value, list) else []


def options_of(call: Call, body: Body) -> RequestOptions:
    """Role, episode, state and the client's names of the request, from the URL, the headers or the body."""
    raw = body.get("headway")
    sent = RequestOptions() if raw is None else msgspec.json.decode(raw, type=RequestOptions)
    role = call.header("x-headway-role") or sent.role or _role_in_metadata(body)
    episode = call.params.get("episode") or call.header("x-headway-episode") or sent.episode
    named = call.header("idempotency-key") or sent.idempotency_key
    request = call.header("x-client-request-id") or call.header("x-request-id") or sent.request_id
    if not _is_name(request):
        request = ""  # proxies write it: not worth an error
    for what, name in (("role", role), ("episode", episode or ""), ("idempotency key", named)):
        if not _is_name(name):
            raise errors.InvalidInput(
                f"The {what} is not a valid name.", code="bad_name", hint="Use at most 200 printable characters."
            )
    return RequestOptions(
        role=role, episode=episode or None, state=sent.state, idempotency_key=named, request_id=request
    )


def _is_name(text: str) -> bool:
    return len(text) <= 200 and text.isprintable()


def _role_in_metadata(body: Body) -> str:
    metadata = plain(body, "metadata")
    value = metadata.get("headway_role") if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def conversation_name(task: str, key: str, conversation: Conversation) -> str | None:
    """The episode of a conversation whose client names none."""
    if conversation.opening is None:
        return None
    digest = hashlib.blake2b(conversation.opening, digest_size=12, person=b"headway-talk")
    digest.update(f"\0{task}\0{key}".encode())
    return f"conversation-{digest.hexdigest()}"


def of_chat(body: Body, *, system: str = "") -> Conversation:
    """OpenAI's `messages`; also Anthropic's, which has its system prompt in the field `system`."""
    before = plain(body, system) if system else None
    return _conversation(body, before, _list(body, "messages"), limits=("max_completion_tokens", "max_tokens"))


def of_input(body: Body) -> Conversation:
    """OpenAI's Responses: `instructions`, and `input` as a text or as items."""
    content = plain(body, "input")
    rows = [{"role": "user", "content": content}] if isinstance(content, str) else _list(body, "input")
    previous = plain(body, "previous_response_id")
    return _conversation(
        body,
        plain(body, "instructions"),
        rows,
        limits=("max_output_tokens",),
        previous=previous if isinstance(previous, str) else "",
    )


def _conversation(
    body: Body, before: Any, rows: list[Any], *, limits: tuple[str, ...], previous: str = ""
) -> Conversation:
    messages = [row for row in rows if isinstance(row, dict)]
    text, turns, images = "", 0, 0
    characters = sum(map(len, _texts(before)))
    first: int | None = None
    for place, message in enumerate(messages):
        content = message.get("content")
        words = _texts(content)
        characters += sum(map(len, words))
        images += _images(content)
        if message.get("role") == "user" and (words or not isinstance(content, list)):
            turns += 1
            text = "\n".join(words) or text
            first = place if first is None else first
    state: dict[str, Any] = {
        "prompt_tokens_about": (characters + 3) // 4,
        "messages": len(messages),
        "user_turns": turns,
        "tools": len(_list(body, "tools")),
        "images": images,
        "structured": "response_format" in body or "text" in body,
        "stream": plain(body, "stream") is True,
    }
    limit = _token_limit(body, limits)
    if limit is not None:
        state["max_tokens"] = limit
    opening = None
    if first is not None and not previous:
        opening = _canonical([before, messages[: first + 1]])[:_MOST_HASHED]
    return Conversation(text=text, state=state, opening=opening, stream=state["stream"], previous=previous)


def _token_limit(body: Body, names: tuple[str, ...]) -> int | None:
    asked = (plain(body, name) for name in names)
    return next((most for most in asked if type(most) is int and 0 < most < 2**53), None)


def _texts(content: Any) -> list[str]:
    """The texts in a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        return []
    parts = (part for part in content if isinstance(part, dict) and part.get("type", "text") in _TEXT_PARTS)
    return [words for part in parts if isinstance(words := part.get("text"), str) and words]


def _images(content: Any) -> int:
    if not isinstance(content, list):
        return 0
    return sum(isinstance(part, dict) and part.get("type") in _IMAGE_PARTS for part in content)
