"""What an upstream answered, as one text, for tasks with `keep_replies = true`.

    whole_reply(body)                     # the text of a whole answer
    reply = StreamedReply(); reply.read(event); reply.text

Of several choices the first counts. Calls of tools are lines `→ name(arguments)`. Reading is lenient: what is not in
the expected form is left out, and the client gets it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from headway.kits.proxy.events import StreamEvent
from headway.kits.reply import KeptReply, to_details
from headway.nouns import Detail

MOST = 100_000  # characters that are kept
_ROOM = 5_000  # a secret at the cut is redacted before the text is cut
_TEXTS = ("text", "output_text", "text_delta")


def reply_details(
    text: str, redact: Callable[[str], str], *, upstream: str, role: str, latency_s: float
) -> tuple[Detail, ...]:
    """The reply as the details of its decision, without secrets."""
    text = text[: MOST + _ROOM]
    clean = redact(text)
    kept = KeptReply(
        text=clean if len(clean) <= MOST else f"{clean[:MOST]}…",
        model=upstream,
        foreign=True,
        redacted=clean != text,
        role=role,
        latency_s=round(latency_s, 3),
    )
    return to_details(kept)


def whole_reply(body: bytes) -> str:
    """The text of an answer in any of the three formats."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return _joined(_parts(answer))


class StreamedReply:
    """The text of a streamed answer, collected event by event. Memory is bounded by `MOST`."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, str] = {}  # tool calls by their place
        self._whole = ""
        self._length = 0

    def read(self, event: StreamEvent) -> None:
        if event.data is None or self._length > MOST + _ROOM:
            return
        try:
            fields = msgspec.json.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if not isinstance(fields, dict):
            return
        if isinstance(fields.get("response"), dict):  # Responses: the last event has the whole text
            self._whole = _joined(_parts(fields["response"])) or self._whole
        for place, name, piece in _pieces(fields):
            self._length += len(piece) + len(name)
            if place is None:
                self._text.append(piece)
            elif name:
                self._calls[place] = f"→ {name}({piece}"
            elif place in self._calls:
                self._calls[place] += piece

    @property
    def text(self) -> str:
        return self._whole or _joined(["".join(self._text), *(f"{call})" for call in self._calls.values())])


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)


def _parts(answer: Any) -> Iterator[str]:
    """The texts and calls of a whole answer."""
    if not isinstance(answer, dict):
        return
    choices = _rows(answer.get("choices"))
    for choice in choices[:1]:
        message = choice.get("message")
        if isinstance(message, dict):
            yield from _texts(message.get("content"))
            for call in _rows(message.get("tool_calls")):
                yield _call(call.get("function"))
    for item in _rows(answer.get("output")):
        yield from _texts(item.get("content")) if item.get("type") == "message" else [_call(item)]
    yield from _texts(answer.get("content"))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in _rows(content):
        if part.get("type") == "tool_use":
            yield _call(part)
        elif part.get("type") in _TEXTS and isinstance(part.get("text"), str):
            yield part["text"]


def _call(call: Any) -> str:
    """One call of a tool, in any of the three formats."""
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return ""
    given = call.get("arguments", call.get("input"))
    return f"→ {call['name']}({given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()})"


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _pieces(fields: dict[str, Any]) -> Iterator[tuple[int | None, str, str]]:
    """The new text of an event: (None, "", text), or (place, name, arguments) of a call, whose name comes once."""
    yield from _chat_pieces(fields)
    kind, place, delta = fields.get("type"), _place(fields.get("index")), fields.get("delta")
    if kind == "response.output_text.delta" and isinstance(delta, str):
        yield None, "", delta
    elif kind == "content_block_start":
        block = fields.get("content_block")
        if isinstance(block, dict) and block.get("type") == "tool_use":
            yield place, _word(block.get("name")), ""
    elif kind == "content_block_delta" and isinstance(delta, dict):
        if delta.get("type") == "input_json_delta":
            yield place, "", _word(delta.get("partial_json"))
        else:
            yield from ((None, "", text) for text in _texts([delta]))


def _chat_pieces(fields: dict[str, Any]) -> Iterator[tuple[int | None, str, str]]:
    """The new text of a chunk of OpenAI's chat completions."""
    for choice in _rows(fields.get("choices")):
        delta = choice.get("delta")
        if choice.get("index", 0) == 0 and isinstance(delta, dict):
            yield from ((None, "", text) for text in _texts(delta.get("content")))
            for call in _rows(delta.get("tool_calls")):
                function = call.get("function")
                if isinstance(function, dict):
                    yield _place(call.get("index")), _word(function.get("name")), _word(function.get("arguments"))


def _place(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
