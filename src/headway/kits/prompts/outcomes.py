"""The real-model mode: a mutation is worth what the model's answer to the mutated prompt does in its check.

    outcomes = Outcomes(generator, sandbox("auto"))
    outcomes.outcome(prompt, text)                               # Answered(passed, score, tokens, text)
    PromptsWorld(16, corpus(), encoder, outcomes)                # practise on it

reward = Σ weight · signal over `passed`, `score` and `tokens`, by prompt class (`reward.by_class`). The generator is a
local model, a worker, or any OpenAI-compatible endpoint behind the same protocol. It answers greedily by default,
so a text has one answer and is asked about once; with a temperature, `samples` answers are averaged.

An answer that could not be checked (there was no sandbox, say) is an error and is raised: it never counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.kits.prompts.checks import Outcome, check
from headway.kits.prompts.corpus import Prompt
from headway.kits.sandbox import Sandbox
from headway.nouns.errors import Unavailable
from headway.nouns.protocols import Completion, Floats, Generator, Turn
from headway.nouns.protocols import Prompt as Asked

__all__ = ["TOKEN_COST", "Answered", "Outcomes", "checked", "plain_reward"]

TOKEN_COST = 0.0002  # of one token read or written


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a model made of a text: means over its samples."""

    passed: float
    score: float
    tokens: float  # read and written
    text: str  # the first answer


Rewarding = Callable[[Prompt, Answered], float]


def plain_reward(prompt: Prompt, answered: Answered) -> float:
    """passed - TOKEN_COST · tokens, whatever the class."""
    del prompt
    return answered.passed - TOKEN_COST * answered.tokens


class Outcomes:
    """A judge for `PromptsWorld`; remembers every text that it asked about."""

    def __init__(
        self,
        generator: Generator,
        sandbox: Sandbox | None,
        *,
        reward: Rewarding = plain_reward,
        max_tokens: int = 64,
        temperature: float = 0.0,
        samples: int = 1,
        batch: int = 16,
        seed: int = 0,
    ) -> None:
        self._generator, self._sandbox, self._reward = generator, sandbox, reward
        self._max_tokens, self._temperature, self._samples = max_tokens, temperature, samples
        self._batch, self._seed = batch, seed
        self.known: dict[tuple[str, str], Answered] = {}  # prompt id, text

    def judge(
        self,
        subjects: Sequence[Prompt],
        kinds: NDArray[np.int64],
        texts: Sequence[str],
        changed: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Floats, NDArray[np.bool_]]:
        del kinds, changed, rng
        self.ask(list(zip(subjects, texts, strict=True)))
        found = [self.known[subject.id, text] for subject, text in zip(subjects, texts, strict=True)]
        rewards = np.array([self._reward(subject, each) for subject, each in zip(subjects, found, strict=True)])
        return rewards, np.array([each.passed >= 1.0 for each in found], dtype=np.bool_)

    def outcome(self, prompt: Prompt, text: str) -> Answered:
        self.ask([(prompt, text)])
        return self.known[prompt.id, text]

    def reward(self, prompt: Prompt, text: str) -> float:
        return self._reward(prompt, self.outcome(prompt, text))

    def ask(self, pairs: Sequence[tuple[Prompt, str]]) -> None:
        """Answers and checks what is not known yet, in batches."""
        new = list({(prompt.id, text): (prompt, text) for prompt, text in pairs}.values())
        new = [each for each in new if (each[0].id, each[1]) not in self.known]
        for begin in range(0, len(new), self._batch):
            part = new[begin : begin + self._batch]
            asked = [
                Asked(
                    turns=(Turn("user", text),),
                    max_tokens=self._max_tokens,
                    temperature=self._temperature,
                    seed=self._seed + number,
                )
                for _, text in part
                for number in range(self._samples)
            ]
            replies = self._generator.generate(asked)
            for place, (prompt, text) in enumerate(part):
                mine = replies[place * self._samples : (place + 1) * self._samples]
                self.known[prompt.id, text] = self._checked(prompt, mine)

    def _checked(self, prompt: Prompt, replies: Sequence[Completion]) -> Answered:
        found = [checked(prompt, reply.text, self._sandbox) for reply in replies]
        count = len(replies)
        return Answered(
            passed=sum(each.passed for each in found) / count,
            score=sum(each.score for each in found) / count,
            tokens=sum(reply.used for reply in replies) / count,
            text=replies[0].text,
        )


def checked(prompt: Prompt, answer: str, sandbox: Sandbox | None) -> Outcome:
    """How an answer did; raises where that could not be found out."""
    found = check(answer, prompt.check, sandbox)
    if found.status == "error":
        raise Unavailable(
            f"The answer to {prompt.id!r} could not be checked: {found.why}.",
            code="sandbox_missing",
            hint="Install bubblewrap, or start Docker.",
        )
    return found
