"""What a language model is asked, and what it answers: prompts, replies and the interface of every model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request to a language model: exactly one of `text`, `turns` and `tokens`, and how to sample the reply.

    Prompt(text="The capital of France is", max_tokens=8, temperature=0)      # continued as is
    Prompt(turns=(Turn("user", "What is 2+2?"),), seed=7)                     # through the model's chat template
    """

    text: str = ""
    turns: tuple[Turn, ...] = ()
    tokens: tuple[int, ...] = ()  # the exact input of an earlier reply
    max_tokens: int = 256
    temperature: float = 1.0  # 0: greedy
    top_p: float = 1.0
    stop: tuple[str, ...] = ()  # the reply ends before the first of these
    stop_tokens: tuple[int, ...] = ()  # in addition to the model's own end of text
    seed: int = 0  # the same seed gives the same reply, whatever else runs at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A reply with everything needed to train from it.

    `tokens` are all sampled tokens, including the one that ended the reply; `text` omits that one and a stop string.
    The log-probabilities align with `tokens`: `logprob_model` of the untempered model, `logprob_acting` of the sampling
    distribution (after temperature and top-p; 0 if greedy).
    """

    text: str
    tokens: tuple[int, ...]
    logprob_model: tuple[float, ...]
    logprob_acting: tuple[float, ...]
    finish: Literal["stop", "length"]
    prompt_tokens: tuple[int, ...]
    dropped_turns: int = 0  # oldest first, so that the rest fits the model's window
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    model: str = ""
    base: str = ""  # the hash of the weights, where a worker has computed it
    template: str = ""  # the hash of the chat template

    @property
    def used(self) -> int:
        """Tokens read and written."""
        return len(self.prompt_tokens) + len(self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Completion):
    """A reply with only the number of tokens known: from an endpoint, or from a file of answers.

    `tokens` and the log-probabilities are empty, so nothing can be trained from it. `estimated`: the endpoint did not
    count, and the numbers are a quarter of the characters.
    """

    tokens: tuple[int, ...] = ()
    logprob_model: tuple[float, ...] = ()
    logprob_acting: tuple[float, ...] = ()
    prompt_tokens: tuple[int, ...] = ()
    read: int
    written: int
    estimated: bool = False

    @property
    def used(self) -> int:
        return self.read + self.written


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed reply; the last one has the whole completion. The joined texts are its text."""

    text: str
    completion: Completion | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """Log-probabilities of a given reply under the untempered model, token by token."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


class Generator(Protocol):
    """A language model, in this process or in a worker. Safe to call from several threads."""

    @property
    def model(self) -> str: ...

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]: ...

    def stream(self, prompt: Prompt) -> Iterator[Delta]: ...

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored: ...
