"""Few-shot memory: liked replies as examples in the prompt, while there are too few ratings to train weights.

as_turns(nearest(liked, "What is rust?", most=2))      # turns of user and assistant, nearest last
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from headway.kits.models import Turn

_WORD = re.compile(r"\w+")
_LONGEST = 1_000  # characters of an example's answer


class LikedReply(NamedTuple):
    """A question, an answer that was liked, and how much."""

    question: str
    answer: str
    reward: float
    decision: str = ""  # where it was liked


def nearest(liked: Sequence[LikedReply], text: str, *, most: int = 2) -> list[LikedReply]:
    """The liked replies whose questions are nearest to a text; the nearest comes last.

    Nearness is the cosine of word counts, with the reward as a small advantage. An answer to the same question is not
    an example: it would be copied.
    """
    asked = _counts(text)
    ranked = sorted(
        ((_cosine(asked, _counts(one.question)) + 0.1 * one.reward, place) for place, one in enumerate(liked)
         if one.question.strip() != text.strip() and len(one.answer) <= _LONGEST),
        reverse=True,
    )[:most]  # fmt: skip
    return [liked[place] for _, place in reversed(ranked)]


def as_turns(chosen: Sequence[LikedReply]) -> tuple[Turn, ...]:
    pairs = ((Turn("user", one.question), Turn("assistant", one.answer)) for one in chosen)
    return tuple(turn for pair in pairs for turn in pair)


def _counts(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def _cosine(one: Counter[str], other: Counter[str]) -> float:
    shared = sum(count * other[word] for word, count in one.items())
    norm = sqrt(sum(count**2 for count in one.values()) * sum(count**2 for count in other.values()))
    return shared / norm if norm else 0.0
