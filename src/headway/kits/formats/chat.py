"""Conversations with language models: interaction logs, and the JSON of chat endpoints.

- `interactions`: `{"timestamp", "prompt", "response", "reward": number or null}`, one exchange per line;
- `openai-chat`: `{"request": {...}, "response": {...}}` as a proxy logs them, the output of the batch API, or
  `{"messages": [...]}` as in files for fine-tuning.

A reply is a decision of the task `reply`. Its only candidate is the reply itself, named by a hash of its text. With
`--map action=model`, an `openai-chat` line is a routing decision instead: the action is the model that answered.
An exchange belongs to an episode only if it names its conversation.
"""

from __future__ import annotations

import hashlib
from typing import Any

from headway.kits.data import (
    Format,
    ImportedSignal,
    Options,
    Record,
    Wrong,
    by_line,
    checked_text,
    fields_left,
    moment,
    name_of,
    number,
    object_of,
    shown,
    text_of,
)
from headway.nouns import Candidate, Value

TASK = "reply"
_TURN = ("timestamp", "prompt", "response", "reward", "rating", "role", "model", "conversation_id", "session_id", "id")
_OUTCOMES = ("reward", "rating", "thumbs", "cost_usd", "latency_s")
_LINE = ("request", "response", "messages", "error", "timestamp", "created", "id", "custom_id", "metadata", *_OUTCOMES)
_CONVERSATION = ("conversation_id", "session_id", "thread_id")


def reply(text: str, model: str = "") -> Candidate:
    """A reply as a candidate: its text is its description, the hash of the text its name."""
    features: dict[str, Value] = {"text": text, "model": model} if model else {"text": text}
    return Candidate(f"reply-{hashlib.sha256(text.encode()).hexdigest()[:12]}", features)


def looks_like_interaction(row: dict[str, Any]) -> bool:
    return isinstance(row.get("prompt"), str) and "response" in row and not isinstance(row["response"], dict)


def read_interaction(line: int, row: dict[str, Any], _: Options) -> Record:
    at = moment(row, "timestamp", optional=True)
    prompt, answer = text_of(row, "prompt"), text_of(row, "response", optional=True)
    signals = _signals(row, ("reward", "rating"), at)
    failed = () if answer else (ImportedSignal(name="failed", value=1.0, label="no response", at=at),)
    candidate = reply(answer, name_of(row, "model", optional=True))
    return Record(
        line=line,
        origin=name_of(row, "id", optional=True),
        action=candidate.name,
        candidates=(candidate,),
        text=prompt,
        role=name_of(row, "role", optional=True),
        episode=_conversation(row),
        at=at,
        signals=(*signals, *failed),
        ignored=tuple(fields_left(row, _TURN)),
    )


def looks_like_chat(row: dict[str, Any]) -> bool:
    if isinstance(row.get("messages"), list):
        return True
    return isinstance(row.get("request"), dict) and isinstance(row.get("response"), dict | None)


def read_chat(line: int, row: dict[str, Any], options: Options) -> Record:
    request, response = object_of(row, "request", optional=True), object_of(row, "response", optional=True)
    request, answer = _body(request), _body(response)
    messages = request.get("messages") if request else row.get("messages")
    turns = _turns(messages, "request.messages" if request else "messages")
    at = moment(row, "timestamp", optional=True) or moment(answer, "created", optional=True)
    words, failed = _answer(row, response, answer)
    if not request:  # a file for fine-tuning: the last turn is the reply
        if not turns or turns[-1][0] != "assistant":
            raise Wrong("messages", "messages does not end with an assistant's turn, expected the reply there.")
        words, turns = turns[-1][1], turns[:-1]
    if not turns:
        raise Wrong("messages", "messages has no turn before the reply, expected at least one.")
    model = name_of(answer, "model", optional=True) or name_of(request, "model", optional=True)
    candidate = reply(words, model)
    if options.columns.get("action") == "model":
        if not model:
            raise Wrong("model", "neither request nor response names a model.", "Omit --map action=model.")
        candidate = Candidate(model)
    state: dict[str, Value] = {}
    temperature = number(request, "temperature", optional=True)
    if temperature is not None:
        state["temperature"] = temperature
    origin = name_of(answer, "id", optional=True) or name_of(row, "id", optional=True)
    return Record(
        line=line,
        origin=origin or name_of(row, "custom_id", optional=True),
        action=candidate.name,
        candidates=(candidate,),
        text=checked_text("messages", _rendered(turns)),
        state=state,
        episode=_conversation(row) or _conversation(object_of(row, "metadata", optional=True)),
        at=at,
        signals=_outcome(row, answer, failed, at),
        schema="request and response" if request else "fine-tuning",
        ignored=tuple(fields_left(row, (*_LINE, *_CONVERSATION))),
    )


