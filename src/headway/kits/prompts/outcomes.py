"""The real-model mode: a mutation's reward is the checked result of the model's answer.

    outcomes = Outcomes(generator, sandbox("auto"))
    outcomes.outcome(prompt, text)                               # Answered(passed, score, tokens, text)
    PromptsWorld(16, corpus(), encoder, outcomes)                # practise on it

reward = passed − TOKEN_COST · tokens. The generator is a local model, a worker, or any OpenAI-compatible endpoint
behind the same protocol. It answers greedily, so a text has one answer and is sent once.

An answer that could not be checked (for example, without a sandbox) raises an error: it never counts as failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.kits.models import Generator, Prompt, Turn
from headway.kits.prompts.checked_prompts import CheckedPrompt
from headway.kits.sandbox import CheckResult, Sandbox, check
from headway.nouns import Floats, errors

TOKEN_COST = 0.0002  # of one token read or written


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A model's result for a text."""

    passed: float
    score: float
    tokens: float  # read and written
    text: str

    @property
    def reward(self) -> float:
        return self.passed - TOKEN_COST * self.tokens


class Outcomes:
    """A judge for `PromptsWorld`; caches the result of every text."""

    def __init__(self, generator: Generator, sandbox: Sandbox | None, *, max_tokens: int = 64, batch: int = 16) -> None:
        self._generator, self._sandbox, self._max_tokens, self._batch = generator, sandbox, max_tokens, batch
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
        rewards = np.array([answer.reward for answer in answers])
        return rewards, np.array([answer.passed >= 1.0 for answer in answers], dtype=np.bool_)

    def outcome(self, prompt: CheckedPrompt, text: str) -> Answered:
        self.ask([(prompt, text)])
        return self.known[prompt.id, text]

    def reward(self, prompt: CheckedPrompt, text: str) -> float:
        return self.outcome(prompt, text).reward

    def ask(self, pairs: Sequence[tuple[CheckedPrompt, str]]) -> None:
        """Ask the model for unknown texts, in batches, and check the answers."""
        new = list({(prompt.id, text): (prompt, text) for prompt, text in pairs}.values())
        new = [pair for pair in new if (pair[0].id, pair[1]) not in self.known]
        for begin in range(0, len(new), self._batch):
            part = new[begin : begin + self._batch]
            asked = [
                Prompt(turns=(Turn("user", text),), max_tokens=self._max_tokens, temperature=0.0) for _, text in part
            ]
            for (prompt, text), reply in zip(part, self._generator.generate(asked), strict=True):
                outcome = checked(prompt, reply.text, self._sandbox)
                self.known[prompt.id, text] = Answered(
                    passed=float(outcome.passed), score=outcome.score, tokens=float(reply.used), text=reply.text
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
