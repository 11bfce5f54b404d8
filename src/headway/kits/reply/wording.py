"""Conversations into tokens, and tokens into text as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Prompt, Turn

__all__ = ["Spelling", "checked", "fitted", "rendered"]

_MOST_STOPS = 16
_PENDING = 16  # tokens that may wait for a character to become whole: what waits longer is no text
_BEFORE = 6  # tokens of the prompt that the first tokens of a reply are spelled after


def checked(prompt: Prompt) -> Prompt:
    """The prompt, or what is wrong with it."""
    given = [name for name in ("text", "turns", "tokens") if getattr(prompt, name)]
    wrong = ""
    if len(given) != 1:
        wrong = f"A prompt has exactly one of text, turns and tokens; this one has {' and '.join(given) or 'none'}."
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
    elif not _is_text(prompt.text, *prompt.stop, *(each.content for each in prompt.turns)):
        wrong = "A text holds half of a character (a lone surrogate), which no model can read."
    elif prompt.turns and prompt.turns[-1].role == "system":
        wrong = "The last turn is the system's, and nobody has asked anything."
    if wrong:
        raise InvalidInput(wrong, code="bad_prompt", hint="See `headway generate --help`.")
    return prompt


def _is_text(*texts: str) -> bool:
    try:
        return all(each.encode() is not None for each in texts)
    except UnicodeEncodeError:
        return False


def rendered(tokenizer: Any, turns: Sequence[Turn]) -> list[int]:
    """A conversation through the model's own template, up to where the reply begins.

    Control tokens that somebody wrote into a message are taken apart with a space, so that a message cannot end itself
    and speak as somebody else. A last turn of the assistant is continued.
    """
    if not tokenizer.chat_template:
        raise InvalidInput(
            "This model has no chat template.", code="no_chat_template", hint="Give it a text to continue instead."
        )
    messages = [{"role": each.role, "content": _harmless(tokenizer, each.content)} for each in turns]
    continued = turns[-1].role == "assistant"
    try:
        text = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=not continued, continue_final_message=continued
        )
    except Exception as error:  # templates raise what they like: jinja2's errors, ValueError, TypeError
        raise InvalidInput(
            f"The model's chat template refuses this conversation: {error}.",
            code="bad_conversation",
            hint="Most models want turns of user and assistant in turn, after at most one of the system.",
        ) from error
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


def _harmless(tokenizer: Any, content: str) -> str:
    for special in tokenizer.all_special_tokens:
        if special and special in content:
            content = content.replace(special, f"{special[:1]} {special[1:]}")
    return content


def fitted(tokenizer: Any, prompt: Prompt, window: int) -> tuple[list[int], int]:
    """The prompt's tokens and how many turns were left out so that they and max_tokens fit the window.

    The rule: the oldest turns go first, a question together with its answer; the system's turn and the last one stay.
    What is then still too long is refused. No message is ever cut.
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
        raise InvalidInput("The prompt has no tokens.", code="bad_prompt", hint="Give a text that is not empty.")
    if len(tokens) > room:
        what = "Without its older turns the prompt" if dropped else "The prompt"
        raise InvalidInput(
            f"{what} has {len(tokens)} tokens; with max_tokens {prompt.max_tokens} that is more than the model's "
            f"window of {window}.",
            code="prompt_too_long",
            hint=f"Shorten it, or ask for at most {max(0, window - len(tokens))} tokens.",
        )
    return tokens, dropped


def _oldest(turns: Sequence[Turn]) -> tuple[int, int] | None:
    """The oldest exchange that may go: from:to, never the system's turn nor the last user's and what follows it."""
    first = 1 if turns and turns[0].role == "system" else 0
    last = max((at for at, each in enumerate(turns) if each.role == "user"), default=len(turns) - 1)
    if first >= last:
        return None
    end = first + 1
    while end < last and turns[end].role != "user":
        end += 1
    return first, end


class Spelling:
    """Text of a reply as its tokens come: whole characters only, and never a part of what may become a stop string.

    spelling = Spelling(tokenizer, prompt_tokens, stop=("\\n",))
    spelling.add(token)       # the text that is certain now; may be empty
    spelling.stopped          # a stop string was met: nothing more comes
    spelling.rest()           # at the end: what was held back
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        # Some tokenisers spell a first token without its space: a few tokens of the prompt stand before it.
        self._tokens = list(prompt[-_BEFORE:])
        self._spelled = len(self._tokens)  # tokens whose text is out
        self._begin = 0  # where the piece that is decoded begins
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        self._tokens.append(token)
        before, now = self._decoded(self._spelled), self._decoded(len(self._tokens))
        if (now.endswith("�") or len(now) <= len(before)) and len(self._tokens) - self._spelled < _PENDING:
            return ""  # a character that is not whole yet, or a token without text
        self._begin, self._spelled = self._spelled, len(self._tokens)
        return self._released(now[len(before) :])

    def rest(self) -> str:
        """The end: what is left, incomplete characters as U+FFFD."""
        if self.stopped:
            return ""
        before, now = self._decoded(self._spelled), self._decoded(len(self._tokens))
        self._spelled = len(self._tokens)
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
        found = [at for at in (text.find(each) for each in self._stop) if at >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return text[: min(found)]
        keep = max((_overlap(text, each) for each in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """How many of the last characters of the text begin the stop string."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[-length:]):
            return length
    return 0