def _outcome(row: dict[str, Any], answer: dict[str, Any], failed: str, at: float | None) -> tuple[ImportedSignal, ...]:
    usage = object_of(answer, "usage", optional=True)
    signals = (*_signals(row, _OUTCOMES, at), *_signals(usage, ("prompt_tokens", "completion_tokens"), at))
    return (*signals, ImportedSignal(name="failed", value=1.0, label=failed, at=at)) if failed else signals


def _body(side: dict[str, Any]) -> dict[str, Any]:
    """The batch API wraps both sides: {"status_code", "body"}."""
    inner = side.get("body")
    return inner if isinstance(inner, dict) else side


def _turns(messages: object, path: str) -> list[tuple[str, str]]:
    if not isinstance(messages, list):
        raise Wrong(path, f"{path} is {shown(messages)}, expected a list of messages.")
    return [_turn(message, f"{path}[{place}]") for place, message in enumerate(messages)]


def _turn(message: object, path: str) -> tuple[str, str]:
    if not isinstance(message, dict):
        raise Wrong(path, f"{path} is {shown(message)}, expected an object with role and content.")
    return name_of(message, "role"), _content(message.get("content"), f"{path}.content")


def _content(content: object, path: str) -> str:
    """The text of a message, or the texts of its parts."""
    if content is None:
        return ""  # a tool call
    if isinstance(content, str):
        return checked_text(path, content)
    if isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return checked_text(path, "\n".join(texts))
    raise Wrong(path, f"{path} is {shown(content)}, expected a text or a list of parts.")


def _rendered(turns: list[tuple[str, str]]) -> str:
    """A single question unchanged; a conversation with the role of each turn."""
    if len(turns) == 1:
        return turns[0][1]
    return "\n".join(f"{role}: {words}" for role, words in turns)


def _answer(row: dict[str, Any], response: dict[str, Any], answer: dict[str, Any]) -> tuple[str, str]:
    """The text of the reply, or the reason why there is none."""
    code = number(response, "status_code", optional=True)
    wrong = row.get("error") or answer.get("error")
    if wrong or (code is not None and code >= 400):
        return "", f"{wrong}"[:200] if wrong else f"status {code:.0f}"
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        return "", "" if "messages" in row else "no choices"
    first = choices[0] if isinstance(choices[0], dict) else {}
    message = first.get("message")
    if not isinstance(message, dict):
        raise Wrong("response.choices[0].message", "response.choices[0].message is missing, expected the reply.")
    return _content(message.get("content"), "response.choices[0].message.content"), ""


def _signals(row: dict[str, Any], names: tuple[str, ...], at: float | None) -> tuple[ImportedSignal, ...]:
    values = ((name, number(row, name, optional=True)) for name in names)
    return tuple(ImportedSignal(name=name, value=value, at=at) for name, value in values if value is not None)


def _conversation(row: dict[str, Any]) -> str | None:
    for name in _CONVERSATION:
        if row.get(name) is not None:
            return name_of(row, name) or None
    return None


INTERACTIONS = Format(
    name="interactions",
    about="prompt, response and reward, one exchange per line",
    task=TASK,
    read=by_line(read_interaction),
    looks=looks_like_interaction,
    priority=40,
)


CHAT = Format(
    name="openai-chat",
    about="chat requests with their responses, batch output, fine-tuning files",
    task=TASK,
    read=by_line(read_chat),
    looks=looks_like_chat,
    priority=41,
)
