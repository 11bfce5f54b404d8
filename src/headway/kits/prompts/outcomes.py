"""The real-model mode: a mutation's reward is the checked result of the model's answer.

    outcomes = Outcomes(generator, sandbox("auto"))
    outcomes.outcome(prompt, text)                               # Answered(passed, score, tokens, text)
    PromptsWorld(16, corpus(), encoder, outcomes)                # practise on it

reward = Σ weight · signal over `passed`, `score` and `tokens`. The generator is a
local model, a worker, or any OpenAI-compatible endpoint behind the same protocol. It answers greedily by default,
so a text has one answer and is sent once; with a temperature, `samples` answers are averaged.

An answer that could not be checked (for example, without a sandbox) raises an error: it never counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.kits.models import Completion, Generator, Prompt, Turn
from headway.kits.prompts.checked_prompts import CheckedPrompt
from headway.kits.sandbox import CheckResult, Sandbox, check
from headway.nouns import Floats, errors

TOKEN_COST = 0.0002  # of one token read or written


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A model's result for a text: means over its samples."""

    passed: float
    score: float
    tokens: float  # read and written
    text: str  # the first answer


Rewarding = Callable[[CheckedPrompt, Answered], float]


def plain_reward(prompt: CheckedPrompt, answered: Answered) -> float:
    """passed - TOKEN_COST · tokens, whatever the class."""
    del prompt
    return answered.passed - TOKEN_COST * answered.tokens


class Outcomes:
    """A judge for `PromptsWorld`; caches the result of every text."""

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
        subjects: Sequence[CheckedPrompt],
        kinds: NDArray[np.int64],
        texts: Sequence[str],
        changed: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Floats, NDArray[np.bool_]]:
        del kinds, changed, rng
        self.ask(list(zip(subjects, texts, strict=True)))
        answers = [self.known[subject.id, text] for subject, text in zip(subjects, texts, strict=True)]
        rewards = np.array([self._reward(subject, answer) for subject, answer in zip(subjects, answers, strict=True)])
        return rewards, np.array([answer.passed >= 1.0 for answer in answers], dtype=np.bool_)

    def outcome(self, prompt: CheckedPrompt, text: str) -> Answered:
        self.ask([(prompt, text)])
        return self.known[prompt.id, text]

    def reward(self, prompt: CheckedPrompt, text: str) -> float:
        return self._reward(prompt, self.outcome(prompt, text))

    def ask(self, pairs: Sequence[tuple[CheckedPrompt, str]]) -> None:
        """Ask the model for unknown texts, in batches, and check the answers."""
        new = list({(prompt.id, text): (prompt, text) for prompt, text in pairs}.values())
        new = [pair for pair in new if (pair[0].id, pair[1]) not in self.known]
        for begin in range(0, len(new), self._batch):
            part = new[begin : begin + self._batch]
            asked = [
                Prompt(
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

    def _checked(self, prompt: CheckedPrompt, replies: Sequence[Completion]) -> Answered:
        outcomes = [checked(prompt, reply.text, self._sandbox) for reply in replies]
        count = len(replies)
        return Answered(
            passed=sum(outcome.passed for outcome in outcomes) / count,
            score=sum(outcome.score for outcome in outcomes) / count,
            tokens=sum(reply.used for reply in replies) / count,
            text=replies[0].text,
        )


def checked(prompt: CheckedPrompt, answer: str, sandbox: Sandbox | None) -> CheckResult:
    """The result of an answer; raises if it could not be checked."""
    outcome = check(answer, prompt.check, sandbox)
    if outcome.status == "error":
        raise errors.Unavailable(
            f"The answer to {prompt.id!r} could not be checked: {outcome.why}.",
            code="sandbox_missing",
            hint="Install bubblewrap, or start Docker.",
        )
    return outcome
