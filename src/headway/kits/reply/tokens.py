"""Turn prompts into tokens that fit the window, and generated tokens into text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.kits.models import Prompt, Turn
from headway.nouns import errors

_MOST_STOPS = 16
_PENDING = 16  # tokens that may wait for a complete character; after that they are not text
_BEFORE = 6  # tokens of the prompt that give context to the first tokens of a reply


def checked(prompt: Prompt) -> Prompt:
    """The prompt; raises if it is not valid."""
    present = [name for name in ("text", "turns", "tokens") if getattr(prompt, name)]
    wrong = ""
    if len(present) != 1:
        wrong = f"A prompt has exactly one of text, turns and tokens; this one has {' and '.join(present) or 'none'}."
    elif prompt.max_tokens < 1:
        wrong = f"max_tokens is {prompt.max_tokens!r}, expected 1 or more."
    elif not 0 <= prompt.temperature <= 100:
        wrong = f"temperature is {prompt.temperature!r}, expected 0 (greedy) to 100."
    elif 0 < prompt.temperature < 1e-3:
        wrong = f"temperature is {prompt.temperature!r}, expected 0 (greedy) or at least 0.001."
    elif not 0 < prompt.top_p <= 1:
        wrong = f"top_p is {prompt.top_p!r}, expected more than 0 and at most 1."
    elif len(prompt.stop) > _MOST_STOPS or not all(prompt.stop):
        wrong = f"stop has {len(prompt.stop)} texts, expected at most {_MOST_STOPS}, none of them empty."
    elif not _is_text(prompt.text, *prompt.stop, *(turn.content for turn in prompt.turns)):
        wrong = "A text contains a lone surrogate, which no model can read."
    elif prompt.turns and prompt.turns[-1].role == "system":
        wrong = "The last turn is the system's, expected a turn of the user or the assistant."
    if wrong:
        raise errors.InvalidInput(wrong, code="bad_prompt", hint="See `headway generate --help`.")
    return prompt


def _is_text(*texts: str) -> bool:
    try:
        return all(text.encode() is not None for text in texts)
    except UnicodeEncodeError:
        return False


def rendered(tokenizer: Any, turns: Sequence[Turn]) -> list[int]:
    """The tokens of a conversation in the model's own template, up to the start of the reply.

    Control tokens inside a message are split with a space, so that a message cannot end itself and impersonate another
    role. If the last turn is the assistant's, it is continued.
    """
    if not tokenizer.chat_template:
        raise errors.InvalidInput(
            "This model has no chat template.", code="no_chat_template", hint="Send a text to continue instead."
        )
    messages = [{"role": turn.role, "content": _harmless(tokenizer, turn.content)} for turn in turns]
    continued = turns[-1].role == "assistant"
    try:
        text = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=not continued, continue_final_message=continued
        )
    except Exception as error:  # templates raise jinja2's errors, ValueError, TypeError and others
        raise errors.InvalidInput(
            f"The model's chat template rejects this conversation: {error}.",
            code="bad_conversation",
            hint="Most models expect alternating turns of user and assistant, after at most one of the system.",
        ) from error
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return tokens


def _harmless(tokenizer: Any, content: str) -> str:
    for special in _control_tokens(tokenizer):
        if special in content:
            content = content.replace(special, f"{special[:1]} {special[1:]}")
    return content


def _control_tokens(tokenizer: Any) -> list[str]:
    """Texts that the tokeniser reads as one token of the model's format, longest first."""
    template = str(tokenizer.chat_template)
    added = tokenizer.added_tokens_decoder.values()
    names = {token.content for token in added if token.special or token.content in template}
    return sorted({*names, *tokenizer.all_special_tokens} - {""}, key=len, reverse=True)


def fitted(tokenizer: Any, prompt: Prompt, window: int) -> tuple[list[int], int]:
    """The prompt's tokens, and how many turns were dropped so that they and max_tokens fit the window.

    The oldest turns are dropped first, a question together with its answer; the system's turn and the last one stay. A
    prompt that is still too long is refused. Messages are never truncated.
    """
    room = window - prompt.max_tokens
    turns, dropped = list(prompt.turns), 0
    if prompt.tokens:
        tokens = list(prompt.tokens)
    elif prompt.text:
        tokens = list(tokenizer(prompt.text)["input_ids"])
    else:
        tokens = rendered(tokenizer, turns)
    while len(tokens) > room and (oldest := _oldest(turns)):
        del turns[oldest[0] : oldest[1]]
        dropped += oldest[1] - oldest[0]
        tokens = rendered(tokenizer, turns)
    if not tokens:
        raise errors.InvalidInput("The prompt has no tokens.", code="bad_prompt", hint="Use a text that is not empty.")
    if len(tokens) > room:
        what = "Without its older turns the prompt" if dropped else "The prompt"
        raise errors.InvalidInput(
            f"{what} has {len(tokens)} tokens; with max_tokens {prompt.max_tokens} that is more than the model's "
            f"window of {window}.",
            code="prompt_too_long",
            hint=f"Shorten it, or request at most {window - len(tokens)} tokens."
            if len(tokens) < window
            else "Shorten it.",
        )
    return tokens, dropped


def _oldest(turns: Sequence[Turn]) -> tuple[int, int] | None:
    """Start and end of the oldest exchange that can be dropped; the system's turn and the last exchange stay."""
    first = 1 if turns and turns[0].role == "system" else 0
    last = max((at for at, turn in enumerate(turns) if turn.role == "user"), default=len(turns) - 1)
    if first >= last:
        return None
    end = first + 1
    while end < last and turns[end].role != "user":
        end += 1
    return first, end


class Detokenizer:
    """The text of a reply, token by token: only complete characters, and never part of a possible stop string.

    detokenizer = Detokenizer(tokenizer, prompt_tokens, stop=("\\n",))
    detokenizer.add(token)       # the text that is certain now; may be empty
    detokenizer.stopped          # a stop string was found: there is no more text
    detokenizer.rest()           # at the end: the text that was held back
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        # Some tokenisers decode a first token without its space, so a few tokens of the prompt precede it.
        self._tokens = list(prompt[-_BEFORE:])
        self._decoded_to = len(self._tokens)  # tokens whose text was returned
        self._begin = 0  # start of the piece that is decoded
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        self._tokens.append(token)
        before, now = self._decoded(self._decoded_to), self._decoded(len(self._tokens))
        if (now.endswith("�") or len(now) <= len(before)) and len(self._tokens) - self._decoded_to < _PENDING:
            return ""  # an incomplete character, or a token without text
        self._begin, self._decoded_to = self._decoded_to, len(self._tokens)
        return self._released(now[len(before) :])

    def rest(self) -> str:
        """The remaining text at the end; incomplete characters become U+FFFD."""
        if self.stopped:
            return ""
        before, now = self._decoded(self._decoded_to), self._decoded(len(self._tokens))
        self._decoded_to = len(self._tokens)
        text = self._released(now[len(before) :])
        held, self._held = self._held, ""
        return text + held

    def _decoded(self, end: int) -> str:
        text: str = self._tokenizer.decode(
            self._tokens[self._begin : end], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _released(self, text: str) -> str:
        if not self._stop:
            return text
        text = self._held + text
        places = [at for at in (text.find(stop) for stop in self._stop) if at >= 0]
        if places:
            self.stopped = True
            self._held = ""
            return text[: min(places)]
        keep = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of the text that starts the stop string."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-length:]):
            return length
    return 0
