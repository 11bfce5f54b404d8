"""What a smaller number format changes: the perplexity of fixed texts, and the share of greedy tokens that stay equal.

    change = measured(int8, float32)        # of the same folder
    print(change)                           # perplexity × … and …% of greedy tokens equal to float32, on 6 questions

Both models write greedily, and both score the same replies, token by token, in the engine that serves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any, NamedTuple

import torch

from headway.kits.models import Prompt, Turn
from headway.kits.reply.probes import JUDGING

_QUESTIONS, _TOKENS = 6, 32


class FormatChange(NamedTuple):
    """Compared with float32."""

    perplexity_ratio: float
    equal_tokens: float  # share
    questions: int

    def __str__(self) -> str:
        return (
            f"perplexity × {self.perplexity_ratio:.3f} and {self.equal_tokens:.0%} of greedy tokens equal to float32, "
            f"on {self.questions} questions"
        )


def measured(model: Any, exact: Any) -> FormatChange:
    """What the format of `model` changes against `exact`, on fixed questions."""
    asked = [_prompt(model, question) for question, _ in JUDGING[:_QUESTIONS]]
    replies = [list(reply.tokens) for reply in exact.generate(asked)]
    return change_of(model, exact, list(zip(asked, replies, strict=True)))


def change_of(model: Any, exact: Any, replies: Sequence[tuple[Prompt, list[int]]], adapter: str = "") -> FormatChange:
    """The same, on given replies of the exact model."""
    same = total = 0
    losses = {"mine": 0.0, "exact": 0.0}
    count = 0
    written = model.generate([prompt for prompt, _ in replies], adapter=adapter)
    for (_, reply), mine in zip(replies, written, strict=True):
        same += sum(one == other for one, other in zip(mine.tokens, reply, strict=False))
        total += max(len(reply), len(mine.tokens))
        for name, side in (("mine", model), ("exact", exact)):
            losses[name] -= sum(forced(side, mine.prompt_tokens, reply, adapter))
        count += len(reply)
    ratio = exp(min(50.0, (losses["mine"] - losses["exact"]) / max(1, count)))
    return FormatChange(ratio, same / max(1, total), len(replies))


def _prompt(model: Any, question: str) -> Prompt:
    if model.tokenizer.chat_template:
        return Prompt(turns=(Turn("user", question),), max_tokens=_TOKENS, temperature=0.0)
    return Prompt(text=f"{question}\n\n", max_tokens=_TOKENS, temperature=0.0)


@torch.inference_mode()
def forced(model: Any, prompt: Sequence[int], reply: Sequence[int], adapter: str = "") -> list[float]:
    """Log-probabilities of a given reply, token by token, by the engine itself."""
    cache, logprobs = model.new_cache(adapter), []
    ids, place = torch.tensor([list(prompt)]), 0
    for token in reply:
        places = torch.arange(place, place + ids.shape[1])[None]
        logits = model.forward(ids, places, None, cache)
        logprobs.append(float(torch.log_softmax(logits[0].float(), -1)[token]))
        place += ids.shape[1]
        ids = torch.tensor([[token]])
    return logprobs
